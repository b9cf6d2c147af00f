import Tree

extension ClientMessage {
    /// The text that a client sends periodically so that its connection does not count as dead (reference:
    /// rtdb-protocol 1.5). It is a separate frame, and not a message.
    public static let keepAlive = Array("0".utf8)

    /// The message's text, as the SDK for JavaScript writes it; nil for denied or refused actions, which only a parser
    /// creates.
    public var text: [UInt8]? {
        switch self {
        case .ping: return Array("{\"t\":\"c\",\"d\":{\"t\":\"p\",\"d\":{}}}".utf8)
        case .control(let kind):
            var writer = JSONWriter(form: .export, reserving: 48)
            writer.raw("{\"t\":\"c\",\"d\":{\"t\":")
            writer.writeString(kind)
            writer.raw(",\"d\":{}}}")
            return writer.bytes
        case .request(let request): return request.text
        }
    }
}

extension ClientRequest {
    /// The request's text; nil for a denied or refused action.
    public var text: [UInt8]? {
        guard let actionName = action.name else { return nil }
        var writer = JSONWriter(form: .export, reserving: 160)
        writer.raw("{\"t\":\"d\",\"d\":{\"r\":")
        writer.writeInteger(number)
        writer.raw(",\"a\":\"")
        writer.raw(actionName)
        writer.raw("\",\"b\":{")
        var body = RequestBody(writer)
        body.write(action)
        if let name { body.text(WriteName.member, name.text) }
        writer = body.writer
        writer.raw("}}}")
        return writer.bytes
    }
}

extension ClientAction {
    /// The action's name in requests; nil for denied or refused actions.
    var name: StaticString? {
        switch self {
        case .stats: "s"
        case .listen: "q"
        case .unlisten: "n"
        case .get: "g"
        case .put: "p"
        case .merge: "m"
        case .onDisconnectPut: "o"
        case .onDisconnectMerge: "om"
        case .onDisconnectCancel: "oc"
        case .authenticate(let login): login.isGoogle ? "gauth" : "auth"
        case .unauthenticate: "unauth"
        case .appCheck(token: .some): "appcheck"
        // The SDK for JavaScript spells the name like this.
        case .appCheck(token: nil): "unappeck"
        case .echo: "echo"
        case .wait: "pm-wait"
        case .denied, .refused: nil
        }
    }
}

/// Writes the members of a request's body (reference: rtdb-protocol 2.3).
private struct RequestBody {
    var writer: JSONWriter
    private var isFirst = true

    init(_ writer: JSONWriter) { self.writer = writer }

    mutating func write(_ action: ClientAction) {
        switch action {
        case .stats(let counters):
            guard let counters else { break }
            key("c")
            writer.append(counters.text)
        case .listen(let target, let hash, let compound, let after):
            write(target)
            text("h", hash)
            if let compound { write(compound) }
            if let after { text(LogMark.member, after) }
        case .unlisten(let target): write(target)
        case .get(let path, let query):
            text("p", path.description)
            key("q")
            if let query { QueryObject.write(query, to: &writer) } else { writer.raw("{}") }
        case .put(let path, let value, let hash, _):
            data(path, value.node)
            if let hash { text("h", hash) }
        case .merge(let path, let changes, _, let hash, _):
            data(path, changes)
            if let hash { text("h", hash) }
        case .onDisconnectPut(let path, let value): data(path, value)
        case .onDisconnectMerge(let path, let changes): data(path, changes)
        case .onDisconnectCancel(let path): data(path, .null)
        case .authenticate(let login): write(login)
        case .appCheck(let token): if let token { text("token", token) }
        case .echo(let value):
            key("d")
            writer.append(value.text)
        case .wait(let seq, let path):
            if let path { text("p", path.description) }
            key("seq")
            writer.writeInteger(seq)
        case .unauthenticate, .denied, .refused: break
        }
    }

    private mutating func key(_ name: String) {
        writer.writeKey(name, isFirst: isFirst)
        isFirst = false
    }

    mutating func text(_ name: String, _ value: String) {
        key(name)
        writer.writeString(value)
    }

    private mutating func data(_ path: Path, _ value: Node) {
        text("p", path.description)
        key("d")
        writer.write(value)
    }

    private mutating func data(_ path: Path, _ changes: [Change]) {
        text("p", path.description)
        key("d")
        writer.beginObject()
        for (index, change) in changes.enumerated() {
            writer.writeKey(
                String(change.path.relative(to: path).description.unicodeScalars.dropFirst()), isFirst: index == 0)
            writer.write(change.value)
        }
        writer.endObject()
    }

    private mutating func write(_ target: ListenTarget) {
        text("p", target.path.description)
        if let query = target.query {
            key("q")
            if let text = target.queryText { writer.append(text) } else { QueryObject.write(query, to: &writer) }
        }
        if let tag = target.tag {
            key("t")
            writer.writeInteger(tag)
        }
    }

    private mutating func write(_ compound: CompoundHash) {
        key("ch")
        writer.beginObject()
        writer.writeKey("hs", isFirst: true)
        list(compound.hashes)
        writer.writeKey("ps", isFirst: false)
        list(compound.posts.map { $0.isRoot ? "/" : String($0.description.unicodeScalars.dropFirst()) })
        writer.endObject()
    }

    private mutating func list(_ texts: [String]) {
        writer.raw("[")
        for (index, text) in texts.enumerated() {
            if index > 0 { writer.raw(",") }
            writer.writeString(text)
        }
        writer.raw("]")
    }

    private mutating func write(_ login: AuthRequest) {
        text("cred", login.credential)
        if let override = login.override {
            key("authvar")
            writer.append(override)
        }
        if login.isUnauthenticated {
            key("noauth")
            writer.raw("true")
        }
    }
}
