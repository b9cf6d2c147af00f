import Engine
import HTTPServer
import Runtime
import TestSupport
import Testing
import Tree
import Wire

@testable import Gateway
@testable import HTTPServer

/// Tests of the move of a polling client to a WebSocket, as seen by its session. The socket has already ended: messages
/// sent on it are counted and discarded.
@Suite struct SessionUpgradeTests {
    private static let ping = Array(#"{"t":"c","d":{"t":"p","d":{}}}"#.utf8)
    private static let move = Array(#"{"t":"c","d":{"t":"a","d":{}}}"#.utf8)
    private static let end = Array(#"{"t":"c","d":{"t":"n","d":{}}}"#.utf8)

    private static func put(_ number: Int, _ value: Int) -> [UInt8] {
        Array(#"{"t":"d","d":{"r":\#(number),"a":"p","b":{"p":"/a","d":\#(value)}}}"#.utf8)
    }

    /// A polling session, on its loop.
    private struct Polling {
        let session: RealtimeSession
        let transport = LongPollTransport(password: "secret", maxBytes: 1 << 20)
        let hub: RealtimeHub

        init(_ bench: LiveNamespaceOwner, _ hub: RealtimeHub) {
            self.hub = hub
            session = hub.begin(bench.namespace, transport, isLoopback: true, "127.0.0.1")
            transport.segments = LongPollSegments(maxBytes: 1 << 20)
        }

        /// A socket that was opened for the session.
        func socket(_ number: UInt64 = 1) -> RelayedWebSocketTransport {
            RelayedWebSocketTransport(
                ExchangeReference(loop: hub.loop, connection: number, exchange: number), SocketBacklog())
        }
    }

    private func onLoop(_ body: @escaping @Sendable (Polling) -> Void) throws {
        try withBench { bench in
            let owner = LiveNamespaceOwner(bench.namespace)
            try bench.on { hub in body(Polling(owner, hub)) }
            try bench.settle()
        }
    }

    @Test func aSocketIsOfferedOnce() throws {
        try onLoop { polling in
            #expect(polling.session.startUpgrade(polling.socket()))
            #expect(!polling.session.startUpgrade(polling.socket(2)))
        }
    }

    @Test func aSessionOnASocketNeedsNone() throws {
        try withBench { bench in
            let client = try bench.connect()
            let isTaken = try client.on { session in
                session.startUpgrade(
                    RelayedWebSocketTransport(
                        ExchangeReference(loop: session.loop, connection: 1, exchange: 1), SocketBacklog()))
            }
            #expect(isTaken == false)
        }
    }

    @Test func aSessionThatEndsTakesNone() throws {
        try onLoop { polling in
            polling.hub.ended(polling.session.id)
            #expect(!polling.session.startUpgrade(polling.socket()))
        }
    }

    /// Checks the complete upgrade: the client opens the socket, switches to it, and ends polling. Messages that it
    /// sent on the socket earlier are processed after the end of polling.
    @Test func theWholeWay() throws {
        try withBench { bench in
            let owner = LiveNamespaceOwner(bench.namespace)
            let id = try bench.on { hub in
                let polling = Polling(owner, hub)
                let session = polling.session
                let socket = polling.socket()
                #expect(session.startUpgrade(socket))
                #expect(session.takeFromSocket(Self.ping, socket.socket))
                #expect(socket.queuedBytes > 0)
                #expect(session.takeFromSocket(Self.move, socket.socket))
                #expect(session.take(Self.put(1, 1)))
                #expect(session.takeFromSocket(Self.put(2, 2), socket.socket))
                #expect(session.transport === polling.transport && !session.isOn(socket.socket))
                // No message from the socket is processed before polling ends.
                #expect(session.writes.count == 1)
                #expect(session.take(Self.end))
                #expect(session.transport === socket && session.isOn(socket.socket))
                #expect(session.formerTransport === polling.transport && session.upgrade == nil)
                #expect(polling.transport.segments == nil)
                #expect(session.takeFromSocket(Self.put(3, 3), socket.socket))
                return session.id
            }
            #expect(eventually { (try? bench.value("a")) == "3" })
            try bench.on { [id] in $0.ended(id) }
        }
    }

    /// Checks that the client can still poll the former transport for the last messages.
    @Test func pollsGoToTheFormerTransport() throws {
        try onLoop { polling in
            let socket = polling.socket()
            _ = polling.session.startUpgrade(socket)
            #expect(polling.session.pollingTransport === polling.transport)
            _ = polling.session.takeFromSocket(Self.move, socket.socket)
            _ = polling.session.take(Self.end)
            #expect(polling.session.pollingTransport === polling.transport)
        }
    }

    @Test func requestsBeforeTheMoveEndTheSocketOnly() throws {
        try onLoop { polling in
            let socket = polling.socket()
            _ = polling.session.startUpgrade(socket)
            #expect(!polling.session.takeFromSocket(Self.put(1, 1), socket.socket))
            #expect(polling.session.upgrade == nil && polling.session.transport === polling.transport)
            // Another socket may be opened.
            #expect(polling.session.startUpgrade(polling.socket(2)))
            #expect(polling.session.take(Self.put(2, 2)))
        }
    }

    @Test func anotherSocketIsNotListenedTo() throws {
        try onLoop { polling in
            let (socket, other) = (polling.socket(1), polling.socket(2))
            _ = polling.session.startUpgrade(socket)
            #expect(!polling.session.takeFromSocket(Self.ping, other.socket))
            #expect(polling.session.upgrade != nil)
            polling.session.socketFailed(other.socket)
            #expect(polling.session.upgrade != nil)
            polling.session.socketFailed(socket.socket)
            #expect(polling.session.upgrade == nil)
        }
    }

    /// Checks that an end of polling without a socket that could take over has no effect.
    @Test func endingPollingWithoutASocketChangesNothing() throws {
        try onLoop { polling in
            #expect(polling.session.take(Self.end))
            #expect(polling.session.transport === polling.transport)
            #expect(polling.session.take(Self.put(1, 1)))
        }
    }

    @Test func whatWaitedIsTakenLikeEverythingElse() throws {
        try onLoop { polling in
            let socket = polling.socket()
            _ = polling.session.startUpgrade(socket)
            _ = polling.session.takeFromSocket(Self.move, socket.socket)
            #expect(!polling.session.takeFromSocket(Array("nonsense".utf8), socket.socket))
            #expect(polling.session.upgrade == nil)
        }
    }

    /// Checks that listens that were created while polling continue on the socket.
    @Test func listensMoveToTheSocket() throws {
        try onLoop { polling in
            let listen = Array(#"{"t":"d","d":{"r":1,"a":"q","b":{"p":"/a","h":""}}}"#.utf8)
            #expect(polling.session.take(listen))
            let socket = polling.socket()
            _ = polling.session.startUpgrade(socket)
            _ = polling.session.takeFromSocket(Self.move, socket.socket)
            _ = polling.session.take(Self.end)
            #expect(polling.session.listens.count == 1)
            for made in polling.session.listens.values { #expect(made.transport === socket) }
        }
    }

    @Test func theEndClosesBothWays() throws {
        try onLoop { polling in
            let socket = polling.socket()
            _ = polling.session.startUpgrade(socket)
            polling.hub.ended(polling.session.id)
            // Nothing more is sent on the socket.
            let before = socket.queuedBytes
            socket.send(frames: SharedBytes([1, 2, 3]))
            #expect(socket.queuedBytes == before)
        }
    }
}

/// Passes a namespace to work on the loop.
private struct LiveNamespaceOwner: Sendable {
    let namespace: LiveNamespace

    init(_ namespace: LiveNamespace) { self.namespace = namespace }
}
