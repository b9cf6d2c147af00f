import Foundation
import PathmirrorClient

/// Lines come out whole, whichever thread writes them.
@Sendable func tell(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

let arguments = CommandLine.arguments
guard arguments.count >= 2 else {
    tell("usage: blog USER [URL [FOLDER]]")
    exit(2)
}
PathmirrorApp.configure(
    url: arguments.count > 2 ? arguments[2] : "http://127.0.0.1:9000",
    directory: arguments.count > 3 ? URL(fileURLWithPath: arguments[3]) : nil)
let database = Database.database()
database.isPersistenceEnabled = true
let blog = Blog(root: database.reference(withPath: "blog"), user: arguments[1])

blog.root.child("posts").keepSynced(true)
blog.follow(tell)
tell("post TEXT, star ID, offline, online, quit")

let input = Thread {
    while let line = readLine() {
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        switch words.first {
        case "post" where words.count == 2:
            do { try blog.publish(words[1], tell) } catch { tell("not published: \(error)") }
        case "star" where words.count == 2: blog.toggleStar(of: words[1], tell)
        case "offline": database.goOffline()
        case "online": database.goOnline()
        case "quit": exit(0)
        default: tell("post TEXT, star ID, offline, online, quit")
        }
    }
    exit(0)
}
input.start()
dispatchMain()
