import Foundation
import PathmirrorClient

// Who is there, on how many devices: presence URL USER
//
// Each device pushes an entry below the user's connections while it is connected. The server removes it when the connection ends, however
// that comes about, and notes when it was: so there are no ghosts after a crash.

let arguments = CommandLine.arguments
guard arguments.count == 3 else { fatalError("presence URL USER") }
let app = PathmirrorApp.configure(url: arguments[1])
let database = Database.database(app: app)
database.callbackQueue = DispatchQueue(label: "presence")
let user = arguments[2]

let connections = database.reference(withPath: "users/\(user)/connections")
let lastOnline = database.reference(withPath: "users/\(user)/lastOnline")
_ = database.reference(withPath: ".info/connected").observe(.value) { snapshot in
    guard snapshot.value as? Bool == true else { return }
    let device = connections.childByAutoId()
    // First what happens when we are gone, then that we are here: the other way round a crash in between would leave a ghost.
    device.onDisconnectRemoveValue()
    lastOnline.onDisconnectSetValue(ServerValue.timestamp())
    device.setValue(true) { error, _ in say(error.map { "refused: \($0)" } ?? "here") }
}

_ = database.reference(withPath: "users").observe(.value) { snapshot in
    let users = snapshot.childSnapshots.map { user in
        let devices = user.childSnapshot(forPath: "connections").childrenCount
        return devices > 0 ? "\(user.key) on \(devices)" : "\(user.key) gone"
    }
    say("users: \(users.joined(separator: ", "))")
}

func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

while readLine() != nil {}
await app.delete()
