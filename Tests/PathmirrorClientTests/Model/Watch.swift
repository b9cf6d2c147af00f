import ClientCore
import Foundation
import Synchronization
import Tree

@testable import PathmirrorClient

/// A listener of the model: it rebuilds the value from its events, and records contradictions.
///
/// Events don't mark the end of a step: while a query is not known completely, children are reported without a value
/// after them. But within a step removals come first, then additions, moves and changes. So the children are sorted in
/// the query's order again at each event, and the sibling that an event names as the preceding one must be it: for a
/// change at once, for a move at the first change after it (a moved child also changes), and for an added child at once
/// or, if its sibling moves in the same step, after that move.
final class Watch: Sendable {
    fileprivate struct State {
        var children: [Key: Node] = [:]
        var value: Node?
        /// The preceding siblings that may be right only after all moves of the step.
        var waiting: [Key: Key?] = [:]
        /// The children that moved and have not changed yet, with their former values.
        var moved: [Key: Node] = [:]
        var error: DatabaseError?
        var problems: [String] = []
        var log: [String] = []
        var count = 0
    }

    let path: Path
    let query: PlainQuery
    let kinds: EventKinds
    private let state = Mutex(State())

    init(path: Path, query: PlainQuery, kinds: EventKinds) {
        self.path = path
        self.query = query
        self.kinds = kinds
    }

    var eventCount: Int { state.withLock { $0.count } }
    var error: DatabaseError? { state.withLock { $0.error } }
    /// The last events, for a failure's message.
    var log: [String] { state.withLock { $0.log } }

    /// The problems found so far.
    var problems: [String] { state.withLock { state in state.problems.map { "\(self): \($0)" } } }

    func cancel(_ error: any Error) { state.withLock { $0.error = error as? DatabaseError } }

    /// Applies an event, on the callback queue.
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

    /// Checks that both values of the pair are seen together, as they are always written together.
    private func checkPairs(_ node: Node, _ problems: inout [String]) {
        guard path.depth == 2 || path.last == ModelPaths.pair, query.selectsAll else { return }
        let pair = path.depth == 2 ? node.child(ModelPaths.pair) : node
        if pair.child(Key("l")) != pair.child(Key("r")) {
            problems.append("half of an update is seen: \(PlainText.json(pair))")
        }
    }

    /// Compares with the server's value at the path.
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
    var description: String { "the listener \(kinds.rawValue) at \(path) \(query)" }
}

extension Watch.State {
    fileprivate var text: String {
        "\(children.sorted { $0.key < $1.key }.map { "\($0.key):\(PlainText.json($0.value))" })"
    }

    /// Returns the children alone.
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
        guard let reported = children.updateValue(node, forKey: key) else {
            return problems.append("\(key) changes and wasn't there")
        }
        if let old = moved.removeValue(forKey: key) {
            if reported != node { problems.append("\(key) changes to another value than it moved with") }
            if old == node { problems.append("\(key) changes to what it was") }
        } else if reported == node {
            problems.append("\(key) changes to what it was")
        }
        checkOrder(of: key, after: previous, query)
    }

    /// Checks that a reported value consists of the children reported before it.
    fileprivate mutating func endStep(_ node: Node, _ query: PlainQuery) {
        arrive(query)
        if !moved.isEmpty { problems.append("\(moved.keys.sorted()) have moved and not changed") }
        moved = [:]
        if Self.bare(node) != Node(children: children.map { ($0.key, $0.value) }) {
            problems.append("the children \(text) are not those of the value \(PlainText.json(node))")
        }
    }

    /// Checks the siblings after all additions and moves of a step.
    private mutating func arrive(_ query: PlainQuery) {
        for (key, previous) in waiting.sorted(by: { $0.key < $1.key }) {
            checkOrder(of: key, after: previous, query)
        }
        waiting = [:]
    }

    private mutating func checkOrder(of key: Key, after previous: Key?, _ query: PlainQuery) {
        let before = sibling(before: key, query)
        if before != previous {
            problems.append(
                "\(key) is told behind \(previous.map(\.text) ?? "nobody"), not \(before.map(\.text) ?? "nobody")")
        }
    }

    private func sibling(before key: Key, _ query: PlainQuery) -> Key? {
        let ordered = query.ordered(Node(children: children.map { ($0.key, $0.value) }))
        guard let index = ordered.firstIndex(where: { $0.key == key }), index > 0 else { return nil }
        return ordered[index - 1].key
    }
}
