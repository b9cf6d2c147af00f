internal import CCurl
internal import Runtime
internal import Synchronization

/// Sends requests to other servers, all from one thread of its own. Any thread may use it.
///
/// TLS certificates are always checked. Requests share a fixed number of slots fairly, by their `group` and `member`. Connections are kept
/// for further requests with the same `connections`. Requests use HTTP/1.1.
public final class HTTPClient: Sendable {
    public struct Settings: Sendable {
        public var userAgent = "pathmirror"
        /// A PEM file of authorities to trust instead of the system's.
        public var certificateAuthoritiesFile: String?
        /// Requests that wait for a slot, at most. `FairLedger` says how many of them a group and a member may have.
        public var maxWaiting = 10_000
        /// Slots: requests under way at once, at most. As many connections are kept at most while no request uses them.
        public var maxConnections = 100

        public init() {}
    }

    /// Called once for each request, from the client's thread or that which sends or cancels it; must return soon.
    public typealias Completion = @Sendable (Result<ClientResponse, HTTPClientError>) -> Void

    private let inbox: Inbox
    private let thread: Thread
    private let lastID = Atomic<UInt64>(0)

    /// The thread starts at once and waits without cost.
    public init(_ settings: Settings = Settings()) throws(HTTPClientError) {
        guard Library.isReady, let multi = MultiHandle() else { throw .cannotStart("libcurl refuses") }
        guard let poller = SocketPoller() else { throw .cannotStart("the system has no more descriptors") }
        let inbox = Inbox(poller, slots: settings.maxConnections, places: settings.maxWaiting)
        self.inbox = inbox
        thread = Thread(name: "http-client", isVital: false) { TransferLoop(inbox, multi, poller, settings).run() }
        guard thread.isStarted else { throw .cannotStart("no thread, for want of memory or of threads") }
    }

    deinit { stop() }

    /// Tells a client's requests apart.
    public struct RequestID: Hashable, Sendable {
        let number: UInt64
    }

    /// Sends a request. `completion` is always called, though maybe after `stop`.
    ///
    /// - Returns: what `cancel` takes.
    @discardableResult
    public func send(_ request: ClientRequest, _ completion: @escaping Completion) -> RequestID {
        let id = RequestID(number: lastID.wrappingAdd(1, ordering: .relaxed).newValue)
        let item = Inbox.Item(
            id: id, request: request, sentAt: Clock.monotonicMilliseconds, completion: completion)
        if let refusal = inbox.add(item) { completion(.failure(refusal)) }
        return id
    }

    /// Fails a request with `cancelled`, soon, unless it has ended. Whether the server has it already is not known.
    public func cancel(_ id: RequestID) { inbox.cancel(id) }

    /// Fails what is under way and ends the thread. Later calls do nothing. Not from inside a completion.
    public func stop() {
        inbox.close()
        thread.join()
    }

    private enum Library {
        /// libcurl wants to be told once, before anything else.
        static let isReady = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
    }
}
