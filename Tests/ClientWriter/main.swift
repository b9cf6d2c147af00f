import Foundation
import PathmirrorClient

// An app that a test kills: `client-writer URL FOLDER PATH FIRST [offline|finish]`. Writes FIRST, FIRST + 1, … at
// PATH/NUMBER and the same number at PATH/last, increments PATH/sum with each, and prints the number once both calls
// have returned. `finish` writes only a final marker, prints `sent` when the server has all earlier writes, and ends.

let arguments = CommandLine.arguments
guard arguments.count >= 5, var number = Int(arguments[4]) else { exit(2) }
PathmirrorApp.configure(url: arguments[1], directory: URL(fileURLWithPath: arguments[2]))
let database = Database.database()
database.isPersistenceEnabled = true
database.callbackQueue = DispatchQueue(label: "callbacks")
let mode = arguments.count > 5 ? arguments[5] : ""
if mode == "offline" { database.goOffline() }
let ref = database.reference(withPath: arguments[3])

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

if mode == "finish" {
    // Writes are sent in order, so this one is answered last.
    ref.child("finished").setValue(true) { error, _ in
        say(error.map { "failed \($0)" } ?? "sent")
        exit(error == nil ? 0 : 1)
    }
    dispatchMain()
}
while true {
    ref.child(String(number)).setValue(
        ["n": number, "text": String(repeating: "x", count: number % 500)] as [String: Any])
    ref.updateChildValues(["last": number, "sum": ServerValue.increment(1), "counted/\(number)": true])
    say(String(number))
    number += 1
}
