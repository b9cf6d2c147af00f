import LogStore
import Tree

/// A message that is not delivered any more.
public struct FeedDeadLetter: Sendable {
    private let record: FeedLetterRecord
    private let since: String

    init(_ record: FeedLetterRecord, since: String) {
        self.record = record
        self.since = since
    }

    /// The message with its attempts, the errors and the time when it was given up, as JSON.
    public var json: [UInt8] {
        var json = Array((record.message ?? Array("{}".utf8)).dropLast())
        if json.count > 1 { json.append(UInt8(ascii: ",")) }
        json += Array("\"attempts\":\(record.attempts),\"errors\":".utf8)
        json += record.errors
        json += Array(",\"dead_at\":\"\(since)\"}".utf8)
        return json
    }

    /// The message's id in its namespace.
    public func id(in namespace: String) -> String {
        FeedPosition(seq: record.seq, index: record.index, isSnapshot: record.isSnapshot).id(in: namespace)
    }

    /// The key by which the feed orders.
    public var key: String { record.key }
    public var attempts: Int { record.attempts }
    /// Why the last attempt failed.
    public var lastReason: String { FeedFailure.read(record.errors).last?.reason ?? "" }
    /// When it was given up, as RFC 3339 in UTC.
    public var deadAt: String { since }
}
