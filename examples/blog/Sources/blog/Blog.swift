import Foundation
import PathmirrorClient

/// A post, as it is stored at two places: `posts/ID` and `user-posts/AUTHOR/ID`.
struct Post: Codable {
    var author: String
    var body: String
    var starCount = 0
    var stars: [String: Bool]? = nil
    @ServerTimestamp var created: Date?
}

/// What one user does with the blog.
struct Blog {
    let root: DatabaseReference
    let user: String

    /// Both places are written at once: nobody sees the post at one of them only.
    func publish(_ body: String, _ done: @escaping @Sendable (String) -> Void) throws {
        guard let id = root.child("posts").childByAutoId().key else { return }
        let post = try Database.Encoder().encode(Post(author: user, body: body, created: nil))
        root.updateChildValues(["posts/\(id)": post, "user-posts/\(user)/\(id)": post]) { error, _ in
            done(error.map { "not published: \($0.localizedDescription)" } ?? "published \(id)")
        }
    }

    /// Adds the user's star or takes it back, at both places, however many users do so at the same time.
    func toggleStar(of id: String, _ done: @escaping @Sendable (String) -> Void) {
        let user = user
        let root = root
        let toggle: @Sendable (MutableData) -> TransactionResult = { data in
            // The first value is what this client knows of the post: nothing, before it has come.
            guard data.hasChild(atPath: "author") else { return .success(withValue: data) }
            let star = data.childData(byAppendingPath: "stars/\(user)")
            let count = data.childData(byAppendingPath: "starCount")
            let isStarred = star.value as? Bool == true
            star.value = isStarred ? nil : true
            count.value = (count.value as? Int ?? 0) + (isStarred ? -1 : 1)
            return .success(withValue: data)
        }
        root.child("posts/\(id)").runTransactionBlock(toggle) { error, _, snapshot in
            guard let snapshot, let author = snapshot.childSnapshot(forPath: "author").value as? String else {
                return done("no star: \(error?.localizedDescription ?? "there is no such post")")
            }
            let count = snapshot.childSnapshot(forPath: "starCount").value as? Int ?? 0
            root.child("user-posts/\(author)/\(id)").runTransactionBlock(toggle)
            done("\(id) has \(count) stars")
        }
    }

    /// Tells each of the last posts when it comes and when its stars change.
    func follow(_ tell: @escaping @Sendable (String) -> Void) {
        let recent = root.child("posts").queryLimited(toLast: 20)
        for type in [DataEventType.childAdded, .childChanged] {
            recent.observe(type) { snapshot in
                guard let post = try? snapshot.data(as: Post.self) else { return }
                tell("\(snapshot.key) \(post.author): \(post.body) (\(post.starCount) stars)")
            }
        }
    }
}
