public import Tree

/// The reason why a message can't be answered at all; the connection is then closed.
public struct MessageError: Error, Equatable, Sendable {
    public let reason: String

    public init(reason: String) { self.reason = reason }
}

/// Parses client messages. An error inside a request fails that request; a message that is not a request throws.
public enum ClientMessageParser {
    /// - Parameter mayWrite: returns whether a write at a path, or (true) at and below it, has to be parsed. If it
    ///   returns false, the write's data is skipped.
    public static func parse(
        _ bytes: [UInt8], mayWrite: (Path, _ isMerge: Bool) -> Bool = { _, _ in true }
    ) throws(MessageError) -> ClientMessage {
        guard let outer = RawJSON(bytes).members, let type = outer.first(where: { $0.key == "t" })?.value.string,
            let inner = outer.first(where: { $0.key == "d" })?.value.members
        else { throw MessageError(reason: "not a protocol message") }
        let fields = MessageFields(inner)
        switch type {
        case "c":
            guard let kind = fields.string("t") else { throw MessageError(reason: "a control message without a type") }
            return kind == "p" ? .ping : .control(kind)
        case "d":
            guard let number = fields["r"]?.integer, let name = fields.string("a") else {
                throw MessageError(reason: "a data message without a number or an action")
            }
            let body = MessageFields(fields["b"]?.members ?? [])
            return request(number, name, body, mayWrite)
        default: throw MessageError(reason: "a message of an unknown layer")
        }
    }

    private static func request(
        _ number: Int64, _ name: String, _ body: MessageFields, _ mayWrite: (Path, _ isMerge: Bool) -> Bool
    ) -> ClientMessage {
        let action = action(name, body, mayWrite)
        guard name == "p" || name == "m", let text = body[WriteName.member] else {
            return .request(ClientRequest(number: number, action: action))
        }
        guard let name = text.string.flatMap(WriteName.init) else {
            let reason = "Invalid name: w must be a writer of 8 to 40 letters, digits, - or _, a dot and a number"
            return .request(ClientRequest(number: number, action: .refused(reason)))
        }
        return .request(ClientRequest(number: number, action: action, name: name))
    }

    private static func action(
        _ name: String, _ body: MessageFields, _ mayWrite: (Path, _ isMerge: Bool) -> Bool
    ) -> ClientAction {
        do throws(MessageError) {
            switch name {
            case "p", "o": guard mayWrite(try MessageValue.path(body), false) else { return .denied }
            case "m", "om": guard mayWrite(try MessageValue.path(body), true) else { return .denied }
            default: break
            }
            switch name {
            case "s": return .stats(body["c"])
            case "q", "l": return try listen(body)
            case "n", "u": return .unlisten(try target(body))
            case "g": return .get(try MessageValue.path(body), try QueryObject.parse(body["q"]))
            case "p": return try put(body)
            case "m":
                let (path, changes, hasServerValue) = try merge(body)
                return .merge(
                    path, changes, hasServerValue: hasServerValue, hash: try hash(body),
                    byteCount: body["d"]?.bytes.count ?? 0)
            case "o":
                let path = try MessageValue.path(body)
                return .onDisconnectPut(path, try data(body, at: path).node)
            case "om":
                let (path, changes, _) = try merge(body)
                return .onDisconnectMerge(path, changes)
            case "oc": return .onDisconnectCancel(try MessageValue.path(body))
            case "auth", "gauth": return .authenticate(try auth(body, isGoogle: name == "gauth"))
            case "unauth": return .unauthenticate
            case "appcheck": return .appCheck(token: body.string("token") ?? "")
            case "unappeck", "unappcheck": return .appCheck(token: nil)
            case "pm-wait":
                guard let seq = body["seq"]?.integer, seq >= 0 else {
                    throw MessageError(reason: "Invalid seq: seq must be a whole number")
                }
                return .wait(seq: seq, path: body["p"] == nil ? nil : try MessageValue.path(body))
            case "echo" where body["d"]?.bytes.count ?? 0 > maxEchoBytes: return .refused("The text is too long")
            case "echo":
                let value = body["d"] ?? RawJSON(Array("null".utf8))
                // The value is sent back unchanged, so invalid JSON would make the answer invalid.
                guard value.isJSON else { throw MessageError(reason: "Invalid data: d must be JSON") }
                return .echo(value)
            default: return .refused("Unknown action")
            }
        } catch {
            return .refused(error.reason)
        }
    }

    // MARK: Parts of bodies

    /// Maximum length of a hash; those of the protocol have 28 characters.
    private static let maxHashBytes = 1_024
    /// Maximum size of an echoed text in bytes.
    private static let maxEchoBytes = 64 * 1024

    private static func target(_ body: MessageFields) throws(MessageError) -> ListenTarget {
        let path = try MessageValue.path(body)
        let query = try QueryObject.parse(body["q"])
        var tag: Int64?
        if let raw = body["t"] {
            guard let number = raw.integer else { throw MessageError(reason: "Invalid tag: t must be a whole number") }
            tag = number
        }
        return ListenTarget(path: path, query: query, tag: tag, queryText: query == nil ? nil : body["q"]?.text)
    }

    private static func listen(_ body: MessageFields) throws(MessageError) -> ClientAction {
        var compound: CompoundHash?
        if let fields = body["ch"]?.members.map(MessageFields.init) {
            let posts = fields["ps"]?.elements?.map(\.string)
            let hashes = fields["hs"]?.elements?.map(\.string)
            guard let posts, let hashes, !posts.contains(nil), !hashes.contains(nil),
                let parsed = CompoundHash(
                    posts: posts.compactMap { $0.map { Path(splitting: $0) } }, hashes: hashes.compactMap { $0 })
            else { throw MessageError(reason: "Invalid compound hash") }
            compound = parsed
        }
        return .listen(
            try target(body), hash: try hash(body) ?? "", compound: compound,
            after: body.string(LogMark.member).flatMap(LogMark.init)?.resumption)
    }

    private static func hash(_ body: MessageFields) throws(MessageError) -> String? {
        guard let raw = body["h"] else { return nil }
        guard raw.bytes.count <= maxHashBytes, let hash = raw.string else {
            throw MessageError(reason: "Invalid hash: h must be a short string")
        }
        return hash
    }

    private static func put(_ body: MessageFields) throws(MessageError) -> ClientAction {
        let path = try MessageValue.path(body)
        return .put(
            path, try data(body, at: path), hash: try hash(body), byteCount: body["d"]?.bytes.count ?? 0)
    }

    private static func data(_ body: MessageFields, at path: Path) throws(MessageError) -> JSONParser.Parsed {
        guard let raw = body["d"] else { throw MessageError(reason: "Invalid data: d is missing") }
        return try MessageValue.written(raw, at: path)
    }

    private static func merge(_ body: MessageFields) throws(MessageError) -> (Path, [Change], Bool) {
        let path = try MessageValue.path(body)
        guard let raw = body["d"] else { throw MessageError(reason: "Invalid data: d is missing") }
        let update = try MessageValue.update(raw, at: path)
        return (path, update.changes, update.hasServerValue)
    }

    private static func auth(_ body: MessageFields, isGoogle: Bool) throws(MessageError) -> AuthRequest {
        guard let credential = body.string("cred") else { throw MessageError(reason: "cred must be a string") }
        return AuthRequest(
            credential: credential, override: body["authvar"].flatMap { $0.isNull ? nil : $0.text },
            isUnauthenticated: body["noauth"]?.bool ?? false, isGoogle: isGoogle)
    }
}

extension WriteName {
    /// The name of the member that contains the name of a write.
    static let member = "w"
}
