/// One place that a write changed, and what is there now. Server values are resolved; null means removed.
public struct Change: Sendable, Equatable {
    public let path: Path
    public let value: Node

    public init(path: Path, value: Node) {
        self.path = path
        self.value = value
    }
}

extension Change {
    /// Two changes of which one lies at or below the other, if there are any: one write can't have both.
    public static func overlap(in changes: [Change]) -> (ancestor: Path, path: Path)? {
        guard changes.count > 1 else { return nil }
        // In this order a path's first descendant, if it has any, comes right behind it.
        let paths = changes.map(\.path).sorted { $0.keys.lexicographicallyPrecedes($1.keys) }
        for (first, second) in zip(paths, paths.dropFirst()) where first.contains(second) { return (first, second) }
        return nil
    }
}

/// What a client asked for.
public enum Operation: String, Sendable, CaseIterable {
    case set
    case update
    case remove
    case push
    /// A set that named the value it replaces.
    case transaction
    /// A bulk load; its values are in the entry's parts.
    case load = "import"
    /// What a client had asked for, for the case that its connection ends.
    case disconnect = "onDisconnect"
    /// New security rules, which hold from this entry on. Changes no data.
    case rules
}

/// One committed write, at its place in the log.
public struct Entry: Sendable, Equatable {
    /// Gapless from 1 in each namespace, in commit order.
    public let seq: Int64
    /// Milliseconds since 1970.
    public let committedAt: Int64
    public let operation: Operation
    /// The place that the request named; changes are at or below it.
    public let path: Path
    public let changes: [Change]
    /// True for a load, whose values below `path` are not among `changes`.
    public let isBulk: Bool
    /// Who made the write, where that is known.
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

    /// The same entry with another time.
    public func committed(at time: Int64) -> Entry {
        Entry(
            seq: seq, committedAt: time, operation: operation, path: path, changes: changes, isBulk: isBulk,
            origin: origin)
    }
}

/// The log's text form of changes: one JSON object, absolute path → value in export form, in order.
public enum ChangeCodec {
    /// The changes as the log's JSON text, in the order given.
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

    /// Reads the log's JSON text. Throws where it is not what `encode` writes.
    public static func decode(_ bytes: [UInt8]) throws(JSONError) -> [Change] {
        try JSONParser.parseChanges(bytes).map { Change(path: $0.path, value: $0.node) }
    }
}

/// Who made a write and by which transport: what an entry's audit record says. Holds no secret.
///
/// Kept as the JSON text that the log stores, made once: `{"uid":…,"admin":…,"via":…,"ip":…}`.
public struct Origin: Sendable, Equatable {
    /// The transport that the write came by.
    public enum Transport: String, Sendable {
        case rest, sse, ws, cli
    }

    /// The log's text.
    public let json: [UInt8]

    /// - Parameters:
    ///   - uid: the user's id; nil for callers without one.
    ///   - isAdmin: whether rules were not asked.
    ///   - isOverride: an administrator acted as this user.
    ///   - address: the peer's address without port, where there is a peer.
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

    /// As it was read from the log.
    public init(json: [UInt8]) { self.json = json }
}
