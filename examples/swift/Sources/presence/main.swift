import Foundation
import PathmirrorClient

// Who is there, on how many devices: presence URL USER

let arguments = CommandLine.arguments
guard arguments.count == 3 else { fatalError("presence URL USER") }
let app = PathmirrorApp.configure(url: arguments[1])
let database = Database.database(app: app)
// The main thread reads the terminal, so blocks run elsewhere.
database.callbackQueue = DispatchQueue(label: "presence")
let presence = Presence(database)
presence.follow()
presence.be(arguments[2])
while readLine() != nil {}
await app.delete()
