public import HTTPClient
public import Runtime

/// Delivers messages to an HTTP server, signed according to Standard Webhooks.
public final class WebhookSink: Sink {
    private struct State {
        var isStopped = false
        var lastDelivery = 0
        /// The deliveries in flight, by number. The request's id is nil until `send` has returned.
        var inFlight: [Int: HTTPClient.RequestID?] = [:]
    }

    private let definition: WebhookDefinition
    private let kind: FirebaseEvent.Kind
    private let isSequential: Bool
    private let keys: [Secret<[UInt8]>]
    private let credentials: Secret<[(name: String, value: String)]>
    private let addresses: AddressPolicy
    private let client: HTTPClient
    private let clock: @Sendable () -> Milliseconds
    private let state = MutexBox(State())

    public var batchSize: Int { definition.batch }
    public var concurrency: Int { definition.concurrency }
    public var timeoutMilliseconds: Milliseconds { definition.timeoutMilliseconds + queueMilliseconds }
    /// How long a request waits for a slot of the client before the endpoint's timeout starts.
    private var queueMilliseconds: Milliseconds { min(Self.mostQueueMilliseconds, definition.timeoutMilliseconds) }
    private static let mostQueueMilliseconds: Milliseconds = 5_000

    /// - Parameters:
    ///   - kind: The kind of event, for the format `firebase`.
    ///   - isSequential: Whether the feed's order is `namespace`: all messages after a failed one are delivered again,
    ///     regardless of their keys.
    ///   - exceptions: The private networks and hosts that the gateway's operator allows for webhooks.
    ///   - client: The HTTP client. It remains owned by the caller, and many sinks may share it.
    ///   - environment: Looks up an environment variable that the definition names.
    ///   - clock: The time for signatures, in milliseconds since 1970.
    public init(
        _ definition: WebhookDefinition, kind: FirebaseEvent.Kind = .written, isSequential: Bool = false,
        exceptions: AddressPolicy.Exceptions, client: HTTPClient,
        environment: (String) -> String?, clock: @escaping @Sendable () -> Milliseconds = { Clock.unixMilliseconds }
    ) throws(SinkError) {
        self.definition = definition
        self.kind = kind
        self.isSequential = isSequential
        self.client = client
        self.clock = clock
        addresses = .publicOnly(except: exceptions)
        keys = try Self.keys(definition.secrets, environment)
        credentials = Secret(try Self.headers(definition.headers, environment))
    }

    private static func keys(
        _ secrets: [SinkSecret], _ environment: (String) -> String?
    ) throws(SinkError) -> [Secret<[UInt8]>] {
        var keys: [Secret<[UInt8]>] = []
        for secret in secrets {
            let text = try secret.value(environment)
            do throws(WebhookSignature.BadSecret) {
                keys.append(Secret(try WebhookSignature.key(text.revealed())))
            } catch {
                throw SinkError(
                    "\(secret.definitionText(showsSecrets: false)) is not a secret of a webhook: \(error.reason).")
            }
        }
        return keys
    }

    private static func headers(
        _ headers: [WebhookDefinition.Header], _ environment: (String) -> String?
    ) throws(SinkError) -> [(name: String, value: String)] {
        var found: [(name: String, value: String)] = []
        for header in headers {
            let text = try header.value.value(environment).revealed()
            guard WebhookDefinition.isHeaderValue(text) else {
                let source = header.value.definitionText(showsSecrets: false)
                throw SinkError(
                    "\(source) can't be the value of the header \(header.name): it has control characters or is too long."
                )
            }
            found.append((header.name, text))
        }
        return found
    }

    /// Sends the messages in one request.
    public func deliver(_ messages: [SinkMessage], _ completion: @escaping @Sendable ([SinkOutcome]) -> Void) {
        guard !messages.isEmpty else { return completion([]) }
        guard let request = request(messages) else {
            return completion(messages.map { _ in .refused(reason: Self.incomplete) })
        }
        let number = state.withLock { state -> Int? in
            guard !state.isStopped else { return nil }
            state.lastDelivery += 1
            state.inFlight[state.lastDelivery] = .some(nil)
            return state.lastDelivery
        }
        guard let number else {
            return completion(messages.map { _ in .notSent })
        }
        let id = client.send(request) { [state, clock, isSequential, isBatch = definition.batch > 1] result in
            state.withLock { _ = $0.inFlight.removeValue(forKey: number) }
            completion(
                WebhookAnswer.outcomes(
                    result, for: messages, isBatch: isBatch, isSequential: isSequential, nowUnixMilliseconds: clock()))
        }
        // `stop` may have been called before the request's id was known.
        let isTooLate = state.withLock { state -> Bool in
            guard state.inFlight[number] != nil else { return false }
            state.inFlight[number] = id
            return state.isStopped
        }
        if isTooLate { client.cancel(id) }
    }

    /// Cancels the deliveries in flight.
    public func stop() {
        let ids = state.withLock { state in
            state.isStopped = true
            return state.inFlight.values.compactMap { $0 }
        }
        for id in ids { client.cancel(id) }
    }

    private static let incomplete =
        "The stored message lacks the value before or after the change, which the format firebase needs. Move the feed back with seek."

    /// Returns nil if a message lacks a part that the format needs.
    private func request(_ messages: [SinkMessage]) -> HTTPClientRequest? {
        guard
            let content = WebhookRequest(
                messages, format: definition.format, kind: kind, isBatch: definition.batch > 1, keys: keys,
                timestampSeconds: clock() / 1_000)
        else { return nil }
        var request = HTTPClientRequest(definition.url)
        request.method = "POST"
        request.headers = content.headers
        request.credentials = credentials.revealed()
        request.body = content.body
        request.timeoutMilliseconds = definition.timeoutMilliseconds
        request.queueMilliseconds = queueMilliseconds
        if let first = messages.first {
            request.group = first.namespace
            request.member = first.feed
            // A response from one namespace's endpoint must never answer a request of another namespace.
            request.connections = first.namespace
        }
        request.connectTimeoutMilliseconds = definition.connectTimeoutMilliseconds
        request.maxResponseBytes = WebhookAnswer.maxBytes
        request.truncatesResponse = true
        request.redirects = .sameRequest
        request.maxRedirects = 3
        request.addresses = addresses
        // The address policy decides which hosts may be reached. A redirect from TLS must lead to TLS.
        request.allowsPlainHTTP = definition.url.lowercased().hasPrefix("http://")
        return request
    }
}
