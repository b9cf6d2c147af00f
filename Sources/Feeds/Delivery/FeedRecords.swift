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
    /// Nil where the ranges can't be read, or the numbers are none that a feed reaches.
    init?(_ record: FeedProgressRecord) {
        let numbers = [record.seq, record.index, record.snapshotSeq ?? 0, record.readTo.seq]
        // An entry may have been announced as handed out that no feed has come to.
        guard let done = PlaceRanges(bytes: record.done), record.handedTo >= 0,
            numbers.allSatisfy({ (0..<FeedPosition.most).contains($0) })
        else { return nil }
        self.init(
            seq: record.seq, index: record.index, snapshotSeq: record.snapshotSeq, done: done,
            handedTo: record.handedTo, readTo: record.readTo)
    }
}

extension FeedLetterRecord {
    init(_ letter: FeedLetter, namespace: String) {
        self.init(
            seq: letter.position.seq, index: letter.position.index, isSnapshot: letter.position.isSnapshot,
            key: letter.key, state: letter.state.rawValue, attempts: letter.attempts,
            errors: FeedFailure.json(letter.failures),
            message: letter.message.map { StoredMessage.bounded($0.json(namespace: namespace, attempt: nil)) })
    }
}

extension FeedLetter {
    /// Nil where the record is none of this program's.
    init?(_ record: FeedLetterRecord) {
        let position = FeedPosition(seq: record.seq, index: record.index, isSnapshot: record.isSnapshot)
        guard let state = State(rawValue: record.state), position.isReachable else { return nil }
        self.init(
            position: position, key: record.key, state: state, attempts: record.attempts,
            failures: FeedFailure.read(record.errors),
            message: record.message.map { FeedMessage(position: position, key: Self.key($0), content: .stored($0)) })
    }

    /// The captured keys, which need not be the key by which the feed orders.
    private static func key(_ message: [UInt8]) -> String { RawJSON(message).member("key") ?? "" }
}

extension RawJSON {
    /// A member that is a text.
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

    /// Reads what `json` wrote, also an older version's longer one; what is something else is left out.
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
    /// What transports want to know without reading the message.
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
}

/// Bounds what is stored of a message that failed for the last time, or is set aside. Pure.
enum StoredMessage {
    /// The most bytes of a stored message as JSON.
    static let maxBytes = 1 << 20

    /// A message's JSON, without its attempt. Of a message over `maxBytes` the record is left out, then the old value, then
    /// the value, until it fits; a member `"truncated":true` says so.
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

    /// The most bytes of members in JSON.
    private static func size(_ members: [(key: String, value: RawJSON)]) -> Int {
        members.reduce(40) { $0 + $1.key.utf8.count + $1.value.bytes.count + 4 }
    }
}
