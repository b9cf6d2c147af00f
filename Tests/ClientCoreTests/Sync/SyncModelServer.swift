import Tree
import Wire

@testable import ClientCore

/// A server of the model test: it does one request at a time and tells all listens of what that changed.
struct SyncModelServer {
    enum Request {
        /// With a number, as the same query may be asked for again.
        case listen(QuerySpec, ListenTag?, Int)
        case unlisten(QuerySpec, ListenTag?)
        case write(PendingWrite)
    }

    enum Message {
        case data(ChangeEvent, QuerySpec, ListenTag?, Int)
        case complete(QuerySpec, ListenTag?)
        case answer(WriteID, isRefused: Bool)
    }

    struct Listen {
        let spec: QuerySpec
        let tag: ListenTag?
        let number: Int
    }

    private(set) var tree = Node.null
    private(set) var listens: [Listen] = []

    /// The connection is lost.
    mutating func forgetListens() { listens = [] }

    /// Does a request; the messages are to be delivered in order, and together tell of one state.
    ///
    /// - Parameter known: what a client has of a listen that it sends again: then only what is new is sent.
    mutating func perform(_ request: Request, refuses: Bool, known: Node? = nil) -> [Message] {
        switch request {
        case .listen(let spec, let tag, let number):
            listens.append(Listen(spec: spec, tag: tag, number: number))
            let value = select(spec)
            guard let known else { return [.data(.put(.root, value), spec, tag, number), .complete(spec, tag)] }
            let news = ChangeEvent(from: known, to: value).map { Message.data($0, spec, tag, number) }
            return [news, .complete(spec, tag)].compactMap(\.self)
        case .unlisten(let spec, let tag):
            listens.removeAll { $0.spec == spec && $0.tag == tag }
            return []
        case .write(let write):
            if refuses { return [.answer(write.id, isRefused: true)] }
            return change(write.path, write.content) + [.answer(write.id, isRefused: false)]
        }
    }

    /// Somebody's write.
    mutating func change(_ path: Path, _ content: PendingWrite.Content) -> [Message] {
        let old = tree
        let changes: [Change] =
            switch content {
            case .overwrite(let node): [Change(path: path, value: node)]
            case .merge(let parts): parts.map { Change(path: path.appending($0.path), value: $0.value) }
            }
        let resolved = changes.map {
            Change(path: $0.path, value: $0.value.resolved(existing: old[$0.path], timestamp: 1))
        }
        for change in ApplicationOrder.sorted(resolved) { tree = tree.replacing(change.path, with: change.value) }
        var operation = Tree.Operation.set
        if case .merge = content { operation = .update }
        let entry = Entry(seq: 1, committedAt: 0, operation: operation, path: path, changes: resolved)
        return listens.compactMap { listen in
            let event =
                listen.tag == nil
                ? ChangeEvent(entry, at: listen.spec.path, before: old)
                : ChangeEvent(
                    from: listen.spec.query.select(from: old[listen.spec.path]),
                    to: listen.spec.query.select(from: tree[listen.spec.path]))
            return event.map { .data($0, listen.spec, listen.tag, listen.number) }
        }
    }

    private func select(_ spec: QuerySpec) -> Node {
        spec.loadsAllData ? tree[spec.path] : spec.query.select(from: tree[spec.path])
    }
}
