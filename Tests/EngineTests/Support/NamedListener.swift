import Runtime
import Tree

@testable import Engine

/// A listener that records its notifications as texts.
final class NamedListener: ChangeListener {
    let name: String
    private let state = MutexBox<[String]>([])

    init(_ name: String) { self.name = name }

    func changed(_ steps: [Step]) {
        state.withLock { $0.append("steps " + steps.map { "\($0.entry.seq)" }.joined(separator: " ")) }
    }

    func reset(to snapshot: Snapshot) { state.withLock { $0.append("reset \(snapshot.seq)") } }

    func rulesChanged(in snapshot: Snapshot) { state.withLock { $0.append("rules \(snapshot.rules.seq)") } }

    func ended() { state.withLock { $0.append("ended") } }

    /// The notifications in order.
    var reported: [String] { state.withLock { $0 } }
}
