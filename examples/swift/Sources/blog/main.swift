import Foundation
import PathmirrorClient

// A blog for a terminal: blog URL FOLDER NAME
//
//   post TEXT      star ID      list      offline      online      quit
//
// Posts are written to two places in one update, stars are counted by transactions, and all of it works without a connection.

let arguments = CommandLine.arguments
guard arguments.count == 4 else { fatalError("blog URL FOLDER NAME") }
let app = PathmirrorApp.configure(url: arguments[1], directory: URL(fileURLWithPath: arguments[2]))
let database = Database.database(app: app)
database.isPersistenceEnabled = true
database.callbackQueue = DispatchQueue(label: "blog")
let blog = Blog(database, author: arguments[3])

blog.follow()
while let line = readLine() {
    let words = line.split(separator: " ", maxSplits: 1).map(String.init)
    switch (words.first, words.count) {
    case ("post", 2): blog.post(words[1])
    case ("star", 2): blog.star(words[1])
    case ("list", 1): await blog.list()
    case ("offline", 1): database.goOffline()
    case ("online", 1): database.goOnline()
    case ("quit", 1):
        await app.delete()
        exit(0)
    default: say("post TEXT, star ID, list, offline, online, quit")
    }
}
await app.delete()
