import ClientSupport
import Runtime
import Tree
import Wire

/// A realtime server whose answer to each request is chosen by the test.
struct ScriptedServer {
    private let server: SocketServer
    /// The requests received on all connections, in order.
    let requests: Recorder<ClientAction>
    let connections: Recorder<Int>

    var url: String { "http://127.0.0.1:\(server.port)" }

    /// - Parameters:
    ///   - answer: by default every request is accepted.
    ///   - timestamp: the server's time that is sent to each connection, as JSON.
    init(
        answer: @escaping @Sendable (ClientRequest, SocketPeer) -> Void = { Self.accept($0, $1) },
        timestamp: @escaping @Sendable () -> String = { String(Clock.unixMilliseconds) }
    ) throws {
        let requests = Recorder<ClientAction>()
        let connections = Recorder<Int>()
        self.requests = requests
        self.connections = connections
        server = try SocketServer { peer in
            connections.record(1)
            Self.say(#"{"t":"c","d":{"t":"h","d":{"ts":\#(timestamp()),"v":"5","h":"127.0.0.1","s":"s"}}}"#, peer)
            var assembler = SegmentAssembler(maxBytes: 64 << 20)
            while let text = peer.receiveText() {
                guard case .message(let bytes) = assembler.take(text),
                    case .request(let request)? = try? ClientMessageParser.parse(bytes)
                else { continue }
                requests.record(request.action)
                answer(request, peer)
            }
        }
    }

    static func say(_ text: String, _ peer: SocketPeer) { peer.sendFrame(Array(text.utf8)) }

    static func accept(_ request: ClientRequest, _ peer: SocketPeer) {
        say(#"{"t":"d","d":{"r":\#(request.number),"b":{"s":"ok","d":{}}}}"#, peer)
    }

    static func put(_ path: String, _ json: String, _ peer: SocketPeer) {
        say(#"{"t":"d","d":{"a":"d","b":{"p":"\#(path)","d":\#(json)}}}"#, peer)
    }
}
