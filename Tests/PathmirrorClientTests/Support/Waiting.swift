import Foundation
import Synchronization

struct Late: Error, CustomStringConvertible {
    let description: String
}

/// Polls until the condition holds.
func until(
    _ what: String, seconds: Int = 90, isolation: isolated (any Actor)? = #isolation, _ condition: () throws -> Bool
) async throws {
    for _ in 0..<(seconds * 200) {
        if try condition() { return }
        try await Task.sleep(for: .milliseconds(5))
    }
    throw Late(description: "still not: \(what)")
}

/// The events that blocks on other threads received, in order.
final class Recorder<Event: Sendable>: Sendable {
    private let list = Mutex<[Event]>([])

    var events: [Event] { list.withLock { $0 } }

    func record(_ event: Event) { list.withLock { $0.append(event) } }
    func clear() { list.withLock { $0 = [] } }
}
