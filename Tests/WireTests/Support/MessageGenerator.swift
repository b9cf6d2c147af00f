import TestSupport
import Tree
import Wire

/// Random messages of both sides, from the random values and paths of `TreeGenerator`.
struct MessageGenerator {
    var tree: TreeGenerator

    init(seed: UInt64) { tree = TreeGenerator(seed: seed) }

    mutating func below(_ limit: Int) -> Int { tree.random.below(limit) }
    mutating func oneIn(_ count: Int) -> Bool { tree.random.oneIn(count) }

    mutating func number() -> Int64 { Int64(below(1 << 31)) }
    mutating func tag() -> Int64? { oneIn(2) ? nil : Int64(below(1000)) }
    mutating func text() -> String { tree.text() }

    // MARK: Queries

    mutating func index() -> Query.Index {
        switch below(4) {
        case 0: .key
        case 1: .value
        case 2: .priority
        default: .child(Path([tree.key()]).appending(tree.path(maxDepth: 2)))
        }
    }

    private mutating func bound(_ index: Query.Index) -> Query.Bound? {
        if oneIn(3) { return nil }
        let isInclusive = !oneIn(3)
        if index == .key { return Query.Bound(value: .init(.string(tree.key().text)), isInclusive: isInclusive) }
        let value = oneIn(5) ? Node.null : tree.bareLeaf()
        let keys = ["[MAX_NAME]", "[MIN_NAME]", "a.b", "", "😀", "k\u{FFFF}"]
        return Query.Bound(
            value: .init(value), key: oneIn(2) ? Key(tree.random.pick(keys)) : nil, isInclusive: isInclusive)
    }

    mutating func query() -> Query {
        let index = index()
        var query = Query(index: index, start: bound(index), end: bound(index))
        switch below(3) {
        case 0: query.limit = .first(1 + below(1 << 20))
        case 1: query.limit = .last(1 + below(9))
        default: break
        }
        return query
    }

    /// Returns a query that does not select everything.
    mutating func narrowQuery() -> Query {
        while true {
            let query = query()
            if !query.selectsAll { return query }
        }
    }

    // MARK: Clients

    mutating func target() -> ListenTarget {
        let path = tree.path(maxDepth: 4)
        if oneIn(2) { return ListenTarget(path: path, query: nil, tag: nil) }
        return ListenTarget(path: path, query: narrowQuery(), tag: number())
    }

    /// Returns a value as a client may write it, sometimes with server values.
    mutating func written() -> Node {
        switch below(8) {
        case 0: .serverValue(ServerValue(.timestamp))
        case 1: .serverValue(ServerValue(.increment(tree.number())))
        case 2:
            Node(children: [
                (Key("at"), .serverValue(ServerValue(.timestamp))), (tree.key(), tree.tree(depth: 2)),
            ])
        default: tree.tree(depth: 3)
        }
    }

    mutating func hash() -> String? { oneIn(2) ? nil : (oneIn(3) ? "" : tree.tree(depth: 1).hash) }

    mutating func compound() -> CompoundHash? {
        oneIn(2) ? nil : CompoundHash(of: tree.tree(depth: 3), partBytes: below(60))
    }

    mutating func action() -> ClientAction {
        let path = tree.path(maxDepth: 3)
        switch below(14) {
        case 0: return .stats(oneIn(2) ? nil : RawJSON(Array("{\"sdk.swift.1-0\":1}".utf8)))
        case 1:
            return .listen(
                target(), hash: hash() ?? "", compound: compound(), after: mark()?.resumption)
        case 2: return .unlisten(target())
        case 3: return .get(path, oneIn(2) ? nil : narrowQuery())
        case 4:
            let value = written()
            return .put(path, .init(node: value, hasServerValue: value.hasServerValue), hash: hash(), byteCount: 0)
        case 5:
            let changes = tree.changes(atMost: 4, below: path)
            return .merge(path, changes, hasServerValue: false, hash: hash(), byteCount: 0)
        case 6: return .onDisconnectPut(path, written())
        case 7: return .onDisconnectMerge(path, tree.changes(atMost: 3, below: path))
        case 8: return .onDisconnectCancel(path)
        case 9:
            return .authenticate(
                AuthRequest(
                    credential: text(), override: oneIn(2) ? nil : Array("{\"uid\":\"x\",\"a.b/c\":[1]}".utf8),
                    isUnauthenticated: oneIn(4), isGoogle: oneIn(2)))
        case 10: return .unauthenticate
        case 12: return .wait(seq: Int64(below(1_000)), path: oneIn(2) ? nil : path)
        case 11: return .appCheck(token: oneIn(2) ? nil : text())
        default: return .echo(RawJSON(JSONWriter.encode(tree.tree(depth: 2), form: .export)))
        }
    }

