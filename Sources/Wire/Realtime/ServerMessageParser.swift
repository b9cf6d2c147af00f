import Tree

/// Parses messages of a realtime server (reference: rtdb-protocol 1.2, 2.1, 2.4). Time and memory are linear in the
/// bytes, for any input. Keys, depth and values are subject to the limits of the database.
public enum ServerMessageParser {
    /// Parses a message; throws if the bytes are invalid.
    public static func parse(_ bytes: [UInt8]) throws(MessageError) -> ServerMessage {
        guard let outer = RawJSON(bytes).members.map(MessageFields.init), let type = outer.string("t"),
            let inner = outer["d"]?.members.map(MessageFields.init)
        else { throw MessageError(reason: "not a protocol message") }
        switch type {
        case "c": return .control(try control(inner))
        case "d" where inner["a"] != nil: return .push(try push(inner))
        case "d" where inner["r"] != nil: return .response(try response(inner))
        case "d": throw MessageError(reason: "a data message that is neither an answer nor a push")
        default: throw MessageError(reason: "a message of an unknown layer")
        }
    }

    // MARK: Control messages

    private static func control(_ fields: MessageFields) throws(MessageError) -> ServerControl {
        guard let type = fields.string("t") else { throw MessageError(reason: "a control message without a type") }
        switch type {
        case "h":
            guard let members = fields["d"]?.members else { throw MessageError(reason: "a greeting without an object") }
            return .hello(try hello(MessageFields(members)))
        case "r": return .reset(host: try fields.requiredString("d", of: "a reset"))
        case "s": return .shutdown(reason: fields.string("d") ?? "")
        case "e": return .error(fields.string("d") ?? "")
        case "o": return .pong
        case "a": return .upgradeOffer
        case "n": return .endOfTransmission
        default: return .unknown(type: type)
        }
    }

    private static func hello(_ fields: MessageFields) throws(MessageError) -> ServerHello {
        guard let timestamp = fields["ts"]?.integer else {
            throw MessageError(reason: "a greeting without a timestamp")
        }
        // Clients calculate with the time: the sum with their own time must not overflow.
        guard (-(1 << 53)...(1 << 53)).contains(timestamp) else {
            throw MessageError(reason: "a greeting with an impossible time")
        }
        return ServerHello(
            timestamp: timestamp, version: fields.string("v") ?? "5",
            host: try fields.requiredString("h", of: "a greeting"),
            session: try fields.requiredString("s", of: "a greeting"),
            isExtended: fields[RealtimeParameters.extensionName]?.integer == RealtimeParameters.extensionVersion)
    }

    // MARK: Answers

    private static func response(_ fields: MessageFields) throws(MessageError) -> ServerResponse {
        guard let number = fields["r"]?.integer, let body = fields["b"]?.members.map(MessageFields.init),
            let status = body.string("s")
        else { throw MessageError(reason: "an answer without a number or a status") }
        let detail = body["d"] ?? RawJSON(Array("null".utf8))
        guard detail.isJSON else { throw MessageError(reason: "an answer whose detail is not JSON") }
        return ServerResponse(
            number: number, status: RealtimeStatus(rawValue: status), detail: detail, mark: LogMark(body))
    }

    // MARK: Pushes

    private static func push(_ fields: MessageFields) throws(MessageError) -> ServerPush {
        guard let action = fields.string("a") else { throw MessageError(reason: "a push without an action") }
        guard let body = fields["b"]?.members.map(MessageFields.init) else {
            throw MessageError(reason: "a push without a body")
        }
        switch action {
        case "d":
            let path = try MessageValue.path(body)
            return .change(.put(path, try data(body, at: path)), tag: try tag(body), mark: LogMark(body))
        case "m":
            let path = try MessageValue.path(body)
            return .change(.patch(path, try merge(body, at: path)), tag: try tag(body), mark: LogMark(body))
        case "rm":
            let path = try MessageValue.path(body)
            return .ranges(path, try ranges(body, at: path), tag: try tag(body), mark: LogMark(body))
        case "c": return .listenRevoked(try MessageValue.path(body), queries: try queries(body))
        case "ac": return .authRevoked(try status(body), explanation: body.string("d") ?? "")
        case "apc": return .appCheckRevoked(try status(body), explanation: body.string("d") ?? "")
        case "sd": return .securityDebug(body.string("msg") ?? "")
        default: return .unknown(action: action)
        }
    }

    private static func status(_ body: MessageFields) throws(MessageError) -> RealtimeStatus {
        RealtimeStatus(rawValue: try body.requiredString("s", of: "a revocation"))
    }

    private static func tag(_ body: MessageFields) throws(MessageError) -> Int64? {
        guard let raw = body["t"] else { return nil }
        guard let tag = raw.integer else { throw MessageError(reason: "Invalid tag: t must be a whole number") }
        return tag
    }

    private static func data(_ body: MessageFields, at path: Path) throws(MessageError) -> Node {
        guard let raw = body["d"] else { throw MessageError(reason: "Invalid data: d is missing") }
        return try MessageValue.node(raw, at: path)
    }

    private static func merge(_ body: MessageFields, at path: Path) throws(MessageError) -> [Change] {
        guard let raw = body["d"] else { throw MessageError(reason: "Invalid data: d is missing") }
        return try MessageValue.changes(raw, at: path)
    }

    private static func ranges(_ body: MessageFields, at path: Path) throws(MessageError) -> [RangeMerge] {
        guard let elements = body["d"]?.elements else {
            throw MessageError(reason: "Invalid ranges: d must be an array")
        }
        var ranges: [RangeMerge] = []
        for element in elements {
            guard let fields = element.members.map(MessageFields.init) else {
                throw MessageError(reason: "Invalid ranges: a range must be an object")
            }
            ranges.append(try RangeMerge(fields, below: path.depth))
        }
        return ranges
    }

    private static func queries(_ body: MessageFields) throws(MessageError) -> [RawJSON]? {
        guard let raw = body["q"], !raw.isNull else { return nil }
        guard let queries = raw.elements, raw.isJSON else {
            throw MessageError(reason: "Invalid queries: q must be an array")
        }
        return queries
    }
}
