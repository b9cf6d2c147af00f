public import Tree

/// A message that a realtime server sends without a request (reference: rtdb-protocol 2.4).
public enum ServerPush: Sendable, Equatable {
    /// Data of a listen, at a path from the root on. `tag` identifies a listen with a query. `mark` is the log position
    /// of the listen's data including the change, if the client requested the extension.
    case change(ChangeEvent, tag: Int64?, mark: LogMark? = nil)
    /// The ranges in which the data at the path differs from the client's hashes.
    case ranges(Path, [RangeMerge], tag: Int64?, mark: LogMark? = nil)
    /// Listens at the path have lost their permission. `queries` contains their queries as the client wrote them; nil
    /// stands for the listen without a query.
    case listenRevoked(Path, queries: [RawJSON]?)
    /// The login has ended.
    case authRevoked(RealtimeStatus, explanation: String)
    /// The App Check token has expired.
    case appCheckRevoked(RealtimeStatus, explanation: String)
    /// Text of a debugging login, for the client's log.
    case securityDebug(String)
    /// An unknown action; clients log it and continue.
    case unknown(action: String)
}

extension ServerPush {
    /// The message's text.
    var text: [UInt8] {
        switch self {
        case .change(let event, let tag, let mark):
            let push = ServerMessage.push(event, listener: .root, isTagged: false)
            return ServerMessage.finish(ServerMessage.marked(push, mark), tag: tag)
        case .ranges(let path, let ranges, let tag, let mark):
            return ServerMessage.finish(
                ServerMessage.marked(ServerMessage.rangeMerge(ranges, listener: path), mark), tag: tag)
        case .listenRevoked(let path, let queries):
            let list = queries.map { queries in Array(queries.map(\.bytes).joined(separator: CollectionOfOne(0x2C))) }
            return ServerMessage.cancel(path, query: list)
        case .authRevoked(let status, let explanation):
            return ServerMessage.authRevoked(status.rawValue, explanation)
        case .appCheckRevoked(let status, let explanation):
            return ServerMessage.revoked("apc", status.rawValue, explanation)
        case .securityDebug(let message):
            return Self.push("sd") { writer in
                writer.writeKey("msg", isFirst: true)
                writer.writeString(message)
            }
        case .unknown(let action): return Self.push(action) { _ in }
        }
    }

    private static func push(_ action: String, _ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 96)
        writer.raw("{\"t\":\"d\",\"d\":{\"a\":")
        writer.writeString(action)
        writer.raw(",\"b\":")
        writer.beginObject()
        body(&writer)
        writer.endObject()
        writer.raw("}}")
        return writer.bytes
    }
}