    mutating func request() -> ClientRequest {
        let action = action()
        let name = WriteName(writer: "writer-\(below(9))", number: Int64(1 + below(1_000)))
        return ClientRequest(number: number(), action: action, name: action.writes && oneIn(2) ? name : nil)
    }

    mutating func clientMessage() -> ClientMessage {
        switch below(10) {
        case 0: .ping
        case 1: .control(tree.random.pick(["n", "a", "x"]))
        default: .request(request())
        }
    }

    // MARK: Servers

    mutating func mark() -> LogMark? {
        let seq = Int64(below(1_000_000))
        return oneIn(3) ? nil : LogMark(seq: seq, resumption: oneIn(2) ? nil : "\(seq)-aB_\(below(100))")
    }

    mutating func control() -> ServerControl {
        switch below(8) {
        case 0:
            .hello(
                ServerHello(
                    timestamp: 1_700_000_000_000 + number(), host: "h:\(below(9))", session: text() + "s",
                    isExtended: oneIn(2)))
        case 1: .reset(host: text())
        case 2: .shutdown(reason: text())
        case 3: .error(text())
        case 4: .pong
        case 5: .upgradeOffer
        case 6: .endOfTransmission
        default: .unknown(type: "z" + text())
        }
    }

    mutating func change() -> ChangeEvent {
        let path = tree.path(maxDepth: 3)
        if oneIn(2) { return .put(path, tree.tree(depth: 3)) }
        if oneIn(8) { return .put(path.appending(.priority), tree.priority()) }
        return .patch(path, tree.changes(atMost: 4, below: .root))
    }

    mutating func push() -> ServerPush {
        let path = tree.path(maxDepth: 3)
        switch below(8) {
        case 0:
            let merges = RangeMerge.differences(
                tree.tree(depth: 3), CompoundHash(of: tree.tree(depth: 3), partBytes: below(40)))
            return .ranges(path, merges, tag: tag(), mark: mark())
        case 1:
            let queries = oneIn(2) ? nil : [RawJSON(Array("{\"l\":2,\"vf\":\"r\"}".utf8))]
            return .listenRevoked(path, queries: queries)
        case 2: return .authRevoked(.expiredToken, explanation: text())
        case 3: return .appCheckRevoked(.invalidToken, explanation: text())
        case 4: return .securityDebug(text())
        case 5: return .unknown(action: "z" + text())
        default: return .change(change(), tag: tag(), mark: mark())
        }
    }

    mutating func serverMessage() -> ServerMessage {
        switch below(4) {
        case 0: .control(control())
        case 1:
            .response(
                ServerResponse(
                    number: number(), status: tree.random.pick([.ok, .permissionDenied, .dataStale, .failure]),
                    detail: RawJSON(JSONWriter.encode(tree.tree(depth: 2), form: .export)), mark: mark()))
        default: .push(push())
        }
    }
}

extension Node {
    /// Whether the node contains a value that only the server can resolve.
    var hasServerValue: Bool {
        switch self {
        case .serverValue: true
        case .prioritized(let leaf): leaf.value.hasServerValue || leaf.priority.hasServerValue
        case .branch(let branch): branch.priority.hasServerValue || branch.children.contains { $0.node.hasServerValue }
        default: false
        }
    }
}

/// Returns bytes as text, for readable comparisons.
func string(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
