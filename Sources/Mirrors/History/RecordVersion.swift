import LogStore
import Tree

/// The entry that a version of a record comes from.
struct EntryStamp: Sendable, Equatable {
    let seq: Int64
    /// Milliseconds since 1970, or nil if unknown.
    let at: Int64?
    let author: MirrorAuthor?
    /// Whether the record had this value when the history began.
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

    /// Returns the version that this entry created of a record.
    func record(_ key: String, _ value: Node, upTo limit: Int = StoredRecord.maxBytes) -> MirrorVersionRecord {
        MirrorVersionRecord(
            key: key, seq: seq, at: at, author: author, isBegin: isBegin,
            record: StoredRecord.encode(value, upTo: limit))
    }
}

/// A record's value from one entry on: null if the record was removed, nil if it was too large to be stored.
struct RecordVersion {
    let stamp: EntryStamp
    let value: Node?
}

extension RecordVersion {
    /// Decodes a stored version.
    init(_ stored: MirrorVersionRecord) throws {
        self.init(
            stamp: EntryStamp(seq: stored.seq, at: stored.at, author: stored.author, isBegin: stored.isBegin),
            value: try StoredRecord.decode(stored.record))
    }
}

/// The form in which versions store a record: JSON in export form, or nil for a removed record.
enum StoredRecord {
    /// The maximum size of a stored record, in bytes. Each write to a part of it stores all of it again, and readers hold it in
    /// memory.
    static let maxBytes = 64 << 20
    /// Stands for a larger record, and is not JSON. The record's value is then unknown until the record is written as a whole.
    static let tooLarge = Array("too large".utf8)

    static func encode(_ value: Node, upTo limit: Int = maxBytes) -> [UInt8]? {
        if value.isNull { return nil }
        let json = JSONWriter.encode(value, form: .export)
        return json.count > limit ? tooLarge : json
    }

    /// Returns nil for a record that was too large, and null for a removed one.
    static func decode(_ json: [UInt8]?) throws -> Node? {
        guard let json else { return .null }
        return json == tooLarge ? nil : try JSONParser.parse(json).node
    }
}

extension MirrorVersionRecord {
    /// Whether the record was too large to be stored.
    var isTooLarge: Bool { record == StoredRecord.tooLarge }
}

extension Node {
    /// Decodes a record as versions store it. The result is also null if the record was too large.
    init(stored json: [UInt8]?) throws { self = try StoredRecord.decode(json) ?? .null }
}

extension MirrorAuthor {
    /// Reads the author in an entry's origin. Returns nil if the origin can't be parsed.
    init?(_ origin: Origin) {
        guard let members = RawJSON(origin.json).members else { return nil }
        let text = { (key: String) -> String? in
            guard let value = members.first(where: { $0.key == key })?.value,
                case .string(let text)? = try? JSONParser.parse(value.text).node
            else { return nil }
            // PostgreSQL's text can't hold U+0000, and real names do not contain it.
            return text.utf8.contains(0) ? nil : text
        }
        let isAdmin = members.first { $0.key == "admin" }?.value.bytes.elementsEqual("true".utf8) ?? false
        self.init(uid: text("uid"), isAdmin: isAdmin, via: text("via"))
    }
}

/// Captured keys joined to one text. Keys never contain `/`.
enum RecordKey {
    static func text(_ keys: some Collection<Key>) -> String { keys.map(\.text).joined(separator: "/") }

    /// Splits by bytes, because a combining mark at the start of a key forms one character with the slash before it.
    static func keys(_ text: String) -> [Key] {
        text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
            Key(String(Substring($0)))
        }
    }
}
