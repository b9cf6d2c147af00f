import Tree

extension RESTParameters {
    /// The part of a URL after `?`, percent-encoded; empty where nothing differs from what is meant without it. `init`
    /// reads it back.
    public var text: String {
        var pairs: [(name: String, value: String)] = []
        func add(_ name: String, _ value: String?) { if let value { pairs.append((name, value)) } }
        add("ns", namespace)
        add("auth", auth)
        add("access_token", accessToken)
        add("auth_variable_override", authOverride.map { String(decoding: $0, as: UTF8.self) })
        switch print {
        case .normal: break
        case .pretty: add("print", "pretty")
        case .silent: add("print", "silent")
        }
        if isShallow { add("shallow", "true") }
        if form == .export { add("format", "export") }
        add("callback", callback)
        add("download", download)
        add("timeout", timeout == Self().timeout ? nil : "\(timeout)ms")
        add("writeSizeLimit", writeSizeLimit)
        add("x-http-method-override", methodOverride)
        if let wantsEventIDs { add("eventIds", wantsEventIDs ? "true" : "false") }
        if let query { pairs += Self.pairs(query) }
        return pairs.map { "\($0.name)=\(PercentEncoding.encode($0.value.utf8))" }.joined(separator: "&")
    }

    /// The name of the least limit that gives a write the time it may take; nil for no limit.
    private var writeSizeLimit: String? {
        let limits: [(name: String, milliseconds: Int64)] = [
            ("tiny", 1_000), ("small", 10_000), ("medium", 30_000), ("large", 60_000),
        ]
        guard let writeTimeout else { return nil }
        return limits.first { writeTimeout <= $0.milliseconds }?.name
    }

    private static func pairs(_ query: Query) -> [(name: String, value: String)] {
        var pairs = [("orderBy", json(.string(name(of: query.index))))]
        if let start = query.start { pairs.append((start.isInclusive ? "startAt" : "startAfter", text(start))) }
        if let end = query.end { pairs.append((end.isInclusive ? "endAt" : "endBefore", text(end))) }
        switch query.limit {
        case .first(let count): pairs.append(("limitToFirst", "\(count)"))
        case .last(let count): pairs.append(("limitToLast", "\(count)"))
        case nil: break
        }
        return pairs
    }

    private static func name(of index: Query.Index) -> String {
        switch index {
        case .key: "$key"
        case .value: "$value"
        case .priority: "$priority"
        case .child(let path): String(path.description.unicodeScalars.dropFirst())
        }
    }

    /// A JSON primitive, or one followed by a key: `5,"key"`.
    private static func text(_ bound: Query.Bound) -> String {
        json(bound.value.node) + (bound.key.map { "," + json(.string($0.text)) } ?? "")
    }

    private static func json(_ node: Node) -> String {
        String(decoding: JSONWriter.encode(node, form: .plain), as: UTF8.self)
    }
}
