import ClientCore
import Foundation
import Synchronization
import Tree

@testable import PathmirrorClient

/// A listener of the model: puts together again what it is told, and notes what can't be.
///
/// Events don't say where a step ends: as long as not all of a query is known, children are told without a value behind
/// them. But within a step what goes comes first, then what comes, what moves, and what changes. So the children are laid
/// in the query's order anew at each event, and who is named as the sibling before must be it: for a change at once, for
/// a move at the first change behind it (what moves also changes), and for a child that comes at once or, where its
/// sibling moves in the same step, then.
final class Watch: Sendable {
    fileprivate struct State {
        var children: [Key: Node] = [:]
        var value: Node?
        /// Behind which siblings those were said to be who may stand there only when all of the step has moved.
        var waiting: [Key: Key?] = [:]
        /// Those that moved and did not change yet, with what they were.
        var moved: [Key: Node] = [:]
        var error: DatabaseError?
        var problems: [String] = []
        var log: [String] = []
        var count = 0
    }

    let place: Path
    let query: PlainQuery
    let kinds: EventKinds
    private let state = Mutex(State())

    init(place: Path, query: PlainQuery, kinds: EventKinds) {
        self.place = place
        self.query = query
        self.kinds = kinds
    }

    var eventCount: Int { state.withLock { $0.count } }
    var error: DatabaseError? { state.withLock { $0.error } }
    /// The last events, for a failure's message.
    var log: [String] { state.withLock { $0.log } }

    /// What was wrong so far.
    var problems: [String] { state.withLock { state in state.problems.map { "\(self): \($0)" } } }

    func cancel(_ error: any Error) { state.withLock { $0.error = error as? DatabaseError } }

    /// Takes an event, on the callback queue.
    func take(_ kind: DataEvent.Kind, _ snapshot: DataSnapshot) {
        let node = snapshot.node
        state.withLock { state in
            state.count += 1
            if state.log.count > 60 { state.log.removeFirst(20) }
            state.log.append("\(kind) \(PlainText.json(node))")
            switch kind {
            case .childRemoved(let key): state.remove(key, node, query)
            case .childAdded(let key, let previous): state.add(key, node, previous, query)
            case .childMoved(let key, let previous): state.move(key, node, previous)
            case .childChanged(let key, let previous): state.change(key, node, previous, query)
            case .value:
                if state.value == node { state.problems.append("the value \(PlainText.json(node)) is told twice") }
                if query.ordered(node).map(\.key.text) != snapshot.childSnapshots.map(\.key) {
                    state.problems.append("the snapshot's children are in another order than the query's")
                }
                if kinds.contains(.allChildren) { state.endStep(node, query) }
                state.value = node
                checkPairs(node, &state.problems)
            }
        }
    }

    /// Both values of the pair are always written together: nobody may ever see one without the other.
    private func checkPairs(_ node: Node, _ problems: inout [String]) {
        guard place.depth == 2 || place.last == ModelPlaces.pair, query.selectsAll else { return }
        let pair = place.depth == 2 ? node.child(ModelPlaces.pair) : node
        if pair.child(Key("l")) != pair.child(Key("r")) {
            problems.append("half of an update is seen: \(PlainText.json(pair))")
        }
    }

    /// Compares with what the server has at the place.
    func check(_ node: Node) -> [String] {
        state.withLock { state in
            if let error = state.error { return ["\(self) has ended: \(error)"] }
            let expected = query.shown(of: node)
            var problems: [String] = []
            if kinds.contains(.value) {
                let shown = query.selectsAll ? state.value : state.value?.withoutPriority
                if shown != expected {
                    problems.append(
                        "\(self) shows \(state.value.map(PlainText.json) ?? "nothing"), not \(PlainText.json(expected))"
                    )
                }
            }
            if kinds.contains(.allChildren) {
                if Watch.State.bare(expected) != Node(children: state.children.map { ($0.key, $0.value) }) {
                    problems.append("\(self) has the children \(state.text), not \(PlainText.json(expected))")
                }
            }
            return problems
        }
    }
}

extension Watch: CustomStringConvertible {
    var description: String { "the listener \(kinds.rawValue) at \(place) \(query)" }
}

extension Watch.State {
    fileprivate var text: String {
        "\(children.sorted { $0.key < $1.key }.map { "\($0.key):\(PlainText.json($0.value))" })"
    }

    /// The children alone.
    fileprivate static func bare(_ node: Node) -> Node { node.isBranch ? node.withoutPriority : .null }

    fileprivate mutating func remove(_ key: Key, _ node: Node, _ query: PlainQuery) {
        arrive(query)
        guard let old = children.removeValue(forKey: key) else {
            return problems.append("\(key) goes and wasn't there")
        }
        if old != node { problems.append("\(key) goes with another value than it had") }
    }

    fileprivate mutating func add(_ key: Key, _ node: Node, _ previous: Key?, _ query: PlainQuery) {
        if children.updateValue(node, forKey: key) != nil { return problems.append("\(key) comes and was there") }
        if sibling(before: key, query) != previous { waiting.updateValue(previous, forKey: key) }
    }

    fileprivate mutating func move(_ key: Key, _ node: Node, _ previous: Key?) {
        guard let old = children[key] else { return problems.append("\(key) moves and wasn't there") }
        moved[key] = old
        children[key] = node
        waiting.updateValue(previous, forKey: key)
    }

    fileprivate mutating func change(_ key: Key, _ node: Node, _ previous: Key?, _ query: PlainQuery) {
        arrive(query)
        guard let told = children.updateValue(node, forKey: key) else {
            return problems.append("\(key) changes and wasn't there")
        }
        if let old = moved.removeValue(forKey: key) {
            if told != node { problems.append("\(key) changes to another value than it moved with") }
            if old == node { problems.append("\(key) changes to what it was") }
        } else if told == node {
            problems.append("\(key) changes to what it was")
        }
        checkPlace(of: key, behind: previous, query)
    }

    /// A value was told: the children that were told before it are its own.
    fileprivate mutating func endStep(_ node: Node, _ query: PlainQuery) {
        arrive(query)
        if !moved.isEmpty { problems.append("\(moved.keys.sorted()) have moved and not changed") }
        moved = [:]
        if Self.bare(node) != Node(children: children.map { ($0.key, $0.value) }) {
            problems.append("the children \(text) are not those of the value \(PlainText.json(node))")
        }
    }

    /// All that comes and moves in a step has been told.
    private mutating func arrive(_ query: PlainQuery) {
        for (key, previous) in waiting.sorted(by: { $0.key < $1.key }) {
            checkPlace(of: key, behind: previous, query)
        }
        waiting = [:]
    }

    private mutating func checkPlace(of key: Key, behind previous: Key?, _ query: PlainQuery) {
        let before = sibling(before: key, query)
        if before != previous {
            problems.append(
                "\(key) is told behind \(previous.map(\.text) ?? "nobody"), not \(before.map(\.text) ?? "nobody")")
        }
    }

    private func sibling(before key: Key, _ query: PlainQuery) -> Key? {
        let ordered = query.ordered(Node(children: children.map { ($0.key, $0.value) }))
        guard let place = ordered.firstIndex(where: { $0.key == key }), place > 0 else { return nil }
        return ordered[place - 1].key
    }
}
