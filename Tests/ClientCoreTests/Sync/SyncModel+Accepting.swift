import Tree
import Wire

@testable import ClientCore

/// Checks that no listener is shown a value that the client has replaced by a later write, answered or not, before the
/// server's data contains that value.
extension SyncModel {
    /// Records that the server has accepted a write. Listens answered before receive the write in their own data.
    mutating func noteAccepted(_ id: WriteID) {
        guard let record = client.writes.records[id] else { return }
        for listen in received where !reported.contains(listen.number) {
            if record.changes.contains(where: { Self.overlap($0.path, listen.spec.path) }) {
                overtaken.insert(listen.number)
            }
        }
        let changes = shown(of: record, id)
        let known = Set(changes.map(\.path))
        for change in record.changes where !record.isVisible || !known.contains(change.path) {
            forgetAccepted(at: change.path)
        }
        guard record.isVisible else { return }
        var kept: [Change] = []
        for change in changes {
            let isReported = received.contains {
                reported.contains($0.number) && Self.overlap($0.spec.path, change.path)
            }
            if isReported { forgetAccepted(at: change.path) } else { kept.append(change) }
        }
        accepted.append((id, kept))
        accepted.sort { $0.id < $1.id }
    }

    /// Records that a listen has received data, or was answered.
    mutating func forgetAccepted(_ event: ChangeEvent, _ spec: QuerySpec, _ number: Int) {
        // The first data is the whole selection, or all changes of it.
        if reported.insert(number).inserted { return forgetAccepted(at: spec.path) }
        switch event {
        case .put(let location, _): forgetAccepted(at: spec.path.appending(location))
        case .patch(let location, let changes):
            for change in changes { forgetAccepted(at: spec.path.appending(location).appending(change.path)) }
        }
    }

    /// Forgets accepted writes at a path. Earlier writes that overlap a forgotten one are forgotten as well.
    mutating func forgetAccepted(at path: Path) {
        var paths = [path]
        for index in accepted.indices.reversed() {
            let gone = accepted[index].changes.filter { change in paths.contains { Self.overlap($0, change.path) } }
            paths += gone.map(\.path)
            accepted[index].changes.removeAll { change in gone.contains { $0.path == change.path } }
        }
        accepted.removeAll { $0.changes.isEmpty }
    }

    /// Records that a listen has ended. Without a file, data in memory of this listen alone is released.
    mutating func stopAccepted(_ spec: QuerySpec) {
        guard store == nil else { return }
        if !received.contains(where: { $0.tag == nil && $0.spec.path.contains(spec.path) }) {
            forgetAccepted(at: spec.path)
        }
    }

    private static func overlap(_ left: Path, _ right: Path) -> Bool { left.contains(right) || right.contains(left) }

    /// Compares a listener's events with the result of the client's writes, where these alone determine it.
    func checkAccepted(_ replay: Replay, _ events: [DataEvent]) -> [String] {
        let spec = replay.registration.spec
        guard !accepted.isEmpty, !events.isEmpty else { return [] }
        let pending = client.writes.records.compactMap { id, record in
            record.isVisible ? (id: id, changes: shown(of: record, id)) : nil
        }
        let layers = (accepted + pending).sorted { $0.id < $1.id }.flatMap(\.changes)
        let hasValue = events.contains { if case .value = $0.kind { true } else { false } }
        var problems: [String] = []
        for path in Set(layers.map(\.path)) where !path.namesPriority && Self.overlap(path, spec.path) {
            let path = path.contains(spec.path) ? spec.path : path
            guard let wanted = Self.laid(layers, over: nil, at: path) else { continue }
            let rest = path.relative(to: spec.path)
            if hasValue, let value = replay.value, !isRight(value, rest, wanted, spec) {
                problems.append("is told \(Self.text(value)), with \(path) as \(Self.text(wanted)) accepted or pending")
            }
            if let key = rest.keys.first, let child = replay.children[key],
                child[rest.dropFirst(1)] != wanted
            {
                problems.append("is told the child \(Self.text(child)), with \(path) as \(Self.text(wanted))")
            }
        }
        return problems
    }

    /// Whether a value is right. A filtered query may lack children that the server has not sent.
    private func isRight(_ value: Node, _ rest: Path, _ wanted: Node, _ spec: QuerySpec) -> Bool {
        if spec.loadsAllData { return value[rest] == wanted }
        guard let key = rest.keys.first else {
            return value.childKeys.allSatisfy { value.child($0) == wanted.child($0) }
        }
        return value.child(key).isNull || value[rest] == wanted
    }
}
