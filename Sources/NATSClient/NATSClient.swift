internal import Runtime

/// Publishes messages to streams of JetStream, all from one thread of its own. Any thread may use it.
///
/// It connects when there is something to send, and again after a connection was lost. What was under way then fails at once
/// and is not sent again: whoever published it does that, and the stream knows it by its id.
public final class NATSClient: Sendable {
    /// Called once for each message, from a thread of the client; must return soon.
    public typealias Completion = @Sendable (Result<NATSAcknowledgement, NATSError>) -> Void

    private let core: NATSCore
    private let thread: Thread

    /// The thread starts at once and waits without cost.
    public init(_ settings: NATSSettings) throws(NATSError) {
        guard !settings.servers.isEmpty else { throw .cannotStart("no server is named") }
        let core = NATSCore(settings)
        self.core = core
        thread = Thread(name: "nats-client", isVital: false) { PublishLoop(core, settings).run() }
        guard thread.isStarted else { throw .cannotStart("no thread, for want of memory or of threads") }
    }

    deinit { stop() }

    /// Sends a message. `completion` is always called, though maybe before this returns.
    public func publish(_ message: NATSMessage, _ completion: @escaping Completion) {
        if let refusal = core.add(message, completion) { completion(.failure(refusal)) }
    }

    /// Fails what is under way and ends the thread, which takes as long as connecting may take at most. Later calls do nothing.
    /// Not from inside a completion.
    public func stop() {
        core.close()
        thread.join()
    }
}

/// What the threads of a client share: its messages, and whether its connection has ended.
final class NATSCore: Sendable {
    struct State: Sendable {
        var table: PublishTable
        /// Which connection is used; those before it have no say any more.
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

    /// Why the message is not taken, or nil.
    func add(_ message: NATSMessage, _ completion: @escaping NATSClient.Completion) -> NATSError? {
        if let fault = message.fault { return fault }
        let now = Clock.monotonicMilliseconds
        return state.signal { state in
            if state.isStopped { return .stopped }
            return state.table.add(message, at: now, completion) ? nil : .tooManyMessages
        }
    }

    /// An answer came; maybe nobody waits for it any more.
    func acknowledged(_ token: UInt64, _ result: Result<NATSAcknowledgement, NATSError>) {
        let item = state.withLock { $0.table.take(token) }
        item?.completion(result)
    }

    /// Nobody listens to the message's subject.
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

/// Why a message is not known to be in a stream. Holds no credentials.
public enum NATSError: Error, Equatable, Sendable, CustomStringConvertible {
    case cannotStart(String)
    /// No server listens there, or its name is not known.
    case unreachable(String)
    /// The server refuses the credentials.
    case notAuthorized(String)
    /// The server is not who it should be, or one of the two wants TLS and the other does not.
    case insecure(String)
    /// The connection broke while the message was on its way: it may be in the stream.
    case connectionLost(String)
    /// No acknowledgement in time: the message may be in the stream.
    case timedOut(String)
    /// Nobody stores what comes with this subject.
    case noStream(subject: String)
    /// JetStream says why it did not take the message.
    case rejected(code: Int, String)
    case tooLarge(bytes: Int, limit: Int)
    /// The message can't be sent as it is, such as one whose subject has a space.
    case badMessage(String)
    case tooManyMessages
    case stopped

    /// Whether the same message meets the same fate whenever it is sent.
    public var isPermanent: Bool {
        switch self {
        case .tooLarge, .badMessage: true
        case .rejected(let code, _): code == Self.exceedsStreamMaximum
        default: false
        }
    }

    /// JetStream's number for a message that is larger than its stream takes.
    private static let exceedsStreamMaximum = 10_054

    public var description: String {
        switch self {
        case .cannotStart(let what): "The NATS client can't start: \(what)."
        case .unreachable(let what): "NATS can't be reached: \(what)."
        case .notAuthorized(let what): "NATS refuses the credentials: \(what)."
        case .insecure(let what): "The connection to NATS can't be made safe: \(what)."
        case .connectionLost(let what): "The connection to NATS was lost: \(what)."
        case .timedOut(let what): "NATS did not acknowledge in time\(what.isEmpty ? "" : ": " + what)."
        case .noStream(let subject): "No stream of JetStream takes the subject \(subject), or JetStream is not on."
        case .rejected(let code, let what): "JetStream did not take the message: \(what) (\(code))."
        case .tooLarge(let bytes, let limit): "The message has \(bytes) bytes; the NATS server takes \(limit)."
        case .badMessage(let what): "The message can't be sent to NATS: \(what)."
        case .tooManyMessages: "Too many messages are under way to NATS."
        case .stopped: "The NATS client has stopped."
        }
    }
}
