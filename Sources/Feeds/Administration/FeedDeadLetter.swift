import LogStore
import Tree

/// A message that is not delivered any more.
public struct FeedDeadLetter: Sendable {
    /// The message with its attempts, the errors and the time when it was given up, as JSON.
    public let json: [UInt8]
    /// The key by which the feed orders.
    public let key: String
    public let attempts: Int
    /// Why the last attempt failed.
    public let lastReason: String
    /// When it was given up, as RFC 3339 in UTC.
    public let deadAt: String
    private let position: FeedPosition

    init(_ record: FeedLetterRecord, since: String) {
        let failures = FeedFailure.read(record.errors)
        key = record.key
        attempts = record.attempts
        lastReason = failures.last?.reason ?? ""
        deadAt = since
        position = FeedPosition(seq: record.seq, index: record.index, isSnapshot: record.isSnapshot)
        var json = Array(StoredMessage.bounded(record.message ?? Array("{}".utf8)).dropLast())
        if json.count > 1 { json.append(UInt8(ascii: ",")) }
        json += Array("\"attempts\":\(record.attempts),\"errors\":".utf8)
        json += FeedFailure.json(failures)
        json += Array(",\"dead_at\":\"\(since)\"}".utf8)
        self.json = json
    }

    /// The message's id in its namespace.
    public func id(in namespace: String) -> String { position.id(in: namespace) }

    /// The first of some letters whose JSON has at most so many bytes together; at least one.
    static func page(_ letters: [FeedDeadLetter], mostBytes: Int) -> [FeedDeadLetter] {
        var left = mostBytes
        let count = letters.prefix { letter in
            // With the comma before the next.
            left -= letter.json.count + 1
            return left >= 0
        }.count
        return Array(letters.prefix(max(1, count)))
    }
}
