import Runtime
import TestSupport
import Testing

@testable import Feeds

/// Tests of deliveries to topics of librdkafka's mock brokers.
@Suite struct KafkaSinkTests {
    private let kafka: TestKafka
    private let producers = SinkProducers()

    init() throws {
        kafka = try TestKafka()
        kafka.addTopic("orders", partitions: 3)
    }

    private func sink(
        _ more: String = "", isSequential: Bool = false, namespace: String = "default"
    ) throws -> KafkaSink {
        let text = #"{"brokers":"\#(kafka.brokers.joined(separator: ","))","topic":"orders"\#(more)}"#
        let (definition, problems) = try read(text, "kafka") {
            KafkaDefinition.read($0, part: $1, problems: &$2)
        }
        #expect(problems == [])
        return try KafkaSink(
            try #require(definition), isSequential: isSequential, namespace: namespace, producers: producers
        ) { _ in nil }
    }

    private func values() throws -> [String] { try kafka.records(of: "orders", partitions: 3).map(\.value) }

    @Test func messagesAreDelivered() throws {
        let sink = try sink()
        defer { sink.stop() }
        #expect(sink.answers([.order(7, key: "room 1/m1")]) == [.delivered])
        let stored = try #require(try kafka.records(of: "orders", partitions: 3).first)
        #expect(stored.key == "room 1/m1")
        #expect(stored.value == #"{"n":7}"#)
        #expect(
            stored.headers == [
                "id": "default:7:0", "namespace": "default", "feed": "orders", "event": "created", "seq": "7",
            ])
    }

    @Test func orderIsKept() throws {
        let sink = try sink()
        defer { sink.stop() }
        // NOT_LEADER_FOR_PARTITION and REQUEST_TIMED_OUT, after which the library retries.
        kafka.refuse([6, 7, 6])
        let messages = (1...100).map { SinkMessage.order($0, key: "k\($0 % 7)") }
        #expect(sink.answers(messages)?.allSatisfy { $0 == .delivered } == true)
        let values = try values()
        #expect(values.count == 100)
        for key in 0..<7 {
            let ofKey = messages.filter { $0.key == "k\(key)" }.map { String(decoding: $0.json, as: UTF8.self) }
            #expect(values.filter(Set(ofKey).contains) == ofKey)
        }
    }

    /// Checks that messages after one that cannot be stored are not stored before it, and that other keys continue.
    @Test func aLargeMessageStopsItsKeyOnly() throws {
        let sink = try sink(#","properties":{"message.max.bytes":2000}"#)
        defer { sink.stop() }
        let large = String(repeating: "x", count: 4_000)
        let outcomes = try #require(
            sink.answers([
                .order(1, key: "a"), .order(2, key: "a", json: large), .order(3, key: "a"), .order(4, key: "b"),
            ]))
        #expect(
            outcomes[0] == .delivered && outcomes[1].isRefusal && outcomes[2] == .notSent && outcomes[3] == .delivered)
        #expect(Set(try values()) == [#"{"n":1}"#, #"{"n":4}"#])
    }

    @Test func brokersAreDownAndComeBack() throws {
        let sink = try sink(#","timeout":"1500ms","properties":{"reconnect.backoff.max.ms":200}"#)
        defer { sink.stop() }
        #expect(sink.answers([.order(1)]) == [.delivered])
        kafka.setDown()
        let outcomes = try #require(sink.answers([.order(2), .order(3)]))
        #expect(outcomes[0].isFailure, "\(outcomes)")
        #expect(outcomes[1] == .notSent)
        kafka.setUp()
        #expect(eventually(seconds: 60) { sink.answers([.order(2), .order(3)]) == [.delivered, .delivered] })
        let values = try values()
        #expect(values.first == #"{"n":1}"# && values.last == #"{"n":3}"#)
    }

    @Test func stoppingAnswersRequestsInFlight() throws {
        let sink = try sink()
        #expect(sink.answers([.order(1)]) == [.delivered])
        kafka.setDown()
        let outcomes = Condition<[SinkOutcome]?>(nil)
        sink.deliver([.order(2), .order(3), .order(4, key: "b")]) { result in outcomes.broadcast { $0 = result } }
        sink.stop()
        let all = outcomes.wait(milliseconds: 60_000) { $0 }
        #expect(all == [.notSent, .notSent, .notSent])
    }

    @Test func missingSecretsAreReported() throws {
        let text = #"{"brokers":"a:1","topic":"t","properties":{"sasl.password":"env:PATHMIRROR_SINK_PASSWORD"}}"#
        let (found, _) = try read(text, "kafka") { KafkaDefinition.read($0, part: $1, problems: &$2) }
        let definition = try #require(found)
        #expect(throws: SinkError.self) {
            _ = try KafkaSink(definition, isSequential: false, namespace: "default", producers: producers) { _ in nil }
        }
    }

    /// Checks that settings that librdkafka refuses use up no attempt.
    @Test func badSettingsAreNoFaultOfTheMessage() throws {
        let sink = try sink(#","properties":{"security.protocol":"ssl","ssl.ca.pem":"none"}"#)
        defer { sink.stop() }
        let outcomes = try #require(sink.answers([.order(1), .order(2, key: "b")]))
        for outcome in outcomes {
            guard case .unavailable(let reason) = outcome else {
                Issue.record("\(outcome)")
                return
            }
            #expect(reason.contains("The Kafka client can't start"))
        }
        #expect(producers.count == 0)
    }

    /// Checks that feeds without deliveries have no client, and that feeds of one namespace share one.
    @Test func clientsAreShared() throws {
        let sinks = try (0..<20).map { _ in try sink() } + [try sink(namespace: "other")]
        defer { for sink in sinks { sink.stop() } }
        #expect(producers.count == 0)
        for (number, sink) in sinks.enumerated() {
            #expect(sink.answers([.order(number, key: "k\(number)")]) == [.delivered])
        }
        #expect(producers.count == 2)
        #expect(try values().count == 21)
    }
}
