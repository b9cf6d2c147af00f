import TestSupport
import Tree
import Wire

@testable import ClientCore

/// The expected values, computed from the data sent and written.
extension SyncModel {
    mutating func check(everything: Bool) {
        checkKept()
        guard problems.isEmpty else { return }
        for (id, replay) in replays.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            guard let expected = expected(replay.registration.spec) else {
                if everything { problems.append("#\(id.rawValue) has not been served") }
                continue
            }
            problems += replay.check(expected).map { "#\(id.rawValue) \($0), not \(Self.text(expected))" }
        }
    }

    /// The writes shown over the server's data, in order. Increments are counted once, when they are made
    /// (`checkCounted`) or when their base becomes known; the value then is the client's. The values of transactions
    /// are the client's, too.
    private var overlay: [[Change]] {
        client.writes.records.sorted { $0.key < $1.key }.compactMap { id, record in
            record.isVisible ? shown(of: record, id) : nil
        }
    }

    func shown(of record: WriteTree.Record, _ id: WriteID) -> [Change] {
        let plain = pending.first { $0.id == id }.map(changes)
        let own = record.changes.compactMap { counted -> Change? in
            if counted.value.hasIncrement { return nil }
            guard let plain = plain?.first(where: { $0.path == counted.path }) else { return counted }
            return plain.value.hasIncrement ? counted : plain
        }
        return ApplicationOrder.sorted(own)
    }

    /// Returns the value that a listener should be shown, if the sent data determines it.
    func expected(_ spec: QuerySpec) -> Node? {
        let full = received.first { $0.tag == nil && $0.spec.path.contains(spec.path) }
        if let full {
            guard let node = full.node else { return nil }
            let local = written(node, at: full.spec.path)?[spec.path.relative(to: full.spec.path)] ?? .null
            return spec.loadsAllData ? local : spec.query.select(from: local)
        }
        guard let own = received.first(where: { $0.spec == spec })?.node else { return nil }
        if let local = written(nil, at: spec.path) { return spec.query.select(from: local) }
        var keys = Set((own.isBranch ? Array(children(own)) : []).map(\.0))
        for changes in overlay {
            for change in changes where spec.path.contains(change.path) && change.path != spec.path {
                keys.insert(change.path[spec.path.depth])
            }
        }
        keys.remove(.priority)
        let candidates = keys.map { key in
            let sent = own.child(key)
            return (key, written(sent.isNull ? nil : sent, at: spec.path.appending(key)) ?? .null)
        }
        return spec.query.select(from: Node(children: candidates))
    }

    private func children(_ node: Node) -> [(Key, Node)] {
        guard case .branch(let branch) = node else { return [] }
        return branch.children.map { ($0.key, $0.node) }
    }

    func changes(of write: PendingWrite) -> [Change] {
        switch write.content {
        case .overwrite(let node): [Change(path: write.path, value: node)]
        case .merge(let changes):
            ApplicationOrder.sorted(changes.map { Change(path: write.path.appending($0.path), value: $0.value) })
        }
    }

    /// Returns a value with all pending writes applied in order; nil while its base is unknown.
    func written(_ node: Node?, at path: Path) -> Node? { Self.laid(overlay.flatMap { $0 }, over: node, at: path) }

    static func laid(_ changes: [Change], over node: Node?, at path: Path) -> Node? {
        var node = node
        for change in changes {
            if change.path.contains(path) {
                node = change.value[path.relative(to: change.path)]
            } else if path.contains(change.path) {
                node = node?.replacing(change.path.relative(to: path), with: change.value)
            }
        }
        return node
    }
}
