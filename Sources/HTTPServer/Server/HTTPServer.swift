import CEvent
import Glibc
public import Runtime
import Synchronization

/// An HTTP/1.1 server: event loops, one thread each, all listening at the same addresses, each with its own handler.
///
/// `init` binds and listens (peers can connect and wait), `start` serves, `stop` ends. All three may be called from any
/// thread except a loop's own. A server that was started must be stopped.
public final class HTTPServer: Sendable {
    /// Creates the handler of a loop, on that loop's thread.
    public typealias HandlerFactory = @Sendable (EventLoop) -> any HTTPLoopHandler

    public let settings: HTTPServerSettings
    /// The loops, in the order of their indices.
    public let loops: [EventLoop]
    /// The addresses for plain HTTP, with real ports, in the order of `settings.addresses`.
    public let boundAddresses: [ListenAddress]
    /// The addresses for TLS, with real ports, in the order of `settings.tlsAddresses`.
    public let boundTLSAddresses: [ListenAddress]

    private let handlerFactory: HandlerFactory
    private let sockets: [[ListeningSocket]]
    private let counters: [LoopCounters]
    let budget: SharedBudget
    private let state = Mutex(State.made)

    private enum State {
        case made
        case started([Thread])
        case stopped
    }

    /// Checks the settings and opens the listening sockets.
    public init(settings: HTTPServerSettings, handlerFactory: @escaping HandlerFactory) throws(HTTPServerError) {
        let mistakes = settings.mistakes()
        guard mistakes.isEmpty else { throw .invalidSettings(mistakes) }
        self.settings = settings
        self.handlerFactory = handlerFactory
        var loops: [EventLoop] = []
        for index in 0..<settings.loops { loops.append(try EventLoop(index: index, settings)) }
        self.loops = loops
        counters = loops.map { _ in LoopCounters() }
        budget = SharedBudget(settings)
        sockets = try ListeningSocket.open(settings)
        boundAddresses = sockets[0].filter { !$0.isSecure }.map(\.address)
        boundTLSAddresses = sockets[0].filter(\.isSecure).map(\.address)
    }

    deinit {
        stop(deadlineMilliseconds: 0)
    }

    /// The server's current counters. Cheap; any thread.
    public var statistics: HTTPServerStatistics {
        var sum = HTTPServerStatistics()
        for counters in counters { sum.add(counters) }
        return sum
    }

    /// Starts the loops' threads. A second call does nothing.
    public func start() throws(HTTPServerError) {
        let failure = state.withLock { state -> HTTPServerError? in
            guard case .made = state else { return nil }
            var threads: [Thread] = []
            for index in loops.indices {
                // Only the main thread handles signals.
                let thread = Thread(name: "http-\(index)", isVital: false, blocksSignals: true, makeBody(index))
                if let errorNumber = thread.errorNumber {
                    state = .started(threads)
                    return .cannotStartLoop(step: "pthread_create", errorNumber: errorNumber)
                }
                threads.append(thread)
            }
            state = .started(threads)
            return nil
        }
        if let failure {
            stop(deadlineMilliseconds: 0)
            throw failure
        }
    }

    /// Accepts no new connections, closes idle ones, and answers the requests in flight with `Connection: close`.
    public func beginDrain() {
        for loop in loops { loop.post { loop.service?.beginDrain() } }
    }

    /// Drains, waits until every connection has ended or `deadlineMilliseconds` has passed, closes the rest, and
    /// returns when the loops' threads have ended. A second call does nothing.
    public func stop(deadlineMilliseconds: Milliseconds) {
        let (threads, wasStopped) = state.withLock { state -> ([Thread], Bool) in
            defer { state = .stopped }
            switch state {
            case .made: return ([], false)
            case .started(let threads): return (threads, false)
            case .stopped: return ([], true)
            }
        }
        for (loop, _) in zip(loops, threads) {
            loop.post { loop.service?.stop(deadlineMilliseconds: deadlineMilliseconds) }
        }
        for thread in threads { thread.join() }
        // Closes the sockets of loops without a thread.
        for sockets in sockets.dropFirst(threads.count) where !wasStopped {
            for socket in sockets { socket.closeDescriptor() }
        }
    }

