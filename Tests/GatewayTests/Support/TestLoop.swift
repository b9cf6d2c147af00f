import Glibc
import Runtime
import Synchronization

@testable import HTTPServer

/// An event loop on its own thread that serves connections over socket pairs. A test can act as all of its clients, and
/// can inspect the state on the loop.
final class TestLoop {
    struct Failure: Error { let what: String }

    let loop: EventLoop
    private let thread: Thread
    private let arrivals: Arrivals
    /// Workers for tasks that would block the loop too long.
    let workers = WorkerPool(name: "worker", threads: 1)

    /// - Parameter serve: handles requests on the loop. If nil, requests are kept for `exchange`.
    init(
        _ change: (inout HTTPServerSettings) -> Void = { _ in },
        serve: (@Sendable (HTTPRequest, HTTPExchange) -> Void)? = nil
    ) throws {
        var settings = HTTPServerSettings()
        change(&settings)
        let (loop, arrivals) = (try EventLoop(index: 0, settings), Arrivals(serve))
        let service = LoopBound<LoopService?>(nil)
        self.loop = loop
        self.arrivals = arrivals
        let (counters, budget) = (LoopCounters(), SharedBudget(settings))
        let isReady = Condition(false)
        thread = Thread(name: "test-loop") { [settings] in
            loop.run {
                let made = LoopService(
                    loop: loop, settings: settings, counters: counters, budget: budget, handler: arrivals)
                loop.service = made
                service.content = made
                made.start([])
                isReady.broadcast { $0 = true }
            }
            service.content = nil
        }
        _ = isReady.wait(milliseconds: 20_000) { $0 ? true : nil }
    }

    /// Ends the loop, its connections and its thread.
    func stop() {
        loop.post { [loop] in loop.service?.stop(deadlineMilliseconds: 0) }
        thread.join()
        workers.stop()
    }

    /// Runs `body` on the loop after all work posted before, and waits for its result.
    func on<Value>(_ body: () throws -> Value) throws -> Value {
        let result = LoopBound<Result<Value, any Error>?>(nil)
        let isDone = Condition(false)
        withoutActuallyEscaping(body) { body in
            let work = LoopBound<(() throws -> Value)?>(body)
            loop.post {
                result.content = work.content.map { body in Result { try body() } }
                // The loop must not hold the body any more when the caller resumes.
                work.content = nil
                isDone.broadcast { $0 = true }
            }
            _ = isDone.wait(milliseconds: 30_000) { $0 ? true : nil }
        }
        guard let value = result.content else { throw Failure(what: "the loop did nothing for 30 s") }
        return try value.get()
    }

    /// Waits until all work posted before is done.
    func settle() throws { try on {} }

    /// Opens a new connection to the loop.
    ///
    /// - Parameters:
    ///   - address: The apparent address of the client.
    ///   - buffer: The approximate number of bytes that the loop may send ahead of the client. Nil for the system default.
    func client(from address: String = "127.0.0.1", buffer: Int32? = nil) throws -> WebClient {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw Failure(what: "socketpair: \(errno)") }
        if var buffer { setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &buffer, 4) }
        _ = fcntl(ends[0], F_SETFL, fcntl(ends[0], F_GETFL) | O_NONBLOCK)
        let (descriptor, peer) = (ends[0], TestRequest.peer(address))
        try on { loop.service?.add(descriptor, peer, isSecure: false) }
        return WebClient(descriptor: ends[1])
    }

    /// Sends a request by a client, and returns the loop's side of it, which waits for an answer.
    func exchange(
        _ client: WebClient, _ method: String = "GET", _ target: String = "/", _ headers: [String: String] = [:],
        body: String? = nil
    ) throws -> (request: HTTPRequest, exchange: LoopBound<HTTPExchange>) {
        try client.send(method, target, headers, body: body)
        guard let arrival = arrivals.next() else { throw Failure(what: "the request did not arrive") }
        return arrival
    }

    private final class Arrivals: HTTPLoopHandler, Sendable {
        private let serve: (@Sendable (HTTPRequest, HTTPExchange) -> Void)?
        private let waiting = Condition<[(request: HTTPRequest, exchange: LoopBound<HTTPExchange>)]>([])

        init(_ serve: (@Sendable (HTTPRequest, HTTPExchange) -> Void)?) { self.serve = serve }

        func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange) {
            if let serve { return serve(request, exchange) }
            let bound = LoopBound(exchange)
            waiting.broadcast { $0.append((request, bound)) }
        }

        func next() -> (request: HTTPRequest, exchange: LoopBound<HTTPExchange>)? {
            waiting.wait(milliseconds: 20_000) { $0.isEmpty ? nil : $0.removeFirst() }
        }
    }
}

/// A loop's value that a test's thread passes on.
//
// @unchecked Sendable is safe: tests touch the content on the loop only, or while the loop's work waits for them.
final class LoopBound<Content>: @unchecked Sendable {
    var content: Content

    init(_ content: Content) { self.content = content }
}

/// Runs `body` with a loop, and ends the loop.
func withLoop(
    _ change: (inout HTTPServerSettings) -> Void = { _ in }, _ body: (TestLoop) throws -> Void
) throws {
    let loop = try TestLoop(change)
    defer { loop.stop() }
    try body(loop)
}
