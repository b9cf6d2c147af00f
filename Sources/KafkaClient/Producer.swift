import CKafka
import Runtime
import Synchronization

/// An idempotent producer of the library, used until it fails permanently. The client's thread polls and closes it.
/// Until then, any thread may publish with the client's lock held.
///
/// @unchecked Sendable is safe: all threads may use the library's handle, and `close` is called once, after the last `publish`.
final class Producer: @unchecked Sendable {
    private let handle: OpaquePointer
    private let events: ProducerEvents

    init(_ settings: KafkaSettings) throws(KafkaError) {
        guard let configuration = rd_kafka_conf_new() else { throw .cannotStart("no memory for its configuration") }
        events = ProducerEvents()
        do throws(KafkaError) {
            try Self.configure(configuration, settings)
        } catch {
            rd_kafka_conf_destroy(configuration)
            throw error
        }
        let context = Unmanaged.passRetained(events).toOpaque()
        rd_kafka_conf_set_opaque(configuration, context)
        rd_kafka_conf_set_dr_msg_cb(configuration) { _, message, _ in
            if let message { Delivery.reported(message.pointee) }
        }
        rd_kafka_conf_set_error_cb(configuration) { _, number, reason, context in
            guard let context else { return }
            let events = Unmanaged<ProducerEvents>.fromOpaque(context).takeUnretainedValue()
            events.note(number, reason.map { String(cString: $0) } ?? "")
        }
        // Without a callback the library logs to standard error. Important events are also reported as errors.
        rd_kafka_conf_set_log_cb(configuration) { _, _, _, _ in }
        var text = [CChar](repeating: 0, count: 512)
        guard let made = rd_kafka_new(RD_KAFKA_PRODUCER, configuration, &text, text.count) else {
            Unmanaged<ProducerEvents>.fromOpaque(context).release()
            rd_kafka_conf_destroy(configuration)
            // The library's message names conflicting properties and unreadable files. It repeats no other values.
            throw .cannotStart(Self.string(text))
        }
        handle = made
    }

    private static func configure(_ configuration: OpaquePointer, _ settings: KafkaSettings) throws(KafkaError) {
        for (name, value) in settings.properties {
            guard KafkaProperty.allowed.contains(name) else {
                throw .badProperty(name: name, "can't be set here")
            }
            if let fault = KafkaProperty.set(configuration, name, value.revealed()) {
                throw .badProperty(name: name, fault)
            }
        }
        let own = [
            ("bootstrap.servers", settings.brokers.joined(separator: ",")), ("enable.idempotence", "true"),
            ("acks", "all"),
            // The partitioner of Kafka's own client, so that other publishers to the topic choose the same partitions. The
            // library's default sends empty keys to any partition.
            ("partitioner", "murmur2"), ("message.timeout.ms", String(settings.timeoutMilliseconds)),
            ("queue.buffering.max.messages", String(settings.maxRecords)),
            ("queue.buffering.max.kbytes", String(settings.maxKilobytes)), ("statistics.interval.ms", "0"),
        ]
        for (name, value) in own {
            if let fault = KafkaProperty.set(configuration, name, value) { throw .badProperty(name: name, fault) }
        }
        if settings.properties["linger.ms"] == nil { _ = KafkaProperty.set(configuration, "linger.ms", "1") }
    }

    /// Passes a record to the library, which calls the completion later. Does not block.
    func publish(_ record: KafkaRecord, _ completion: @escaping KafkaClient.Completion) throws(KafkaError) {
        let headers = rd_kafka_headers_new(record.headers.count)
        for header in record.headers {
            let value = Array(header.value.utf8)
            rd_kafka_header_add(headers, header.name, -1, value, value.count)
        }
        let delivery = Unmanaged.passRetained(Delivery(completion, events))
        let code = Self.withBytes(record.key) { key in
            Self.withBytes(record.value) { value in
                pathmirror_kafka_produce(
                    handle, record.topic, key.baseAddress, key.count, value.baseAddress, value.count, headers,
                    delivery.toOpaque())
            }
        }
        guard code != RD_KAFKA_RESP_ERR_NO_ERROR else { return }
        delivery.release()
        rd_kafka_headers_destroy(headers)
        throw code.rawValue == KafkaError.Code.queueFull ? .tooManyRecords : Self.error(code, "")
    }

