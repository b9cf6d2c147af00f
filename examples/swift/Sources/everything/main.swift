import Foundation
import PathmirrorClient

// Each part of the library once, from the main actor and from tasks, in Swift 6 mode: everything URL FOLDER

struct Order: Codable, Equatable {
    var item: String
    var count: Int
    @ServerTimestamp var at: Date?
}

let arguments = CommandLine.arguments
guard arguments.count == 3 else { fatalError("everything URL FOLDER") }
let app = PathmirrorApp.configure(
    url: arguments[1], directory: URL(fileURLWithPath: arguments[2]), tokenProvider: { _ in nil })
let database = Database.database()
database.isPersistenceEnabled = true
database.persistenceCacheSizeBytes = 2 << 20
let root = database.reference(withPath: "everything").childByAutoId()
let everything = Everything(root)

// Top-level code belongs to the main actor, and so do these blocks: they run on the main queue.
var connections = 0
database.reference(withPath: ".info/connected").observe(.value) { snapshot in
    if snapshot.value as? Bool == true { connections += 1 }
}
do {
    try await everything.write()
    try await everything.read()
    try await everything.listen()
    try await everything.transact()
    try await everything.leave()
    try await everything.stayAway(database)
} catch {
    fatalError("\(error)")
}
print("connected \(connections > 0), all of it works")
await app.delete()
