internal import Runtime

/// Publishes messages to JetStream streams on one thread of its own. Usable on any thread.
///
/// The client connects when there are messages to send, and reconnects after it has lost the connection. Messages in flight then
/// fail at once and are not sent again. The publisher repeats them, and the stream detects duplicates by their ids.
public final class NATSClient: Sendable {
    /// Called once for each message, on a thread of the client or of the caller. Must return soon.
    public typealias Completion = @Sendable (Result<NATSAcknowledgement, NATSError>) -> Void

    private let core: NATSCore
    private let thread: Thread

    /// Starts the thread, which waits without cost.
    public init(_ settings: NATSSettings) throws(NATSError) {
        guard !settings.servers.isEmpty else { throw .cannotStart("no server is named") }
        let core = NATSCore(settings)
        self.core = core
        thread = Thread(name: "nats-client", isVital: false) { PublishLoop(core, settings).run() }
        guard thread.isStarted else {
            throw .cannotStart("no thread could be created: memory or threads are exhausted")
        }
    }

    deinit { stop() }

    /// Sends a message. `completion` is always called, perhaps before this method returns.
    public func publish(_ message: NATSMessage, _ completion: @escaping Completion) {
        if let refusal = core.add(message, completion) { completion(.failure(refusal)) }
    }

    /// Fails the messages in flight and ends the thread, which takes at most as long as connecting may take. Later calls do
    /// nothing. Must not be called from a completion.
    public func stop() {
        core.close()
        thread.join()
    }
}

/// The state shared by the threads of a client: its messages, and whether its connection has ended.
final class NATSCore: Sendable {
    struct State: Sendable {
        var table: PublishTable
        /// The number of the current connection. Reports about earlier connections are ignored.
        var connectionNumber = 0
        var isConnectionEnded = false
        var isStopped = false
    }

    let state: Condition<State>

    init(_ settings: NATSSettings) {
        state = Condition(
            State(
                table: PublishTable(
                    limit: settings.maxMessages, timeoutMilliseconds: settings.timeoutMilliseconds)))
    }

    /// Adds a message. Returns the reason for a refusal, or nil.
    func add(_ message: NATSMessage, _ completion: @escaping NATSClient.Completion) -> NATSError? {
        if let fault = message.fault { return fault }
        let now = Clock.monotonicMilliseconds
        return state.signal { state in
            if state.isStopped { return .stopped }
            return state.table.add(message, at: now, completion) ? nil : .tooManyMessages
        }
    }

    /// Completes a message, unless it has already been completed.
    func acknowledged(_ token: UInt64, _ result: Result<NATSAcknowledgement, NATSError>) {
        let item = state.withLock { $0.table.take(token) }
        item?.completion(result)
    }

    /// Fails a message because no stream subscribes to its subject.
    func notStored(_ token: UInt64) {
        guard let item = state.withLock({ $0.table.take(token) }) else { return }
        item.completion(.failure(.noStream(subject: item.message.subject)))
    }

    func connectionEnded(_ number: Int) {
        state.signal { state in
            if state.connectionNumber == number { state.isConnectionEnded = true }
        }
    }

    func close() {
        let items = state.broadcast { state in
            state.isStopped = true
            let sent = state.table.takeSent()
            return sent + state.table.takeWaiting().compactMap { state.table.take($0.token) }
        }
        for item in items { item.completion(.failure(.stopped)) }
    }
}

/// The reason why a message is not known to be in a stream. Contains no credentials.
public enum NATSError: Error, Equatable, Sendable, CustomStringConvertible {
    case cannotStart(String)
    /// The server refuses connections, or its name is unknown.
    case unreachable(String)
    /// The server rejects the credentials.
    case notAuthorized(String)
    /// The server's identity could not be verified, or only one side requires TLS.
    case insecure(String)
    /// The connection broke while the message was in flight. The message may be in the stream.
    case connectionLost(String)
    /// No acknowledgement arrived in time. The message may be in the stream.
    case timedOut(String)
    /// No stream stores messages with this subject.
    case noStream(subject: String)
    /// JetStream's reason for rejecting the message.
    case rejected(code: Int, String)
    case tooLarge(bytes: Int, limit: Int)
    /// The message is invalid, for example because its subject contains a space.
    case badMessage(String)
    case tooManyMessages
    case stopped

    /// Whether sending the same message again would always fail in the same way.
    public var isPermanent: Bool {
        switch self {
        case .tooLarge, .badMessage: true
        case .rejected(let code, _): code == Self.exceedsStreamMaximum
        default: false
        }
    }

    /// JetStream's code for a message that is larger than its stream allows.
    private static let exceedsStreamMaximum = 10_054

    public var description: String {
        switch self {
        case .cannotStart(let what): "The NATS client can't start: \(what)."
        case .unreachable(let what): "NATS can't be reached: \(what)."
        case .notAuthorized(let what): "NATS refuses the credentials: \(what)."
        case .insecure(let what): "The connection to NATS can't be secured: \(what)."
        case .connectionLost(let what): "The connection to NATS was lost: \(what)."
        case .timedOut(let what): "NATS did not acknowledge in time\(what.isEmpty ? "" : ": " + what)."
        case .noStream(let subject): "No JetStream stream accepts the subject \(subject), or JetStream is disabled."
        case .rejected(let code, let what): "JetStream did not accept the message: \(what) (\(code))."
        case .tooLarge(let bytes, let limit):
            "The message has \(bytes) bytes; the NATS server accepts at most \(limit)."
        case .badMessage(let what): "The message can't be sent to NATS: \(what)."
        case .tooManyMessages: "Too many messages are in flight to NATS."
        case .stopped: "The NATS client has stopped."
        }
    }
}
