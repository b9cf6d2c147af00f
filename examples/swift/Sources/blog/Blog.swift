import Foundation
import PathmirrorClient

/// What is written of a post.
struct Post: Codable {
    var author: String
    var text: String
    var starCount = 0
    var stars: [String: Bool]?
}

/// Posts at `/posts`, and each author's own at `/user-posts`.
struct Blog {
    private let root: DatabaseReference
    private let author: String

    init(_ database: Database, author: String) {
        root = database.reference()
        self.author = author
    }

    /// Tells of the newest posts as they come and change, from disk first.
    func follow() {
        let newest = root.child("posts").queryLimited(toLast: 20)
        _ = newest.observe(.childAdded) { show("new", $0) }
        _ = newest.observe(.childChanged) { show("changed", $0) }
        _ = root.child(".info/connected").observe(.value) { say($0.value as? Bool == true ? "connected" : "offline") }
    }

    /// Both places are written, or none.
    func post(_ text: String) {
        guard let key = root.child("posts").childByAutoId().key else { return }
        let post: [String: Any] = ["author": author, "text": text, "starCount": 0]
        root.updateChildValues(["posts/\(key)": post, "user-posts/\(author)/\(key)": post]) { error, _ in
            say(error.map { "refused \(key): \($0)" } ?? "saved \(key)")
        }
    }

    /// Stars a post, or takes the star back. Two people may do so at once: the transaction counts both.
    func star(_ key: String) {
        let author = author
        root.child("posts/\(key)").runTransactionBlock({ data in
            guard var post = data.value as? [String: Any] else { return .success(withValue: data) }
            var stars = post["stars"] as? [String: Bool] ?? [:]
            var count = post["starCount"] as? Int ?? 0
            if stars.removeValue(forKey: author) != nil {
                count -= 1
            } else {
                stars[author] = true
                count += 1
            }
            post["stars"] = stars
            post["starCount"] = count
            data.value = post
            return .success(withValue: data)
        }) { error, isCommitted, _ in
            say(error.map { "not starred \(key): \($0)" } ?? (isCommitted ? "starred \(key)" : "not starred \(key)"))
        }
    }

    /// The author's own posts, from the server or, without it, from what is known here.
    func list() async {
        do {
            let posts = try await root.child("user-posts/\(author)").getData()
            for post in posts.childSnapshots { show("mine", post) }
            say("listed")
        } catch {
            say("not listed: \(error)")
        }
    }

    private func show(_ word: String, _ snapshot: DataSnapshot) {
        guard let post = try? snapshot.data(as: Post.self) else { return }
        say("\(word) \(snapshot.key) \(post.author): \(post.text) (\(post.starCount) stars)")
    }
}

/// Writes a line at once, also where the output is no terminal.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }
