internal import Tree

/// Database events as Cloud Functions of the 2nd generation receive them: CloudEvents 1.0 in the binary mode of HTTP. Pure.
///
/// The attributes and the body are those that `firebase-functions` reads (facts: firebase/firebase-functions,
/// `src/v2/providers/database.ts`; firebase/firebase-functions-python, `src/firebase_functions/db_fn.py`). Its libraries get
/// the parameters of a function's path from the attribute `ref`.
public enum FirebaseEvent {
    /// The kind of event for which a function is registered, by the type of its events.
    public enum Kind: String, Sendable, CaseIterable {
        case created = "google.firebase.database.ref.v1.created"
        case updated = "google.firebase.database.ref.v1.updated"
        case deleted = "google.firebase.database.ref.v1.deleted"
        case written = "google.firebase.database.ref.v1.written"
    }

    /// The prefix of a header that has an attribute.
    static let headerPrefix = "ce-"
    private static let dataType = "type.googleapis.com/google.events.firebase.database.v1.ReferenceEventData"
    /// A namespace has neither a region nor a host of Firebase. These are those of databases in Firebase's first region.
    private static let location = "us-central1"
    private static let host = "firebaseio.com"

    /// Returns the event's attributes as headers.
    static func headers(_ message: SinkMessage, _ kind: Kind) -> [(name: String, value: String)] {
        let ref = String(message.path.drop { $0 == "/" })
        let instance = message.namespace
        var attributes = [
            ("specversion", "1.0"), ("id", message.id), ("type", kind.rawValue),
            ("source", "//firebasedatabase.googleapis.com/projects/_/locations/\(location)/instances/\(instance)"),
            ("subject", "refs/\(ref)"), ("time", message.time), ("instance", instance), ("ref", ref),
            ("location", location), ("firebasedatabasehost", host), ("authtype", authType(message.author)),
        ]
        if message.author.kind == .user, let uid = message.author.uid { attributes.append(("authid", uid)) }
        return attributes.map { (headerPrefix + $0, encoded($1)) }
    }

    /// Returns the body: the value before the change, and the difference to the value after it.
    static func body(_ values: RecordValues) -> [UInt8] {
        var writer = JSONWriter(form: .plain, reserving: 1_024)
        writer.beginObject()
        writer.writeKey("@type", isFirst: true)
        writer.writeString(dataType)
        writer.writeKey("data", isFirst: false)
        write(values.before, &writer)
        writer.writeKey("delta", isFirst: false)
        writeDifference(values.before, values.after, &writer)
        writer.endObject()
        return writer.bytes
    }

    private static func authType(_ author: EntryAuthor) -> String {
        switch author.kind {
        case .user: "app_user"
        case .admin: "admin"
        case .nobody: "unauthenticated"
        case .unknown: "unknown"
        }
    }

    /// Encodes an attribute as the value of a header: characters other than printable ASCII, and those that the HTTP binding of
    /// CloudEvents (3.1.3.2) reserves, as `%XX`.
    private static func encoded(_ text: String) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            if byte > 0x20, byte < 0x7F, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "%") {
                bytes.append(byte)
            } else {
                bytes.append(UInt8(ascii: "%"))
                bytes += [byte >> 4, byte & 0xF].map { $0 < 10 ? 0x30 + $0 : 0x41 + $0 - 10 }
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Values

    /// Writes a value without priorities, and arrays as objects: receivers merge `delta` into `data` key by key, which is
    /// impossible with the positions of an array.
    private static func write(_ node: Node, _ writer: inout JSONWriter) {
        guard case .branch(let branch) = node else { return writer.write(node) }
        writer.beginObject()
        var isFirst = true
        for entry in branch.children {
            writer.writeKey(entry.key.text, isFirst: isFirst)
            isFirst = false
            write(entry.node, &writer)
        }
        writer.endObject()
    }

    /// Writes the value that turns `before` into `after` when it is merged key by key and null removes a key.
    private static func writeDifference(_ before: Node, _ after: Node, _ writer: inout JSONWriter) {
        guard case .branch(let old) = before, case .branch(let new) = after else { return write(after, &writer) }
        writer.beginObject()
        var isFirst = true
        for entry in old.children where new.children[entry.key] == nil {
            writer.writeKey(entry.key.text, isFirst: isFirst)
            isFirst = false
            writer.raw("null")
        }
        for entry in new.children {
            let former = old.children[entry.key] ?? .null
            guard !former.isIdentical(to: entry.node), former != entry.node else { continue }
            writer.writeKey(entry.key.text, isFirst: isFirst)
            isFirst = false
            writeDifference(former, entry.node, &writer)
        }
        writer.endObject()
    }
}
