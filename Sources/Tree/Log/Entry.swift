/// A path that a write changed, and its new value. Server values are resolved; null means removed.
public struct Change: Sendable, Equatable {
    public let path: Path
    public let value: Node

    public init(path: Path, value: Node) {
        self.path = path
        self.value = value
    }
}

extension Change {
    /// Returns two changes of which one is at or below the other, if there are any. One write can't contain both.
    public static func overlap(in changes: [Change]) -> (ancestor: Path, path: Path)? {
        guard changes.count > 1 else { return nil }
        // In this order, a path is directly followed by its first descendant, if it has any.
        let paths = changes.map(\.path).sorted { $0.keys.lexicographicallyPrecedes($1.keys) }
        for (first, second) in zip(paths, paths.dropFirst()) where first.contains(second) { return (first, second) }
        return nil
    }
}

/// The kind of request that caused an entry.
public enum Operation: String, Sendable, CaseIterable {
    case set
    case update
    case remove
    case push
    /// A set that named the value that it replaces.
    case transaction
    /// A bulk load. Its values are in the entry's parts.
    case load = "import"
    /// A write that a client had requested for the end of its connection.
    case disconnect = "onDisconnect"
    /// New security rules, which apply from this entry on. Changes no data.
    case rules
    /// One message of the upstream database that the namespace follows.
    case upstream
    /// The difference between the tree and the upstream database, found after a gap. Writes of the gap have no entries.
    case resync
}

/// One committed write, with its position in the log.
public struct Entry: Sendable, Equatable {
    /// The log position: counts from 1 in each namespace, without gaps, in commit order.
    public let seq: Int64
    /// Milliseconds since 1970.
    public let committedAt: Int64
    public let operation: Operation
    /// The path that the request named. Changes are at or below it.
    public let path: Path
    public let changes: [Change]
    /// Whether the entry is a load, whose values below `path` are not among `changes`.
    public let isBulk: Bool
    /// The author and transport of the write, if known.
    public let origin: Origin?

    public init(
        seq: Int64, committedAt: Int64, operation: Operation, path: Path, changes: [Change], isBulk: Bool = false,
        origin: Origin? = nil
    ) {
        self.seq = seq
        self.committedAt = committedAt
        self.operation = operation
        self.path = path
        self.changes = changes
        self.isBulk = isBulk
        self.origin = origin
    }

    /// Returns the same entry with another time.
    public func committed(at time: Int64) -> Entry {
        Entry(
            seq: seq, committedAt: time, operation: operation, path: path, changes: changes, isBulk: isBulk,
            origin: origin)
    }
}

/// The log's text format of changes: one JSON object that maps absolute paths to values in export form, in order.
public enum ChangeCodec {
    /// Returns the changes as the log's JSON text, in the given order.
    public static func encode(_ changes: [Change]) -> [UInt8] {
        let size = changes.reduce(2) { $0 + $1.path.byteCount + 8 + JSONWriter.estimate($1.value) }
        var writer = JSONWriter(form: .export, reserving: min(size, 1 << 20))
        writer.beginObject()
        for (index, change) in changes.enumerated() {
            writer.writeKey(change.path, isFirst: index == 0)
            writer.write(change.value)
        }
        writer.endObject()
        return writer.bytes
    }

    /// Reads the log's JSON text. Throws if it is not in the format of `encode`.
    public static func decode(_ bytes: [UInt8]) throws(JSONError) -> [Change] {
        try JSONParser.parseChanges(bytes).map { Change(path: $0.path, value: $0.node) }
    }
}

/// The author and transport of a write, as in an entry's audit record. Contains no secret.
///
/// Kept as the JSON text that the log stores, which is created once: `{"uid":…,"admin":…,"via":…,"ip":…}`.
public struct Origin: Sendable, Equatable {
    /// The transport of the write.
    public enum Transport: String, Sendable {
        case rest, sse, ws, cli
    }

    /// The log's text.
    public let json: [UInt8]

    /// - Parameters:
    ///   - uid: the user's id, or nil for callers without one.
    ///   - isAdmin: whether the rules were bypassed.
    ///   - isOverride: whether an administrator acted as this user.
    ///   - address: the peer's address without port, if there is a peer.
    public init(uid: String?, isAdmin: Bool, isOverride: Bool = false, via transport: Transport, address: String?) {
        var writer = JSONWriter(form: .plain, reserving: 96)
        writer.beginObject()
        writer.writeKey("uid", isFirst: true)
        if let uid { writer.writeString(uid) } else { writer.raw("null") }
        writer.writeKey("admin", isFirst: false)
        writer.raw(isAdmin ? "true" : "false")
        if isOverride {
            writer.writeKey("override", isFirst: false)
            writer.raw("true")
        }
        writer.writeKey("via", isFirst: false)
        writer.writeString(transport.rawValue)
        if let address {
            writer.writeKey("ip", isFirst: false)
            writer.writeString(address)
        }
        writer.endObject()
        json = writer.bytes
    }

    /// Creates an origin from the log's text.
    public init(json: [UInt8]) { self.json = json }
}
