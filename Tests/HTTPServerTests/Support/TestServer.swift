import Glibc
import HTTPServer
import Synchronization
import Testing

/// A server on a free loopback port, whose handlers run a closure.
final class TestServer: Sendable {
    typealias Handle = @Sendable (HTTPRequest, HTTPExchange) -> Void

    let server: HTTPServer
    private let seen: Seen

    var port: UInt16 { server.boundAddresses[0].port }
    var securePort: UInt16 { server.boundTLSAddresses[0].port }

    /// Counters that handlers and tests share.
    final class Seen: Sendable {
        let drains = Atomic<Int>(0)
        let stops = Atomic<Int>(0)
    }

    private final class Handler: HTTPLoopHandler {
        let handle: Handle
        let seen: Seen

        init(_ handle: @escaping Handle, _ seen: Seen) {
            self.handle = handle
            self.seen = seen
        }

        func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) { handle(request, exchange) }
        /// Returns false, as no client of these tests is an administrator.
        func allowsLargeBody(_ head: HTTPRequest) -> Bool { false }
        func loopWillDrain() { seen.drains.wrappingAdd(1, ordering: .relaxed) }
        func loopWillStop() { seen.stops.wrappingAdd(1, ordering: .relaxed) }
    }

    convenience init(_ handle: @escaping Handle) throws {
        try self.init({ _ in }, handle)
    }

    init(_ configure: (inout HTTPServerSettings) -> Void, _ handle: @escaping Handle) throws {
        var settings = HTTPServerSettings()
        configure(&settings)
        let seen = Seen()
        self.seen = seen
        server = try HTTPServer(settings: settings) { _ in Handler(handle, seen) }
        try server.start()
    }

    deinit {
        server.stop(deadlineMilliseconds: 0)
    }

    var drains: Int { seen.drains.load(ordering: .relaxed) }
    var stops: Int { seen.stops.load(ordering: .relaxed) }

    /// Answers `METHOD target|body`.
    static let echo: Handle = { request, exchange in
        var body = Array("\(request.method) ".utf8)
        body += request.target
        body.append(0x7C)
        body += request.body
        exchange.respond(status: 200, headers: ["Content-Type": "text/plain"], body: body)
    }
}

/// Waits until `condition` holds; ten seconds at most.
func eventually(_ condition: () -> Bool, sourceLocation: SourceLocation = #_sourceLocation) {
    for _ in 0..<10_000 {
        if condition() { return }
        usleep(1000)
    }
    Issue.record("the condition did not become true in time", sourceLocation: sourceLocation)
}

/// Values that loop threads record for a test.
final class Notes<Value: Sendable>: Sendable {
    private let values = Mutex<[Value]>([])

    func add(_ value: Value) { values.withLock { $0.append(value) } }
    var all: [Value] { values.withLock { $0 } }
    var count: Int { values.withLock { $0.count } }
}

/// A small random generator with a seed, so that a failure can be reproduced (xorshift64*).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed | 1 }

    mutating func next() -> UInt64 {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return state &* 0x2545_F491_4F6C_DD1D
    }
}
