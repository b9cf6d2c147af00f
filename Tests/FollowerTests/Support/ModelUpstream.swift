import ClientCore
import TestSupport
import Tree
import Wire

@testable import Follower

/// An upstream as a pure value: it holds a tree, answers the messages of one connection, and pushes writes.
struct ModelUpstream {
    private struct Listen {
        let target: ListenTarget
        var view: Node
    }

    private(set) var tree = Node.null
    private var listens: [Listen] = []
    /// Messages for the client, in order.
    private(set) var outgoing: [[UInt8]] = []
    /// A listen whose data has more rows is refused as too big; nil for no limit.
    var maxRows: Int?
    /// Whether initial data is sent in several messages.
    var splitsData = false
    /// The names of all actions that the client has sent.
    private(set) var actions: [String] = []
    private(set) var dataMessages = 0
    private(set) var rangeMessages = 0

    init(_ tree: Node = .null) { self.tree = tree }

    mutating func takeOutgoing() -> [UInt8]? { outgoing.isEmpty ? nil : outgoing.removeFirst() }

    /// Begins a connection.
    mutating func connected() {
        listens = []
        outgoing = [ServerMessage.hello(timestamp: 1_700_000_000_000, host: "upstream.test", session: "s")]
    }

    mutating func received(_ text: [UInt8]) {
        guard let message = try? ClientMessageParser.parse(text), case .request(let request) = message else { return }
        switch request.action {
        case .listen(let target, let hash, let compound, _):
            actions.append("listen")
            listen(request.number, target, hash, compound)
        case .unlisten(let target):
            actions.append("unlisten")
            listens.removeAll { $0.target == target }
            answer(request.number, "ok")
        case .authenticate:
            actions.append("authenticate")
            outgoing.append(
                Array("{\"t\":\"d\",\"d\":{\"r\":\(request.number),\"b\":{\"s\":\"ok\",\"d\":{\"auth\":null}}}}".utf8))
        default:
            actions.append("\(request.action)")
            answer(request.number, "ok")
        }
    }

    private mutating func answer(_ number: Int64, _ status: String) {
        outgoing.append(ServerMessage.answer(number, status, .emptyObject))
    }

    private func view(_ target: ListenTarget) -> Node {
        let node = tree[target.path]
        return target.query?.select(from: node) ?? node
    }

    private mutating func listen(
        _ number: Int64, _ target: ListenTarget, _ hash: String, _ compound: CompoundHash?
    ) {
        let view = view(target)
        if let maxRows, view.rowCount > maxRows { return answer(number, "too_big") }
        listens.append(Listen(target: target, view: view))
        if view.hash != hash {
            if let compound, target.query == nil {
                rangeMessages += 1
                push(.ranges(target.path, RangeMerge.differences(view, compound), tag: target.tag))
            } else if splitsData, target.query == nil, case .branch(let branch) = view {
                push(.change(.put(target.path, .null), tag: target.tag))
                for entry in branch.children {
                    dataMessages += 1
                    push(.change(.put(target.path.appending(entry.key), entry.node), tag: target.tag))
                }
                if !branch.priority.isNull {
                    push(.change(.put(target.path.appending(.priority), branch.priority), tag: target.tag))
                }
            } else {
                dataMessages += 1
                push(.change(.put(target.path, view), tag: target.tag))
            }
        }
        answer(number, "ok")
    }

    private mutating func push(_ push: ServerPush) { outgoing.append(ServerMessage.push(push).text) }

    /// Executes a write of another client.
    mutating func write(at base: Path, _ changes: [Change], isUpdate: Bool) {
        let before = tree
        tree = tree.replacing(ApplicationOrder.sorted(changes))
        let entry = Entry(
            seq: 1, committedAt: 0, operation: isUpdate ? .update : .set, path: base, changes: changes)
        for index in listens.indices {
            let target = listens[index].target
            if target.query == nil {
                if let event = ChangeEvent(entry, at: target.path, before: before) {
                    push(.change(Self.absolute(event, target.path), tag: target.tag))
                }
                continue
            }
            let new = view(target)
            if let event = ChangeEvent(from: listens[index].view, to: new) {
                push(.change(Self.absolute(event, target.path), tag: target.tag))
            }
            listens[index].view = new
        }
    }

    private static func absolute(_ event: ChangeEvent, _ path: Path) -> ChangeEvent {
        switch event {
        case .put(let relative, let node): .put(path.appending(relative), node)
        case .patch(let relative, let changes): .patch(path.appending(relative), changes)
        }
    }
}
