import Tree
import Wire

@testable import ClientCore

/// The server of the model test: it executes one request at a time and sends the changes to all listens.
struct SyncModelServer {
    enum Request {
        /// A listen with its number, as the same query may be requested again.
        case listen(QuerySpec, ListenTag?, Int)
        /// A transaction with the hash of the value that it replaces.
        case transaction(PendingWrite, hash: String)
        case unlisten(QuerySpec, ListenTag?)
        case write(PendingWrite)

        var isTransaction: Bool { if case .transaction = self { true } else { false } }

        /// The number of the write, if it is one.
        var number: Int64? {
            switch self {
            case .write(let write), .transaction(let write, _): write.id.rawValue
            case .listen, .unlisten: nil
            }
        }
    }

    enum Message {
        case data(ChangeEvent, QuerySpec, ListenTag?, Int)
        /// The listen's data, which the client has already.
        case same(Node, QuerySpec, ListenTag?, Int)
        /// - Parameter isNothing: whether there is no data, and none was sent.
        case complete(QuerySpec, ListenTag?, Int, isNothing: Bool = false)
        case answer(WriteID, isRefused: Bool)
        case transactionAnswer(WriteID, RequestOutcome)
    }

    struct Listen {
        let spec: QuerySpec
        let tag: ListenTag?
        let number: Int
    }

    private(set) var tree = Node.null
    /// The executed writes, with the tree before each.
    private var log: [(entry: Entry, before: Node)] = []
    /// The number of writes in the tree.
    var seq: Int { log.count }
    private(set) var listens: [Listen] = []
    /// The outcomes of plain writes by their names, by which the server recognizes repeated ones.
    private var areRefused: [WriteID: Bool] = [:]

    /// Ends the connection.
    mutating func disconnect() { listens = [] }

    /// Executes a request; the messages are to be delivered in order, and together describe one state.
    ///
    /// - Parameters:
    ///   - hash: the hash of the client's data of the query.
    ///   - known: the data that the client has received, if it is to receive only the changes.
    ///   - after: the number of writes that the client has received, if it is to receive the others one after another.
    ///   - saysNothing: whether a listen without a hash to an empty path is answered without data.
    mutating func perform(
        _ request: Request, refuses: Bool, hash: String? = nil, known: Node? = nil, after: Int? = nil,
        saysNothing: Bool = false
    ) -> [Message] {
        switch request {
        case .listen(let spec, let tag, let number):
            listens.append(Listen(spec: spec, tag: tag, number: number))
            let node = select(spec)
            if let after { return missed(after, spec, tag, number) + [.complete(spec, tag, number)] }
            if saysNothing, node.isNull { return [.complete(spec, tag, number, isNothing: true)] }
            if let hash, !hash.isEmpty, hash == node.hash {
                return [.same(node, spec, tag, number), .complete(spec, tag, number)]
            }
            if let known {
                let news = ChangeEvent(from: known, to: node).map { Message.data($0, spec, tag, number) }
                return [news, .complete(spec, tag, number)].compactMap(\.self)
            }
            return [.data(.put(.root, node), spec, tag, number), .complete(spec, tag, number)]
        case .unlisten(let spec, let tag):
            listens.removeAll { $0.spec == spec && $0.tag == tag }
            return []
        case .write(let write):
            if let isRefused = areRefused[write.id] { return [.answer(write.id, isRefused: isRefused)] }
            let isRefused = refuses || setsPriorityOfNothing(write)
            areRefused[write.id] = isRefused
            return (isRefused ? [] : change(write.path, write.content)) + [.answer(write.id, isRefused: isRefused)]
        case .transaction(let write, let hash):
            guard hash == tree[write.path].hash else { return [.transactionAnswer(write.id, .refused(Self.stale))] }
            if refuses { return [.transactionAnswer(write.id, .refused(Self.denied))] }
            return change(write.path, write.content) + [.transactionAnswer(write.id, .done)]
        }
    }

    /// Executes a write of another client.
    mutating func change(_ path: Path, _ content: PendingWrite.Content) -> [Message] {
        let old = tree
        let changes: [Change] =
            switch content {
            case .overwrite(let node): [Change(path: path, value: node)]
            case .merge(let parts): parts.map { Change(path: path.appending($0.path), value: $0.value) }
            }
        // In the order in which they are applied and sent.
        let resolved = ApplicationOrder.sorted(
            changes.map { Change(path: $0.path, value: $0.value.resolved(existing: old[$0.path], timestamp: 1)) })
        for change in resolved { tree = tree.replacing(change.path, with: change.value) }
        var operation = Tree.Operation.set
        if case .merge = content { operation = .update }
        let entry = Entry(seq: 1, committedAt: 0, operation: operation, path: path, changes: resolved)
        log.append((entry, old))
        return listens.compactMap { listen in
            event(entry, old, tree, listen.spec, listen.tag).map { .data($0, listen.spec, listen.tag, listen.number) }
        }
    }

    /// Returns the event that a listener receives of a write, or nil.
    private func event(
        _ entry: Entry, _ before: Node, _ after: Node, _ spec: QuerySpec, _ tag: ListenTag?
    ) -> ChangeEvent? {
        guard tag != nil else { return ChangeEvent(entry, at: spec.path, before: before) }
        return ChangeEvent(
            from: spec.query.select(from: before[spec.path]), to: spec.query.select(from: after[spec.path]))
    }

    private func missed(_ since: Int, _ spec: QuerySpec, _ tag: ListenTag?, _ number: Int) -> [Message] {
        (since..<log.count).compactMap { index in
            let after = index + 1 < log.count ? log[index + 1].before : tree
            return event(log[index].entry, log[index].before, after, spec, tag).map { .data($0, spec, tag, number) }
        }
    }

    private func setsPriorityOfNothing(_ write: PendingWrite) -> Bool {
        guard write.path.namesPriority, let parent = write.path.parent else { return false }
        return tree[parent].isNull
    }

    private static let stale = RequestFailure(status: .dataStale)
    private static let denied = RequestFailure(status: .permissionDenied)

    private func select(_ spec: QuerySpec) -> Node {
        spec.loadsAllData ? tree[spec.path] : spec.query.select(from: tree[spec.path])
    }
}
