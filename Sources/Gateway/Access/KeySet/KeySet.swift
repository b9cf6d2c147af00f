import Crypto
import HTTPClient
import Runtime
import Synchronization

/// The keys of an issuer of ID tokens. They are fetched when they are first needed, kept as long as the issuer allows,
/// fetched again for an unknown key, and kept for a limited time while the issuer is unreachable. Any thread; never
/// blocks.
final class KeySet: Sendable {
    typealias Lookup = KeySetMachine.Lookup
    /// Fetches the document and calls back once, on any thread.
    typealias Fetch = @Sendable (@escaping @Sendable (Result<ClientResponse, HTTPClientError>) -> Void) -> Void

    private struct State {
        var machine: KeySetMachine
        var waiting: [(id: String, callback: @Sendable (Lookup) -> Void)] = []
    }
    private let state: Mutex<State>
    private let versionNow = Atomic<Int>(0)
    private let fetch: Fetch
    private let logger: Logger
    private static let maxWaiting = 20_000

    init(_ settings: KeySetSettings, logger: Logger, fetch: @escaping Fetch) {
        state = Mutex(State(machine: KeySetMachine(settings)))
        self.fetch = fetch
        self.logger = logger
    }

    /// Fetches over HTTP from the URL in the settings.
    convenience init(_ settings: IDTokenSettings, logger: Logger) {
        var request = HTTPClientRequest(settings.keySetURL)
        request.headers = [("Accept", "application/json")]
        request.timeoutMilliseconds = 10_000
        request.connectTimeoutMilliseconds = 5_000
        request.maxResponseBytes = KeySetDocument.maxBytes
        // Over plain HTTP, any host on the network path could replace the keys. Only the loopback interface is safe.
        request.allowsPlainHTTP = IDTokenSettings.isLoopback(settings.keySetURL)
        request.maxRedirects = request.allowsPlainHTTP ? 0 : 3
        self.init(settings.keySet, logger: logger) { [request] in settings.client.send(request, $0) }
    }

    /// Changes when keys are fetched.
    var version: Int { versionNow.load(ordering: .acquiring) }

    /// Returns the current knowledge about a key. After `wait`, the caller calls `whenKnown`.
    func key(_ id: String) -> Lookup {
        let (lookup, startsFetch) = state.withLock { $0.machine.look(for: id, now: Clock.monotonicMilliseconds) }
        if startsFetch { start() }
        return lookup
    }

    /// Calls back with the key or the reason for its absence, never with `wait`: at once, or on another thread.
    func whenKnown(_ id: String, _ callback: @escaping @Sendable (Lookup) -> Void) {
        let (lookup, startsFetch) = state.withLock { state -> (Lookup?, Bool) in
            let (lookup, startsFetch) = state.machine.look(for: id, now: Clock.monotonicMilliseconds)
            guard case .wait = lookup else { return (lookup, startsFetch) }
            guard state.waiting.count < Self.maxWaiting else { return (.unavailable, startsFetch) }
            state.waiting.append((id, callback))
            return (nil, startsFetch)
        }
        if startsFetch { start() }
        if let lookup { callback(lookup) }
    }

    /// Fetches the keys before they are first needed.
    func prepare() { _ = key("") }

    private func start() {
        fetch { [weak self] result in self?.finish(result) }
    }

    private func finish(_ result: Result<ClientResponse, HTTPClientError>) {
        let now = Clock.monotonicMilliseconds
        let document = Self.document(result)
        let answers = state.withLock { state -> [(@Sendable (Lookup) -> Void, Lookup)] in
            switch document {
            case .success(let (keys, life)): state.machine.fetched(keys, life: life, now: now)
            case .failure: state.machine.failed(now: now)
            }
            versionNow.store(state.machine.version, ordering: .releasing)
            defer { state.waiting.removeAll() }
            return state.waiting.map { ($0.callback, state.machine.settled($0.id, now: now)) }
        }
        switch document {
        case .success(let (keys, life)):
            logger.info("keys fetched", [("keys", "\(keys.count)"), ("lifeSeconds", "\((life ?? -1_000) / 1_000)")])
        case .failure(let failure):
            logger.warning("the issuer's keys can't be fetched", [("error", failure.description)])
        }
        for (callback, lookup) in answers { callback(lookup) }
    }

    private static func document(
        _ result: Result<ClientResponse, HTTPClientError>
    ) -> Result<([String: RSAPublicKey], Int64?), KeySetDocument.Failure> {
        switch result {
        case .failure(let error): return .failure(.init(description: "\(error)"))
        case .success(let response):
            guard response.status == 200 else { return .failure(.init(description: "status \(response.status)")) }
            do throws(KeySetDocument.Failure) {
                return .success((try KeySetDocument(response.body).keys, KeySetDocument.life(of: response)))
            } catch {
                return .failure(error)
            }
        }
    }
}