    /// Passes a non-null address even for an empty array: to the library, a null address means no key.
    private static func withBytes<Result>(
        _ bytes: [UInt8], _ body: (UnsafeBufferPointer<UInt8>) -> Result
    ) -> Result {
        if bytes.isEmpty {
            return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 1) { body(.init(rebasing: $0[..<0])) }
        }
        return bytes.withUnsafeBufferPointer(body)
    }

    /// Waits for acknowledgements and errors, and delivers them.
    func poll(milliseconds: Milliseconds) { rd_kafka_poll(handle, Int32(clamping: milliseconds)) }

    /// Whether the library will send nothing more.
    var hasFailed: Bool { events.hasFailed }

    /// Waits for the records in flight, fails the others, and frees the producer. `publish` must not be called any longer.
    func close(flushMilliseconds: Milliseconds) {
        if flushMilliseconds > 0 { rd_kafka_flush(handle, Int32(clamping: flushMilliseconds)) }
        let all = RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT
        rd_kafka_purge(handle, all)
        // The library reports an outcome for every record, including purged ones.
        while rd_kafka_outq_len(handle) > 0 {
            rd_kafka_poll(handle, 100)
            rd_kafka_purge(handle, all)
        }
        rd_kafka_destroy(handle)
        Unmanaged.passUnretained(events).release()
    }

    fileprivate static func error(_ code: rd_kafka_resp_err_t, _ lastError: String) -> KafkaError {
        let name = rd_kafka_err2name(code).map { String(cString: $0) } ?? ""
        let text = rd_kafka_err2str(code).map { String(cString: $0) } ?? ""
        let isBecauseOf = Int(code.rawValue) == KafkaError.Code.timedOut && !lastError.isEmpty
        return .failed(
            .init(number: Int(code.rawValue), name: name), isBecauseOf ? "\(text), last error: \(lastError)" : text)
    }

    private static func string(_ text: [CChar]) -> String {
        String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// The errors that a producer's brokers have reported.
private final class ProducerEvents: Sendable {
    private struct State {
        var lastError = ""
        var hasFailed = false
    }

    private let state = Mutex(State())

    var lastError: String { state.withLock { $0.lastError } }
    var hasFailed: Bool { state.withLock { $0.hasFailed } }

    func note(_ number: Int32, _ reason: String) {
        state.withLock { state in
            state.lastError = String(reason.prefix(300))
            if number == RD_KAFKA_RESP_ERR__FATAL.rawValue { state.hasFailed = true }
        }
    }
}

/// A record in flight. The library retains it until it reports the outcome, once.
private final class Delivery: Sendable {
    private let completion: KafkaClient.Completion
    private let events: ProducerEvents

    init(_ completion: @escaping KafkaClient.Completion, _ events: ProducerEvents) {
        self.completion = completion
        self.events = events
    }

    static func reported(_ message: rd_kafka_message_t) {
        guard let context = message._private else { return }
        let delivery = Unmanaged<Delivery>.fromOpaque(context).takeRetainedValue()
        delivery.completion(outcome(of: message, delivery.events.lastError))
    }

    private static func outcome(
        of message: rd_kafka_message_t, _ lastError: String
    ) -> Result<KafkaReceipt, KafkaError> {
        switch message.err {
        case RD_KAFKA_RESP_ERR_NO_ERROR:
            return .success(
                KafkaReceipt(partition: Int(message.partition), offset: message.offset >= 0 ? message.offset : nil))
        case RD_KAFKA_RESP_ERR__PURGE_QUEUE, RD_KAFKA_RESP_ERR__PURGE_INFLIGHT: return .failure(.stopped)
        default: return .failure(Producer.error(message.err, lastError))
        }
    }
}
