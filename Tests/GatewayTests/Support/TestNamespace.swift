import Rules
import Runtime
import Synchronization
import Tree

@testable import Engine
@testable import LogStore

/// A namespace without a database. The test determines its changes.
final class TestNamespace {
    let live: LiveNamespace
    private var rules: RulesVersion

    init(
        id: Int64 = 1, name: String = "test", root: Node = .null, seq: Int64 = 0, rules: RuleSet = .allowAll
    ) {
        self.rules = RulesVersion(seq: 0, set: rules, enforcesIndexes: false)
        live = LiveNamespace(
            NamespaceRecord(
                id: id, name: name, head: seq, retainedFrom: seq + 1, streamKey: "0123456789abcdef",
                following: .nothing),
            Snapshot(seq: seq, root: root, rules: self.rules, batch: Self.batch(seq)), EngineSettings(),
            memory: NamespaceMemory(in: MemoryTotal()),
            host: NamespaceHost(schedule: { _ in }, prepare: { _, _ in }, recount: { _ in }, needRoom: {}))
    }

    var snapshot: Snapshot { live.snapshot }

    /// Returns the batch id of the entry with that seq.
    static func batch(_ seq: Int64) -> [UInt8] { Array("batch-\(seq)-0123456789".utf8) }

    /// Commits writes as one batch, and notifies the listeners. Returns the last seq.
    @discardableResult
    func commit(_ values: (path: String, value: Node)...) -> Int64 {
        var steps: [Step] = []
        var (seq, root) = (snapshot.seq, snapshot.root)
        for (text, value) in values {
            seq += 1
            let path = Path(splitting: text[...])
            let entry = Entry(
                seq: seq, committedAt: seq, operation: .set, path: path, changes: [Change(path: path, value: value)])
            let after = root.replacing(path, with: value)
            steps.append(Step(entry: entry, before: root, after: after, batch: Self.batch(seq)))
            root = after
        }
        live.publish(steps, Snapshot(seq: seq, root: root, rules: rules, batch: Self.batch(seq)))
        return seq
    }

    /// Restarts from a state that is not derived from the previous one.
    func reset(to root: Node, seq: Int64) {
        live.reset(to: Snapshot(seq: seq, root: root, rules: rules, batch: Self.batch(seq)))
    }

    /// Stores rules, as a separate entry.
    func adopt(_ json: String) throws {
        let seq = snapshot.seq + 1
        rules = RulesVersion(seq: seq, set: try RuleSet(json: Array(json.utf8)), enforcesIndexes: true)
        live.publish([], Snapshot(seq: seq, root: snapshot.root, rules: rules, batch: Self.batch(seq)))
    }

    /// Ends the namespace, as after its removal.
    func end() { live.end(with: snapshot, .unknownNamespace(live.name)) }
}
