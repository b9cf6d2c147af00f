internal import CCurl
internal import Runtime

/// Sends requests to other servers, all from one thread of its own. Any thread may use it.
///
/// TLS certificates are always checked. Connections are kept for further requests.
public final class HTTPClient: Sendable {
    public struct Settings: Sendable {
        public var userAgent = "pathmirror"
        /// A PEM file of authorities to trust instead of the system's.
        public var certificateAuthoritiesFile: String?
        /// Requests under way and waiting; more are refused.
        public var maxRequests = 10_000
        /// Requests under way at once; others wait for one of them to end.
        public var maxConnections = 100

        public init() {}
    }

    /// Called once for each request, from the client's thread; must return soon.
    public typealias Completion = @Sendable (Result<ClientResponse, HTTPClientError>) -> Void

    private let inbox: Inbox
    private let thread: Thread
    private let maxRequests: Int

    /// The thread starts at once and waits without cost.
    public init(_ settings: Settings = Settings()) throws(HTTPClientError) {
        guard Library.isReady, let multi = curl_multi_init() else { throw .cannotStart("libcurl refuses") }
        _ = pathmirror_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, settings.maxConnections)
        let inbox = Inbox(multi)
        self.inbox = inbox
        maxRequests = settings.maxRequests
        thread = Thread(name: "http-client", isVital: false) { TransferLoop(inbox, settings).run() }
        guard thread.isStarted else { throw .cannotStart("no thread") }
    }

    deinit { stop() }

    /// Sends a request. `completion` is always called, though maybe after `stop`.
    public func send(_ request: ClientRequest, _ completion: @escaping Completion) {
        if let refusal = inbox.add(.init(request: request, completion: completion), limit: maxRequests) {
            completion(.failure(refusal))
        }
    }

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

/// What waits for the client's thread, and the means to wake it.
///
/// @unchecked Sendable is safe: the requests are behind a lock; `multi` never changes, and all that other threads do with
/// it is `curl_multi_wakeup`, which libcurl allows; it is freed when neither the client nor its thread has it any more.
final class Inbox: @unchecked Sendable {
    struct Item: Sendable {
        let request: ClientRequest
        let completion: HTTPClient.Completion
    }

    private struct State {
        /// In the order of arrival, from `first` on.
        var items: [Item] = []
        var first = 0
        /// Taken, but not done.
        var active = 0
        var isClosed = false
    }

    let multi: UnsafeMutableRawPointer
    private let state = MutexBox(State())

    init(_ multi: UnsafeMutableRawPointer) { self.multi = multi }

    deinit { curl_multi_cleanup(multi) }

    /// Why the request is not taken, or nil.
    func add(_ item: Item, limit: Int) -> HTTPClientError? {
        let refusal = state.withLock { state -> HTTPClientError? in
            if state.isClosed { return .refused("the client has stopped") }
            guard state.items.count - state.first + state.active < limit else {
                return .refused("too many requests are under way")
            }
            state.items.append(item)
            return nil
        }
        if refusal == nil { curl_multi_wakeup(multi) }
        return refusal
    }

    /// The next requests, so many that at most `limit` are under way; all of them once the client is closed.
    func take(limit: Int) -> (items: [Item], isClosed: Bool) {
        state.withLock { state in
            let waiting = state.items.count - state.first
            let count = state.isClosed ? waiting : min(waiting, max(0, limit - state.active))
            let items = Array(state.items[state.first..<(state.first + count)])
            state.first += count
            state.active += count
            // Old ones go when they are half of all, so that taking costs the same however many wait.
            if state.first * 2 >= state.items.count {
                state.items.removeFirst(state.first)
                state.first = 0
            }
            return (items, state.isClosed)
        }
    }

    func done(_ count: Int) { state.withLock { $0.active -= count } }

    func close() {
        state.withLock { $0.isClosed = true }
        curl_multi_wakeup(multi)
    }
}
