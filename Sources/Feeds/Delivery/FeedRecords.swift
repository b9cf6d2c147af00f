import LogStore
import Runtime
import Tree

extension FeedProgressRecord {
    init(_ progress: FeedProgress) {
        self.init(
            seq: progress.seq, index: progress.index, snapshotSeq: progress.snapshotSeq, done: progress.done.bytes,
            handedTo: progress.handedTo, readTo: progress.readTo)
    }
}

extension FeedProgress {
    /// Returns nil if the ranges are invalid or a number is one that no feed reaches.
    init?(_ record: FeedProgressRecord) {
        let numbers = [record.seq, record.index, record.snapshotSeq ?? 0, record.readTo.seq]
        // `handedTo` has no upper bound: it may have been recorded ahead of any entry that the feed reaches.
        guard let done = PositionRanges(bytes: record.done), record.handedTo >= 0,
            numbers.allSatisfy({ (0..<FeedPosition.most).contains($0) })
        else { return nil }
        self.init(
            seq: record.seq, index: record.index, snapshotSeq: record.snapshotSeq, done: done,
            handedTo: record.handedTo, readTo: record.readTo)
    }
}

extension FailedMessageRecord {
    init(_ failedMessage: FailedMessage, namespace: String) {
        self.init(
            position: failedMessage.position, key: failedMessage.key, state: failedMessage.state.rawValue,
            attempts: failedMessage.attempts,
            errors: FeedFailure.json(failedMessage.failures),
            message: failedMessage.message.map { StoredMessage.bounded($0.json(namespace: namespace, attempt: nil)) })
    }
}

extension FailedMessage {
    /// Returns nil if the record has an unknown state or an unreachable position.
    init?(_ record: FailedMessageRecord) {
        let position = record.position
        guard let state = State(rawValue: record.state), position.isReachable else { return nil }
        self.init(
            position: position, key: record.key, state: state, attempts: record.attempts,
            failures: FeedFailure.read(record.errors),
            message: record.message.map { FeedMessage(position: position, key: Self.key($0), content: .stored($0)) })
    }

    /// Returns the joined captured keys, which may differ from the key by which the feed orders.
    private static func key(_ message: [UInt8]) -> String { RawJSON(message).member("key") ?? "" }
}

extension RawJSON {
    /// Returns the value of a string member.
    func member(_ name: String) -> String? { members?.first { $0.key == name }?.value.string }
}

extension FeedFailure {
    static func json(_ failures: [FeedFailure]) -> [UInt8] {
        var writer = JSONWriter(form: .plain)
        writer.raw("[")
        for (index, failure) in failures.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.raw("{\"time\":")
            writer.writeString(failure.time)
            writer.raw(",\"attempt\":")
            writer.writeInteger(Int64(failure.attempt))
            writer.raw(",\"reason\":")
            writer.writeString(failure.reason)
            writer.raw("}")
        }
        writer.raw("]")
        return writer.bytes
    }

    /// Parses the format of `json`, including the longer lists of older versions. Skips invalid elements.
    static func read(_ json: [UInt8]) -> [FeedFailure] {
        guard let list = RawJSON(json).elements else { return [] }
        let failures = list.compactMap { element -> FeedFailure? in
            guard let attempt = element.members?.first(where: { $0.key == "attempt" })?.value.integer,
                let reason = element.member("reason"), let time = element.member("time")
            else { return nil }
            return FeedFailure(time: time, attempt: Int(clamping: attempt), reason: reason)
        }
        return kept(failures)
    }
}

extension FeedMessage {
    /// The facts that transports need without parsing the message.
    var facts: (path: String, event: String, time: String) {
        switch content {
        case .change(let change):
            return (
                change.path.description, change.event.rawValue,
                Timestamp.iso8601(unixMilliseconds: change.committedAt)
            )
        case .stored(let json):
            let raw = RawJSON(json)
            return (raw.member("path") ?? "", raw.member("event") ?? "", raw.member("time") ?? "")
        }
    }

    /// The author of the entry. Unknown for messages that an older version stored.
    var author: EntryAuthor {
        switch content {
        case .change(let change): change.author
        case .stored(let json):
            RawJSON(json).members?.first { $0.key == "auth" }.flatMap { EntryAuthor(written: $0.value) } ?? .unknown
        }
    }
}

/// Limits the size of messages that are stored as dead letters or set aside. Pure.
enum StoredMessage {
    /// The maximum size of a stored message as JSON, in bytes.
    static let maxBytes = 1 << 20

    /// Returns a message's JSON without its attempt number. If the message is larger than `maxBytes`, removes the record, then the
    /// old value, then the value, until it fits. A member `"truncated":true` then marks the message.
    static func bounded(_ json: [UInt8]) -> [UInt8] {
        guard json.count > maxBytes, var members = RawJSON(json).members else { return json }
        for name in ["record", "old", "value"] where size(members) > maxBytes { members.removeAll { $0.key == name } }
        var writer = JSONWriter(form: .plain, reserving: size(members))
        writer.raw("{")
        for member in members where member.key != "truncated" {
            writer.writeString(member.key)
            writer.raw(":")
            writer.append(member.value.text)
            writer.raw(",")
        }
        writer.raw("\"truncated\":true}")
        return writer.bytes
    }

    /// Returns the maximum size of the members in JSON, in bytes.
    private static func size(_ members: [(key: String, value: RawJSON)]) -> Int {
        members.reduce(40) { $0 + $1.key.utf8.count + $1.value.bytes.count + 4 }
    }
}
