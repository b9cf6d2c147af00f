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
