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
