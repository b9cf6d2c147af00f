public import Tree

/// Why a message can't be answered at all: the connection is closed.
public struct MessageError: Error, Equatable, Sendable {
    public let reason: String

    public init(reason: String) { self.reason = reason }
}

/// Reads client messages. What is wrong inside a request is the request's failure; what is no request at all is an error.
public enum ClientMessageParser {
    /// - Parameter mayWrite: whether a write at a path, or (true) at places at or below it, is worth reading. Where it is
    ///   not, its data is not looked at.
    public static func parse(
        _ bytes: [UInt8], mayWrite: (Path, _ isMerge: Bool) -> Bool = { _, _ in true }
    ) throws(MessageError) -> ClientMessage {
        guard let outer = RawJSON(bytes).members, let type = outer.first(where: { $0.key == "t" })?.value.string,
            let inner = outer.first(where: { $0.key == "d" })?.value.members
        else { throw MessageError(reason: "not a protocol message") }
        let fields = Fields(inner)
        switch type {
        case "c":
            guard let kind = fields.string("t") else { throw MessageError(reason: "a control message without a type") }
            return kind == "p" ? .ping : .control(kind)
        case "d":
            guard let number = fields["r"]?.integer, let name = fields.string("a") else {
                throw MessageError(reason: "a data message without a number or an action")
            }
            let body = Fields(fields["b"]?.members ?? [])
            return .request(ClientRequest(number: number, action: action(name, body, mayWrite)))
        default: throw MessageError(reason: "a message of an unknown layer")
        }
    }

    /// An object's members by name; the last of equal names counts.
    struct Fields {
        private let members: [(key: String, value: RawJSON)]

        init(_ members: [(key: String, value: RawJSON)]) { self.members = members }

        subscript(_ name: String) -> RawJSON? { members.last { $0.key == name }?.value }

        func string(_ name: String) -> String? { self[name]?.string }
    }

    private static func action(
        _ name: String, _ body: Fields, _ mayWrite: (Path, _ isMerge: Bool) -> Bool
    ) -> ClientAction {
        do throws(MessageError) {
            switch name {
            case "p", "o": guard mayWrite(try path(body), false) else { return .denied }
            case "m", "om": guard mayWrite(try path(body), true) else { return .denied }
            default: break
            }
            switch name {
            case "s": return .stats
            case "q", "l": return try listen(body)
            case "n", "u": return .unlisten(try target(body))
            case "g": return .get(try path(body), try QueryObject.parse(body["q"]))
            case "p": return try put(body)
            case "m":
                let (path, changes, hasServerValue) = try merge(body)
                return .merge(
                    path, changes, hasServerValue: hasServerValue, hash: try hash(body),
                    byteCount: body["d"]?.bytes.count ?? 0)
            case "o":
                let path = try path(body)
                return .onDisconnectPut(path, try data(body, at: path).node)
            case "om":
                let (path, changes, _) = try merge(body)
                return .onDisconnectMerge(path, changes)
            case "oc": return .onDisconnectCancel(try path(body))
            case "auth", "gauth": return .authenticate(try auth(body, isGoogle: name == "gauth"))
            case "unauth": return .unauthenticate
            case "appcheck", "unappeck", "unappcheck": return .appCheck
            case "echo": return .echo(body["d"] ?? RawJSON(Array("null".utf8)))
            default: return .refused("Unknown action")
            }
        } catch {
            return .refused(error.reason)
        }
    }

    // MARK: Parts of bodies

    /// A path with or without a leading slash, not percent-encoded (reference: rtdb-protocol 2.2).
    private static func path(_ body: Fields) throws(MessageError) -> Path {
        guard let text = body.string("p") else { throw MessageError(reason: "Invalid path: p must be a string") }
        let path = Path(splitting: text)
        for (index, key) in path.keys.enumerated() {
            if key == .priority, index == path.depth - 1 { continue }
            if let violation = KeyRules.violation(in: key) {
                throw MessageError(reason: "Invalid path: a key \(violation.reason)")
            }
        }
        guard path.depth <= KeyRules.maxDepth + (path.namesPriority ? 1 : 0) else {
            throw MessageError(reason: "Invalid path: more than \(KeyRules.maxDepth) levels deep")
        }
        return path
    }

    private static func target(_ body: Fields) throws(MessageError) -> ListenTarget {
        let path = try path(body)
        let query = try QueryObject.parse(body["q"])
        var tag: Int64?
        if let raw = body["t"] {
            guard let number = raw.integer else { throw MessageError(reason: "Invalid tag: t must be a whole number") }
            tag = number
        }
        return ListenTarget(path: path, query: query, tag: tag, queryText: query == nil ? nil : body["q"]?.text)
    }

    private static func listen(_ body: Fields) throws(MessageError) -> ClientAction {
        var compound: CompoundHash?
        if let fields = body["ch"]?.members.map(Fields.init) {
            let posts = fields["ps"]?.elements?.map(\.string)
            let hashes = fields["hs"]?.elements?.map(\.string)
            guard let posts, let hashes, !posts.contains(nil), !hashes.contains(nil),
                let parsed = CompoundHash(
                    posts: posts.compactMap { $0.map { Path(splitting: $0) } }, hashes: hashes.compactMap { $0 })
            else { throw MessageError(reason: "Invalid compound hash") }
            compound = parsed
        }
        return .listen(try target(body), hash: try hash(body) ?? "", compound: compound)
    }

    private static func hash(_ body: Fields) throws(MessageError) -> String? {
        guard let raw = body["h"] else { return nil }
        guard let hash = raw.string else { throw MessageError(reason: "Invalid hash: h must be a string") }
        return hash
    }

    private static func put(_ body: Fields) throws(MessageError) -> ClientAction {
        let path = try path(body)
        return .put(
            path, try data(body, at: path), hash: try hash(body), byteCount: body["d"]?.bytes.count ?? 0)
    }

    private static func data(_ body: Fields, at path: Path) throws(MessageError) -> JSONParser.Parsed {
        guard let raw = body["d"] else { throw MessageError(reason: "Invalid data: d is missing") }
        let parsed: JSONParser.Parsed
        do {
            parsed = try JSONParser.parse(raw.text, maxDepth: max(0, KeyRules.maxDepth - path.depth))
        } catch {
            throw MessageError(reason: "Invalid data: \(error.reason)")
        }
        if path.namesPriority {
            switch parsed.node {
            case .null, .int, .double, .string, .serverValue: break
            default: throw MessageError(reason: "Invalid data: a priority must be a number or a string")
            }
        }
        return parsed
    }

    private static func merge(_ body: Fields) throws(MessageError) -> (Path, [Change], Bool) {
        let path = try path(body)
        guard let raw = body["d"] else { throw MessageError(reason: "Invalid data: d is missing") }
        let update: (changes: [JSONParser.ParsedChange], hasServerValue: Bool)?
        do {
            update = try JSONParser.parseUpdate(raw.text, maxDepth: max(0, KeyRules.maxDepth - path.depth))
        } catch {
            throw MessageError(reason: "Invalid data: \(error.reason)")
        }
        guard let update else { throw MessageError(reason: "Invalid data: d must be an object") }
        let changes = update.changes.map { Change(path: path.appending($0.path), value: $0.node) }
        if let overlap = Change.overlap(in: changes) {
            throw MessageError(
                reason: "Invalid data: \(overlap.ancestor) is an ancestor of \(overlap.path) in the same update")
        }
        return (path, changes, update.hasServerValue)
    }

    private static func auth(_ body: Fields, isGoogle: Bool) throws(MessageError) -> AuthRequest {
        guard let credential = body.string("cred") else { throw MessageError(reason: "cred must be a string") }
        return AuthRequest(
            credential: credential, override: body["authvar"].flatMap { $0.isNull ? nil : $0.text },
            isUnauthenticated: body["noauth"]?.bool ?? false, isGoogle: isGoogle)
    }
}
