import CKafka
import Glibc

/// The mock brokers of librdkafka, in this process.
///
/// @unchecked Sendable is safe: the library allows these calls on all threads, and no other state changes.
public final class TestKafka: @unchecked Sendable {
    public struct Failure: Error {
        public let reason: String
    }

    /// A record stored in a topic.
    public struct Stored: Sendable, Equatable {
        public let partition: Int
        public let key: String
        public let value: String
        public let headers: [String: String]
    }

    private let host: OpaquePointer
    private let cluster: OpaquePointer
    private let brokerCount: Int

    public let brokers: [String]

    public init(brokers count: Int = 1) throws {
        var text = [CChar](repeating: 0, count: 256)
        let configuration = rd_kafka_conf_new()
        rd_kafka_conf_set_log_cb(configuration) { _, _, _, _ in }
        guard let host = rd_kafka_new(RD_KAFKA_PRODUCER, configuration, &text, text.count),
            let cluster = rd_kafka_mock_cluster_new(host, Int32(count)),
            let addresses = rd_kafka_mock_cluster_bootstraps(cluster)
        else { throw Failure(reason: "the brokers can't be made") }
        self.host = host
        self.cluster = cluster
        brokerCount = count
        brokers = String(cString: addresses).split(separator: ",").map(String.init)
    }

    deinit {
        rd_kafka_mock_cluster_destroy(cluster)
        rd_kafka_destroy(host)
    }

    public func addTopic(_ name: String, partitions: Int = 1) {
        rd_kafka_mock_topic_create(cluster, name, Int32(partitions), Int32(brokerCount))
    }

    /// Sets the errors with which the brokers answer the next Produce requests, as the protocol's numbers.
    public func refuse(_ numbers: [Int32]) {
        let errors = numbers.map { rd_kafka_resp_err_t($0) }
        // 0 is the protocol's number for Produce.
        rd_kafka_mock_push_request_errors_array(cluster, 0, errors.count, errors)
    }

    public func setDown() { for broker in 1...brokerCount { rd_kafka_mock_broker_set_down(cluster, Int32(broker)) } }
    public func setUp() { for broker in 1...brokerCount { rd_kafka_mock_broker_set_up(cluster, Int32(broker)) } }

    /// Sets the delay of answers.
    public func setDelay(milliseconds: Int) {
        for broker in 1...brokerCount { rd_kafka_mock_broker_set_rtt(cluster, Int32(broker), Int32(milliseconds)) }
    }

    /// Returns the records of a topic, by partition and in order.
    public func records(of topic: String, partitions: Int = 1) throws -> [Stored] {
        var text = [CChar](repeating: 0, count: 256)
        let configuration = rd_kafka_conf_new()
        for (name, value) in [
            ("bootstrap.servers", brokers.joined(separator: ",")), ("group.id", "reader"),
            ("enable.partition.eof", "true"), ("enable.auto.commit", "false"),
        ] {
            guard rd_kafka_conf_set(configuration, name, value, &text, text.count) == RD_KAFKA_CONF_OK else {
                throw Failure(reason: "no reader")
            }
        }
        guard let consumer = rd_kafka_new(RD_KAFKA_CONSUMER, configuration, &text, text.count) else {
            throw Failure(reason: "no reader")
        }
        defer { rd_kafka_destroy(consumer) }
        rd_kafka_poll_set_consumer(consumer)
        let offsets = rd_kafka_topic_partition_list_new(Int32(partitions))
        for partition in 0..<partitions {
            // From the beginning.
            rd_kafka_topic_partition_list_add(offsets, topic, Int32(partition)).pointee.offset = -2
        }
        rd_kafka_assign(consumer, offsets)
        rd_kafka_topic_partition_list_destroy(offsets)
        defer { rd_kafka_consumer_close(consumer) }
        return try read(consumer, partitions)
    }

    private func read(_ consumer: OpaquePointer, _ partitions: Int) throws -> [Stored] {
        var records = [[Stored]](repeating: [], count: partitions)
        var ended: Set<Int32> = []
        let isRead = eventually {
            while let message = rd_kafka_consumer_poll(consumer, 100) {
                defer { rd_kafka_message_destroy(message) }
                if message.pointee.err == RD_KAFKA_RESP_ERR__PARTITION_EOF { ended.insert(message.pointee.partition) }
                if message.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR {
                    records[Int(message.pointee.partition)].append(Self.stored(message))
                }
                if ended.count == partitions { return true }
            }
            return false
        }
        guard isRead else { throw Failure(reason: "the topic can't be read to its end") }
        return records.flatMap(\.self)
    }

    private static func stored(_ message: UnsafeMutablePointer<rd_kafka_message_t>) -> Stored {
        var headers: [String: String] = [:]
        var list: OpaquePointer?
        if rd_kafka_message_headers(message, &list) == RD_KAFKA_RESP_ERR_NO_ERROR {
            var index = 0
            var name: UnsafePointer<CChar>?
            var value: UnsafeRawPointer?
            var size = 0
            while rd_kafka_header_get_all(list, index, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
                if let name { headers[String(cString: name)] = string(value, size) }
                index += 1
            }
        }
        return Stored(
            partition: Int(message.pointee.partition), key: string(message.pointee.key, message.pointee.key_len),
            value: string(message.pointee.payload, message.pointee.len), headers: headers)
    }

    private static func string(_ start: UnsafeRawPointer?, _ count: Int) -> String {
        String(decoding: UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count), as: UTF8.self)
    }
}
