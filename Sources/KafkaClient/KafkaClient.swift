internal import Runtime
internal import Synchronization

/// Publishes records to Kafka topics with an idempotent producer: the broker stores a record that the library repeats only
/// once. Usable on any thread.
public final class KafkaClient: Sendable {
    /// Called once for each record, on the client's thread or the caller's. Must return soon.
    public typealias Completion = @Sendable (Result<KafkaReceipt, KafkaError>) -> Void

    private let core: KafkaCore
    private let thread: Thread

    /// Connects in the background. Unreachable brokers are reported by the first record.
    public init(_ settings: KafkaSettings) throws(KafkaError) {
        guard !settings.brokers.isEmpty else { throw .cannotStart("no broker is named") }
        let core = KafkaCore(try Producer(settings), settings)
        self.core = core
        thread = Thread(name: "kafka-client", isVital: false) { core.run() }
        guard thread.isStarted else {
            core.close()
            // This frees the producer.
            core.run()
            throw .cannotStart("no thread could be created: memory or threads are exhausted")
        }
    }

    deinit { stop() }

    /// Sends a record. `completion` is always called, perhaps before this method returns.
    public func publish(_ record: KafkaRecord, _ completion: @escaping Completion) {
        if let refusal = core.publish(record, completion) { completion(.failure(refusal)) }
    }

    /// Waits up to `flushMilliseconds` for the records in flight, fails the others, and ends the thread. Later calls do nothing.
    /// Must not be called from a completion.
    public func stop() {
        core.close()
        thread.join()
    }
}

/// The client's producer, and the work of its thread.
final class KafkaCore: Sendable {
    private struct State {
        /// Nil when the client is stopped, and while a new producer could not be created.
        var producer: Producer?
        var isStopped = false
    }

    private let settings: KafkaSettings
    private let state: Mutex<State>
    /// The maximum delay until the thread notices a stop.
    private static let pollMilliseconds: Milliseconds = 100

    init(_ producer: Producer, _ settings: KafkaSettings) {
        self.settings = settings
        state = Mutex(State(producer: producer))
    }

    /// Publishes a record. Returns the reason for a refusal, or nil.
    func publish(_ record: KafkaRecord, _ completion: @escaping KafkaClient.Completion) -> KafkaError? {
        state.withLock { state in
            guard !state.isStopped else { return .stopped }
            guard let producer = state.producer else { return .cannotStart("a new producer could not be created yet") }
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

    /// Replaces a producer that is out of step with the brokers' sequence numbers. Such a producer sends nothing more.
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
    /// Records with the same key go to the same partition; this includes the empty key.
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

/// The position of a record in a topic.
public struct KafkaReceipt: Sendable, Equatable {
    public let partition: Int
    /// Nil if the broker did not report it.
    public let offset: Int64?

    public init(partition: Int, offset: Int64?) {
        self.partition = partition
        self.offset = offset
    }
}

/// The reason why a record is not known to be in a topic. Contains no credentials.
public enum KafkaError: Error, Equatable, Sendable, CustomStringConvertible {
    case cannotStart(String)
    /// The library does not know the property or rejects the value, or the property must not be set.
    case badProperty(name: String, String)
    /// An error that a broker or the library reports for a record.
    case failed(Code, String)
    case tooManyRecords
    case stopped

    /// An error code of librdkafka: positive for errors of the protocol, negative for errors of the library.
    public struct Code: Sendable, Equatable, Hashable {
        public let number: Int
        /// The code's name, such as `MSG_SIZE_TOO_LARGE`.
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

        /// The errors that concern the record itself: it is too large for the producer or the broker, or the broker validates
        /// records and rejected it.
        fileprivate static let permanent: Set<Int> = [invalidArgument, 2, 4, 10, 18, 44, 87]
    }

    /// Whether sending the same record again would always fail in the same way.
    public var isPermanent: Bool {
        if case .failed(let code, _) = self { Code.permanent.contains(code.number) } else { false }
    }

    public var description: String {
        switch self {
        case .cannotStart(let what): "The Kafka client can't start: \(what)."
        case .badProperty(let name, let what): "Kafka's property \(name) \(what)."
        case .failed(let code, let what): "Kafka did not accept the record: \(what) (\(code.name))."
        case .tooManyRecords: "Too many records are in flight to Kafka."
        case .stopped: "The Kafka client has stopped."
        }
    }
}
