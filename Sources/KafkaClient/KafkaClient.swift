internal import Runtime
internal import Synchronization

/// Publishes records to topics of Kafka with an idempotent producer: what the library sends again by itself, the broker has
/// once. Any thread may use it.
public final class KafkaClient: Sendable {
    /// Called once for each record, from the client's thread; must return soon.
    public typealias Completion = @Sendable (Result<KafkaReceipt, KafkaError>) -> Void

    private let core: KafkaCore
    private let thread: Thread

    /// Connects in the background: that brokers are away shows with the first record.
    public init(_ settings: KafkaSettings) throws(KafkaError) {
        guard !settings.brokers.isEmpty else { throw .cannotStart("no broker is named") }
        let core = KafkaCore(try Producer(settings), settings)
        self.core = core
        thread = Thread(name: "kafka-client", isVital: false) { core.run() }
        guard thread.isStarted else {
            core.close()
            // Frees the producer.
            core.run()
            throw .cannotStart("no thread, for want of memory or of threads")
        }
    }

    deinit { stop() }

    /// Sends a record. `completion` is always called, though maybe before this returns.
    public func publish(_ record: KafkaRecord, _ completion: @escaping Completion) {
        if let refusal = core.publish(record, completion) { completion(.failure(refusal)) }
    }

    /// Waits a moment for what is under way (`flushMilliseconds`), fails the rest, and ends the thread. Later calls do nothing.
    /// Not from inside a completion.
    public func stop() {
        core.close()
        thread.join()
    }
}

/// The client's producer, and its thread's work.
final class KafkaCore: Sendable {
    private struct State {
        /// Nil when stopped, and where a new one could not be made.
        var producer: Producer?
        var isStopped = false
    }

    private let settings: KafkaSettings
    private let state: Mutex<State>
    /// A stop is noticed so late.
    private static let pollMilliseconds: Milliseconds = 100

    init(_ producer: Producer, _ settings: KafkaSettings) {
        self.settings = settings
        state = Mutex(State(producer: producer))
    }

    /// Why the record is not taken, or nil.
    func publish(_ record: KafkaRecord, _ completion: @escaping KafkaClient.Completion) -> KafkaError? {
        state.withLock { state in
            guard !state.isStopped else { return .stopped }
            guard let producer = state.producer else { return .cannotStart("a new producer could not be made yet") }
            do throws(KafkaError) {
                try producer.publish(record, completion)
                return nil
            } catch {
                return error
            }
        }
    }

    func close() { state.withLock { $0.isStopped = true } }

    func run() {
        while true {
            let (producer, isStopped) = state.withLock { ($0.producer, $0.isStopped) }
            if isStopped {
                state.withLock { $0.producer = nil }
                producer?.close(flushMilliseconds: settings.flushMilliseconds)
                return
            }
            if let producer {
                producer.poll(milliseconds: Self.pollMilliseconds)
                if producer.hasFailed { replace(producer) }
            } else {
                pause()
                renew()
            }
        }
    }

    /// A producer that has lost its place among the brokers' sequences sends nothing more.
    private func replace(_ producer: Producer) {
        state.withLock { $0.producer = nil }
        producer.close(flushMilliseconds: 0)
        renew()
    }

    private func renew() {
        let made = try? Producer(settings)
        state.withLock { $0.producer = made }
    }

    private func pause() {
        let never = Condition(())
        let _: Void? = never.wait(milliseconds: Self.pollMilliseconds) { _ in nil }
    }
}

/// A record for a topic.
public struct KafkaRecord: Sendable, Equatable {
    public var topic: String
    /// Records of one key go to one partition; so do those whose key is empty.
    public var key: [UInt8]
    public var headers: [Header]
    public var value: [UInt8]

    public struct Header: Sendable, Equatable {
        public let name: String
        public let value: String

        public init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    public init(topic: String, key: [UInt8], headers: [Header] = [], value: [UInt8]) {
        self.topic = topic
        self.key = key
        self.headers = headers
        self.value = value
    }
}

/// The place of a record in a topic.
public struct KafkaReceipt: Sendable, Equatable {
    public let partition: Int
    /// Nil where the broker did not say.
    public let offset: Int64?

    public init(partition: Int, offset: Int64?) {
        self.partition = partition
        self.offset = offset
    }
}

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
