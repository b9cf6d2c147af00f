import Foundation
import PathmirrorClient

@main
struct Worker {
    static func main() async throws {
        let arguments = CommandLine.arguments
        PathmirrorApp.configure(url: arguments[1]) { _ in
            try String(contentsOfFile: arguments[3], encoding: .utf8).trimmingCharacters(in: .whitespacesAndNewlines)
        }
        let done = Database.database(url: arguments[2]).reference(withPath: "done")
        for try await event in Database.database().reference(withPath: "jobs").childEvents() {
            guard case .added(let job, after: _) = event else { continue }
            try await done.child(job.key).setValue(["at": ServerValue.timestamp()])
            try await job.ref.removeValue()
        }
    }
}
