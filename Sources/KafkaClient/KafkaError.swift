/// Why a record is not known to be in a topic. Holds no credentials.
public enum KafkaError: Error, Equatable, Sendable, CustomStringConvertible {
    case cannotStart(String)
    /// The library does not know the property, or not this value; or it is none that may be set.
    case badProperty(name: String, String)
    /// What a broker or the library says of a record.
    case failed(Code, String)
    case tooManyRecords
    case stopped

    /// librdkafka's number for an error: above 0 those of the protocol, below those of the library.
    public struct Code: Sendable, Equatable, Hashable {
        public let number: Int
        /// Such as `MSG_SIZE_TOO_LARGE`.
        public let name: String

        public init(number: Int, name: String) {
            self.number = number
            self.name = name
        }

        /// `RD_KAFKA_RESP_ERR__MSG_TIMED_OUT`
        static let timedOut = -192
        /// `RD_KAFKA_RESP_ERR__INVALID_ARG`
        static let invalidArgument = -186
        /// `RD_KAFKA_RESP_ERR__QUEUE_FULL`
        static let queueFull = -184

        /// Errors that are about the record itself: too large for the producer or the broker, or refused by a broker that
        /// checks records.
        fileprivate static let permanent: Set<Int> = [invalidArgument, 2, 4, 10, 18, 44, 87]
    }

    /// Whether the same record meets the same fate whenever it is sent.
    public var isPermanent: Bool {
        if case .failed(let code, _) = self { Code.permanent.contains(code.number) } else { false }
    }

    public var description: String {
        switch self {
        case .cannotStart(let what): "The Kafka client can't start: \(what)."
        case .badProperty(let name, let what): "Kafka's property \(name) \(what)."
        case .failed(let code, let what): "Kafka did not take the record: \(what) (\(code.name))."
        case .tooManyRecords: "Too many records are under way to Kafka."
        case .stopped: "The Kafka client has stopped."
        }
    }
}
