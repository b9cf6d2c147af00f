import Foundation
import PathmirrorClient

/// Lines come out whole, whichever thread writes them.
@Sendable func tell(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

let arguments = CommandLine.arguments
guard arguments.count >= 3 else {
    tell("usage: presence USER DEVICE [URL]")
    exit(2)
}
let (user, device) = (arguments[1], arguments[2])
PathmirrorApp.configure(url: arguments.count > 3 ? arguments[3] : "http://127.0.0.1:9000")
let database = Database.database()
let users = database.reference(withPath: "presence")
let mine = users.child(user)

// Each connection is an entry of its own: a user is there as long as one of the devices is. The server is asked to remove
// the entry before it is made, so that it can't stay behind.
database.reference(withPath: ".info/connected").observe(.value) { snapshot in
    guard snapshot.value as? Bool == true else { return tell("connecting …") }
    let connection = mine.child("connections").childByAutoId()
    connection.onDisconnectRemoveValue()
    connection.setValue(device)
    mine.child("lastSeen").onDisconnectSetValue(ServerValue.timestamp())
}

for type in [DataEventType.childAdded, .childChanged] {
    users.observe(type) { snapshot in
        let devices = snapshot.childSnapshot(forPath: "connections").childSnapshots.compactMap { $0.value as? String }
        if devices.isEmpty {
            let time = snapshot.childSnapshot(forPath: "lastSeen").value as? Double ?? 0
            tell("\(snapshot.key) was last here at \(Date(timeIntervalSince1970: time / 1000))")
        } else {
            tell("\(snapshot.key) is here: \(devices.sorted().joined(separator: ", "))")
        }
    }
}

let input = Thread {
    while let line = readLine() {
        switch line {
        case "offline": database.goOffline()
        case "online": database.goOnline()
        default: exit(0)
        }
    }
    exit(0)
}
input.start()
dispatchMain()