    private func makeBody(_ index: Int) -> @Sendable () -> Void {
        let loop = loops[index]
        let (settings, counters, budget) = (settings, counters[index], budget)
        let (sockets, handlerFactory) = (sockets[index], handlerFactory)
        return {
            loop.run(
                prepare: {
                    let service = LoopService(
                        loop: loop, settings: settings, counters: counters, budget: budget,
                        handler: handlerFactory(loop))
                    loop.service = service
                    service.start(sockets)
                })
        }
    }
}

/// The application's handler of requests. The server's factory creates one instance for each loop, on that loop's
/// thread, and the server calls it only there, so it needs no locks. It must not block: longer tasks run on other
/// threads and return with `ExchangeReference.perform`.
public protocol HTTPLoopHandler: AnyObject {
    /// Handles a complete request. Answer it now or later, once, through the exchange; while the exchange is open, the
    /// connection's next request waits. Keep the exchange (or its reference) if the answer comes later.
    func requestReceived(_ request: HTTPRequest, _ exchange: HTTPExchange)

    /// Returns whether the sender of this request, whose body has not arrived yet, may send more than
    /// `maxPlainBodyBytes`. Must not wait for other threads.
    func allowsLargeBody(_ head: HTTPRequest) -> Bool

    /// Returns the address whose memory share this request's body uses: the peer's, or that of a proxy's client.
    func sender(of head: HTTPRequest) -> IPAddress

    /// Ends the handler's streams. The server accepts no new connections and will stop. Called once before
    /// `loopWillStop`.
    func loopWillDrain()

    /// Called before the loop closes the remaining connections and ends.
    func loopWillStop()
}

extension HTTPLoopHandler {
    /// Allows large bodies by default.
    public func allowsLargeBody(_ head: HTTPRequest) -> Bool { true }
    /// Returns the peer's own address by default.
    public func sender(of head: HTTPRequest) -> IPAddress { head.remoteIP }
    /// Does nothing by default.
    public func loopWillDrain() {}
    /// Does nothing by default.
    public func loopWillStop() {}
}

/// The reason why a server could not be created or started. A peer can't cause any of these errors.
public enum HTTPServerError: Error, Equatable, CustomStringConvertible {
    /// The settings are invalid; one sentence for every error.
    case invalidSettings([String])
    /// The server can't listen at the address (in use, not of this machine, no permission).
    case cannotListen(address: String, step: String, errorNumber: Int32)
    /// The system refused an event loop, a descriptor or a thread.
    case cannotStartLoop(step: String, errorNumber: Int32)

    public var description: String {
        switch self {
        case .invalidSettings(let mistakes):
            return "The HTTP server's settings are not usable: " + mistakes.joined(separator: "; ")
        case .cannotListen(let address, let step, let number):
            let hint: String
            switch number {
            case EADDRINUSE: hint = " (another process listens there: stop it or choose another port)"
            case EACCES: hint = " (choose a port above 1023 or grant the capability to bind low ports)"
            case EADDRNOTAVAIL: hint = " (this machine has no such address)"
            default: hint = ""
            }
            return "Cannot listen at \(address): \(step): \(Self.text(of: number))\(hint)"
        case .cannotStartLoop(let step, let number):
            let isUsedUp = number == EAGAIN || number == ENOMEM
            let hint = isUsedUp ? " (memory or threads are used up: ulimit -v and -u, the container's limits)" : ""
            return "Cannot start an event loop: \(step): \(Self.text(of: number))\(hint)"
        }
    }

    private static func text(of errorNumber: Int32) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let base = buffer.baseAddress else { return "error \(errorNumber)" }
            pathmirror_error_text(errorNumber, base, 256)
            return String(cString: base)
        }
    }
}
