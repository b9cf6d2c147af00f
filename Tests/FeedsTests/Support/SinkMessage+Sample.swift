import Feeds
import Tree

extension SinkMessage {
    /// Returns a small message of the feed `orders`.
    static func sample(_ seq: Int64, key: String = "o1", path: String = "/orders/o1", attempt: Int = 1) -> SinkMessage {
        let id = "default:\(seq):0"
        return SinkMessage(
            id: id, namespace: "default", feed: "orders", key: key, path: path, event: "created", seq: seq,
            time: "2026-11-22T10:00:00.000Z", attempt: attempt, json: Array("{\"id\":\"\(id)\",\"n\":\(seq)}".utf8),
            values: RecordValues(before: .null, after: .int(seq)))
    }
}
