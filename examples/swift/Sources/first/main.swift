import Foundation
import PathmirrorClient

// Notes that work with and without a connection. Usage: first URL FOLDER
PathmirrorApp.configure(
    url: CommandLine.arguments[1], directory: URL(fileURLWithPath: CommandLine.arguments[2]))
let database = Database.database()
database.isPersistenceEnabled = true
let notes = database.reference(withPath: "notes")

database.reference(withPath: ".info/connected").observe(.value) { snapshot in
    print(snapshot.value as? Bool == true ? "connected" : "on our own")
}
notes.queryLimited(toLast: 5).observe(.childAdded) { note in
    print("- \(note.childSnapshot(forPath: "text").value as? String ?? "?")")
}

// Each line of the terminal becomes a note: shown at once, kept on disk, and sent when there is a connection.
Thread.detachNewThread {
    while let line = readLine() {
        notes.childByAutoId().setValue(["text": line, "at": ServerValue.timestamp()]) { error, _ in
            print(error.map { "refused: \($0)" } ?? "saved: \(line)")
        }
    }
}
RunLoop.main.run()
