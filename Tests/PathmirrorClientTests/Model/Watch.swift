import ClientCore
import Foundation
import Synchronization
import Tree

@testable import PathmirrorClient

/// A listener of the model: puts together again what it is told, and notes what can't be.
///
/// What the list of children must be is known whenever a value is told: it ends a step, so that the children told before
/// it, laid behind the siblings that were named, must stand in the query's order.
final class Watch: Sendable {
    fileprivate struct State {
        var children: [(key: Key, node: Node)] = []
        var value: Node?
        /// Children that came or moved since the last value, and behind which siblings.
        var placed: [Key: Key?] = [:]
        var changed: [Key: Key?] = [:]
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
            case .childRemoved(let key): state.remove(key, node)
            case .childAdded(let key, let previous): state.add(key, node, previous)
            case .childMoved(let key, let previous): state.move(key, previous)
            case .childChanged(let key, let previous): state.change(key, node, previous)
            case .value:
                if state.value == node { state.problems.append("the value \(PlainText.json(node)) is told twice") }
                let ordered = query.ordered(node)
                if ordered.map(\.key.text) != snapshot.childSnapshots.map(\.key) {
                    state.problems.append("the snapshot's children are in another order than the query's")
                }
                if kinds.contains(.allChildren) { state.endStep(ordered, isFirst: state.value == nil) }
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
                let all = query.ordered(expected)
                let isSame =
                    kinds.contains(.value)
                    ? all.elementsEqual(state.children) { $0.key == $1.key && $0.node == $1.node }
                    : Node(children: all.map { ($0.key, $0.node) })
                        == Node(children: state.children.map { ($0.key, $0.node) })
                if !isSame {
                    let children = state.children.map { "\($0.key):\(PlainText.json($0.node))" }
                    problems.append("\(self) has the children \(children), not \(PlainText.json(expected))")
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
    private func index(of key: Key) -> Int? { children.firstIndex { $0.key == key } }

    /// Behind a sibling; at the end where that isn't there (yet).
    private mutating func insert(_ key: Key, _ node: Node, behind previous: Key?) {
        let place = previous.map { index(of: $0).map { $0 + 1 } ?? children.count } ?? 0
        children.insert((key, node), at: place)
    }

    fileprivate mutating func remove(_ key: Key, _ node: Node) {
        guard let index = index(of: key) else { return problems.append("\(key) goes and wasn't there") }
        if children.remove(at: index).node != node { problems.append("\(key) goes with another value than it had") }
        placed[key] = nil
        changed[key] = nil
    }

    fileprivate mutating func add(_ key: Key, _ node: Node, _ previous: Key?) {
        if index(of: key) != nil { return problems.append("\(key) comes and was there") }
        insert(key, node, behind: previous)
        placed.updateValue(previous, forKey: key)
    }

    fileprivate mutating func move(_ key: Key, _ previous: Key?) {
        guard let index = index(of: key) else { return problems.append("\(key) moves and wasn't there") }
        let child = children.remove(at: index)
        insert(key, child.node, behind: previous)
        placed.updateValue(previous, forKey: key)
    }

    fileprivate mutating func change(_ key: Key, _ node: Node, _ previous: Key?) {
        guard let index = index(of: key) else { return problems.append("\(key) changes and wasn't there") }
        if children[index].node == node { problems.append("\(key) changes to what it was") }
        children[index].node = node
        changed.updateValue(previous, forKey: key)
    }

    /// A value was told, whose children are these. Before the first one, children may have come in several steps.
    fileprivate mutating func endStep(_ ordered: [(key: Key, node: Node)], isFirst: Bool) {
        if isFirst {
            children.sort { left, right in
                let place = { (key: Key) in ordered.firstIndex { $0.key == key } ?? .max }
                return place(left.key) < place(right.key)
            }
        } else if !ordered.elementsEqual(children, by: { $0.key == $1.key }) {
            // A sibling that was named may have come or moved later in the same step.
            arrange()
        }
        if !ordered.elementsEqual(children, by: { $0.key == $1.key && $0.node == $1.node }) {
            let shown = children.map { "\($0.key):\(PlainText.json($0.node))" }
            problems.append(
                "the children \(shown) are not those of the value \(ordered.map { "\($0.key):\(PlainText.json($0.node))" })"
            )
        }
        for (key, previous) in changed where !isFirst {
            guard let place = ordered.firstIndex(where: { $0.key == key }) else { continue }
            let before = place == 0 ? nil : ordered[place - 1].key
            if before != previous {
                problems.append(
                    "\(key) changes behind \(String(describing: previous)), not \(String(describing: before))")
            }
        }
        placed = [:]
        changed = [:]
    }

    /// Lays the children that came or moved behind their siblings, as these stand at the end of the step.
    private mutating func arrange() {
        guard !placed.isEmpty else { return }
        var waiting = children.filter { placed[$0.key] != nil }
        children.removeAll { placed[$0.key] != nil }
        while !waiting.isEmpty {
            let ready = waiting.firstIndex { child in
                guard let previous = placed[child.key] ?? nil else { return true }
                return index(of: previous) != nil
            }
            guard let ready else { return problems.append("\(waiting.map(\.key)) are behind what isn't there") }
            let child = waiting.remove(at: ready)
            insert(child.key, child.node, behind: placed[child.key] ?? nil)
        }
    }
}
