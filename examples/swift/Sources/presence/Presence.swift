import Foundation
import PathmirrorClient

/// Each device pushes an entry below the user's connections while it is connected. The server removes it when the connection ends, however
/// that comes about, and notes when it was: so there are no ghosts after a crash.
struct Presence {
    private let database: Database

    init(_ database: Database) { self.database = database }

    /// Is there as a user, from now on, whenever there is a connection.
    func be(_ user: String) {
        let place = database.reference(withPath: "users/\(user)")
        _ = database.reference(withPath: ".info/connected").observe(.value) { snapshot in
            guard snapshot.value as? Bool == true else { return }
            let device = place.child("connections").childByAutoId()
            // First what happens when we are gone, then that we are here: the other way round a crash in between would leave a ghost.
            device.onDisconnectRemoveValue()
            place.child("lastOnline").onDisconnectSetValue(ServerValue.timestamp())
            device.setValue(true) { error, _ in say(error.map { "refused: \($0)" } ?? "here") }
        }
    }

    /// Tells who is there.
    func follow() {
        _ = database.reference(withPath: "users").observe(.value) { snapshot in
            let users = snapshot.childSnapshots.map { user in
                let devices = user.childSnapshot(forPath: "connections").childrenCount
                return devices > 0 ? "\(user.key) on \(devices)" : "\(user.key) gone"
            }
            say("users: \(users.joined(separator: ", "))")
        }
    }
}

/// Writes a line at once, also where the output is no terminal.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }
