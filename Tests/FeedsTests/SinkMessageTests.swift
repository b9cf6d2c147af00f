import Feeds
import Testing

/// Tests of the messages that sinks receive.
@Suite struct SinkMessageTests {
    @Test func attemptsDistinguishDeliveries() {
        let first = SinkMessage(
            id: "default:42:0", namespace: "default", feed: "orders", key: "o1", path: "/orders/o1", event: "created",
            seq: 42, time: "2026-11-22T10:00:00.000Z", attempt: 1, json: Array("{}".utf8))
        let second = SinkMessage(
            id: first.id, namespace: first.namespace, feed: first.feed, key: first.key, path: first.path,
            event: first.event, seq: first.seq, time: first.time, attempt: 2, json: first.json)
        #expect(first != second)
    }
}
