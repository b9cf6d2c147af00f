import LogStore
import Tree

/// The entry that a version of a record comes from.
struct EntryStamp: Sendable, Equatable {
    let seq: Int64
    /// Milliseconds since 1970.
    let at: Int64?
    let author: MirrorAuthor?
    /// So it was when the history began.
    let isBegin: Bool

    init(seq: Int64, at: Int64?, author: MirrorAuthor?, isBegin: Bool = false) {
        self.seq = seq
        self.at = at
        self.author = author
        self.isBegin = isBegin
    }

    init(_ entry: Entry) {
        self.init(seq: entry.seq, at: entry.committedAt, author: entry.origin.flatMap { MirrorAuthor($0) })
    }

    /// The version that this entry left of a record.
    func record(_ key: String, _ value: Node, upTo limit: Int = StoredRecord.maxBytes) -> MirrorVersionRecord {
        MirrorVersionRecord(
            key: key, seq: seq, at: at, author: author, isBegin: isBegin,
            record: StoredRecord.encode(value, upTo: limit))
    }
}

/// What a record was from one entry on; null where it was gone, nil where it was too large to be kept.
struct RecordVersion {
    let stamp: EntryStamp
    let value: Node?
}

extension RecordVersion {
    /// As it is stored.
    init(_ stored: MirrorVersionRecord) throws {
        self.init(
            stamp: EntryStamp(seq: stored.seq, at: stored.at, author: stored.author, isBegin: stored.isBegin),
            value: try StoredRecord.decode(stored.record))
    }
}

/// A record as versions store it: JSON in export form; nil where it is gone.
enum StoredRecord {
    /// The most that is kept of a record. Each write to a part of it stores all of it again, and who reads it has it in memory.
    static let maxBytes = 64 << 20
    /// Instead of a record that has more: no JSON. What it is then is not known until it is written as a whole.
    static let tooLarge = Array("too large".utf8)

    static func encode(_ value: Node, upTo limit: Int = maxBytes) -> [UInt8]? {
        if value.isNull { return nil }
        let json = JSONWriter.encode(value, form: .export)
        return json.count > limit ? tooLarge : json
    }

    /// Nil for a record that was too large.
    static func decode(_ json: [UInt8]?) throws -> Node? {
        guard let json else { return .null }
        return json == tooLarge ? nil : try JSONParser.parse(json).node
    }
}

extension MirrorVersionRecord {
    /// The record was too large to be kept.
    var isTooLarge: Bool { record == StoredRecord.tooLarge }
}

extension Node {
    /// A record as versions store it; null as well where it was too large.
    init(stored json: [UInt8]?) throws { self = try StoredRecord.decode(json) ?? .null }
}

extension MirrorAuthor {
    /// What an entry's origin says; nil where it can't be read.
    init?(_ origin: Origin) {
        guard let members = RawJSON(origin.json).members else { return nil }
        let text = { (key: String) -> String? in
            guard let value = members.first(where: { $0.key == key })?.value,
                case .string(let text)? = try? JSONParser.parse(value.text).node
            else { return nil }
            // PostgreSQL's text can't hold it, and nobody is called so.
            return text.utf8.contains(0) ? nil : text
        }
        let isAdmin = members.first { $0.key == "admin" }?.value.bytes.elementsEqual("true".utf8) ?? false
        self.init(uid: text("uid"), isAdmin: isAdmin, via: text("via"))
    }
}

/// Captured keys as one text: no key has a `/`.
enum RecordKey {
    static func text(_ keys: some Collection<Key>) -> String { keys.map(\.text).joined(separator: "/") }

    /// By bytes: a mark that begins a key is one character with the slash before it.
    static func keys(_ text: String) -> [Key] {
        text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
            Key(String(Substring($0)))
        }
    }
}
