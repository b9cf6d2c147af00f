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
