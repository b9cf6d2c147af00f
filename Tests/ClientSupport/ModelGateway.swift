import Runtime
public import Tree
import Wire

/// A small realtime server with one tree, default listens, puts (with hashes) and merges, and no rules. Every listener
/// receives a write before its writer receives the answer.
public final class ModelGateway: Sendable {
    fileprivate struct State: Sendable {
        var tree = Node.null
        var listens: [UInt64: (peer: SocketPeer, paths: [Path])] = [:]
        var lastPeer: UInt64 = 0
        var puts = 0
    }

    private let state: Condition<State>
    private let server: SocketServer

    public var port: UInt16 { server.port }
    public var tree: Node { state.withLock { $0.tree } }
    /// The number of writes that arrived.
    public var putCount: Int { state.withLock { $0.puts } }

    public init() throws {
        let state = Condition(State())
        self.state = state
        server = try SocketServer { peer in
            let id = state.withLock { state -> UInt64 in
                state.lastPeer += 1
                state.listens[state.lastPeer] = (peer, [])
                return state.lastPeer
            }
            defer { state.withLock { $0.listens[id] = nil } }
            Self.say(ServerMessage.hello(timestamp: Clock.unixMilliseconds, host: "localhost", session: "s\(id)"), peer)
            var assembler = SegmentAssembler(maxBytes: 64 << 20)
            while let text = peer.receiveText() {
                guard case .message(let bytes) = assembler.take(text),
                    let message = try? ClientMessageParser.parse(bytes)
                else { continue }
                switch message {
                case .ping: Self.say(ServerMessage.pong, peer)
                case .control: break
                // One request at a time, over all clients.
                case .request(let request): state.withLock { $0.answer(request, of: id, peer) }
                }
            }
        }
    }

    fileprivate static func say(_ text: [UInt8], _ peer: SocketPeer) {
        for piece in Segments.split(text) ?? [] { peer.sendFrame(Array(piece)) }
    }
}

extension ModelGateway.State {
    fileprivate mutating func answer(_ request: ClientRequest, of id: UInt64, _ peer: SocketPeer) {
        var status = "ok"
        switch request.action {
        case .listen(let target, _, _, _):
            listens[id]?.paths.append(target.path)
            ModelGateway.say(change(target.path, tree[target.path]), peer)
        case .unlisten(let target): listens[id]?.paths.removeAll { $0 == target.path }
        case .put(let path, let data, let hash, _):
            puts += 1
            if let hash, hash != tree[path].hash {
                status = "datastale"
            } else {
                apply([Change(path: path, value: data.node)])
            }
        case .merge(_, let changes, _, _, _):
            puts += 1
            apply(changes)
        default: break
        }
        ModelGateway.say(
            Array("{\"t\":\"d\",\"d\":{\"r\":\(request.number),\"b\":{\"s\":\"\(status)\",\"d\":{}}}}".utf8), peer)
    }

    private mutating func apply(_ changes: [Change]) {
        for change in changes { tree = tree.replacing(change.path, with: change.value) }
        for (peer, paths) in listens.values {
            for listener in paths {
                for written in changes {
                    if listener.contains(written.path) {
                        ModelGateway.say(change(written.path, written.value), peer)
                    } else if written.path.contains(listener) {
                        ModelGateway.say(change(listener, tree[listener]), peer)
                    }
                }
            }
        }
    }

    private func change(_ path: Path, _ value: Node) -> [UInt8] {
        ServerMessage.push(.change(.put(path, value), tag: nil)).text
    }
}
