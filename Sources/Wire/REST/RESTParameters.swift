public import Tree

/// The query parameters of a REST request, validated (reference: rtdb-protocol 7.2 and 7.3). Unknown names are ignored.
public struct RESTParameters: Sendable, Equatable {
    public enum Print: Sendable { case normal, pretty, silent }

    public var namespace: String?
    /// An ID token, a legacy token, or a secret.
    public var auth: String?
    public var accessToken: String?
    /// JSON text that replaces `auth` in rules, for administrators.
    public var authOverride: [UInt8]?
    public var print = Print.normal
    public var isShallow = false
    public var form = JSONForm.plain
    public var callback: String?
    public var download: String?
    public var query: Query?
    /// Maximum duration of a read in milliseconds.
    public var timeout: Int64 = 15 * 60 * 1_000
    /// Maximum duration of a write in milliseconds, or nil for no limit.
    public var writeTimeout: Int64?
    public var methodOverride: String?
    /// Whether the events of a stream have ids. This server's own parameter.
    public var wantsEventIDs: Bool?

    public init() {}

    /// Parses the part of a request target after `?`, still percent-encoded; nil stands for no parameters.
    public init(_ text: ArraySlice<UInt8>?) throws(RESTError) {
        guard let text, !text.isEmpty else { return }
        var parser = QueryParameterParser()
        for pair in text.split(separator: UInt8(ascii: "&")) {
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            let rawValue = equals < pair.endIndex ? pair[(equals + 1)...] : []
            guard let nameBytes = PercentEncoding.decode(pair[..<equals], plusIsSpace: true),
                let valueBytes = PercentEncoding.decode(rawValue, plusIsSpace: true),
                let name = String(validating: nameBytes, as: UTF8.self),
                let value = String(validating: valueBytes, as: UTF8.self)
            else { throw RESTError(400, "Invalid query parameters: not percent-encoded UTF-8") }
            if try parser.take(name, value) { continue }
            try take(name, value)
        }
        query = try parser.finish(isShallow: isShallow)
    }

    /// Parses the parameters of the settings' paths, which are only those about the caller and the namespace.
    public static func settings(_ text: ArraySlice<UInt8>?) throws(RESTError) -> RESTParameters {
        let known: Set<String> = ["ns", "auth", "access_token", "auth_variable_override"]
        let pairs = (text ?? []).split(separator: UInt8(ascii: "&")).filter { pair in
            known.contains(String(decoding: pair.prefix { $0 != UInt8(ascii: "=") }, as: UTF8.self))
        }
        return try RESTParameters(ArraySlice(Array(pairs.joined(separator: [UInt8(ascii: "&")]))))
    }

    private mutating func take(_ name: String, _ value: String) throws(RESTError) {
        switch name {
        case "ns": namespace = value
        case "auth": auth = value
        case "access_token": accessToken = value
        case "auth_variable_override": authOverride = Array(value.utf8)
        case "print":
            switch value {
            case "pretty": print = .pretty
            case "silent": print = .silent
            default: throw RESTError(400, "print must be pretty or silent")
            }
        case "shallow": isShallow = try Self.flag(name, value)
        case "format":
            guard value == "export" else { throw RESTError(400, "format must be export") }
            form = .export
        case "callback":
            guard Self.isCallback(value) else { throw RESTError(400, "callback must be a JavaScript function name") }
            callback = value
        case "download": download = value
        case "timeout": timeout = try Self.duration(value)
        case "writeSizeLimit": writeTimeout = try Self.writeLimit(value)
        case "x-http-method-override": methodOverride = value
        case "eventIds": wantsEventIDs = try Self.flag(name, value)
        default: break
        }
    }

    private static func flag(_ name: String, _ value: String) throws(RESTError) -> Bool {
        switch value {
        case "true": return true
        case "false": return false
        default: throw RESTError(400, "\(name) must be true or false")
        }
    }

    /// Parses `3ms`, `3s`, `3min`; at most 15 minutes.
    private static func duration(_ value: String) throws(RESTError) -> Int64 {
        let digits = value.prefix { $0.isASCII && $0.isNumber }
        let factor: Int64? =
            switch value.dropFirst(digits.count) {
            case "ms": 1
            case "s": 1_000
            case "min": 60_000
            default: nil
            }
        guard let factor, let count = Int64(digits), count > 0, count <= 15 * 60_000 / factor else {
            throw RESTError(400, "timeout must be a number with ms, s or min, and at most 15min")
        }
        return count * factor
    }

    private static func writeLimit(_ value: String) throws(RESTError) -> Int64? {
        switch value {
        case "tiny": return 1_000
        case "small": return 10_000
        case "medium": return 30_000
        case "large": return 60_000
        case "unlimited": return nil
        default: throw RESTError(400, "writeSizeLimit must be tiny, small, medium, large or unlimited")
        }
    }

    /// Returns whether the value consists of letters, digits, `_`, `$`, `.`, `[`, `]`. Such a name can't break out of
    /// the call that it becomes.
    private static func isCallback(_ value: String) -> Bool {
        guard let first = value.utf8.first, !(0x30...0x39).contains(first), value.utf8.count <= 256 else {
            return false
        }
        return value.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x5F, 0x24, 0x2E, 0x5B, 0x5D: true
            default: false
            }
        }
    }
}

extension RESTParameters {
    /// The part of a URL after `?`, percent-encoded; empty if all parameters have their defaults. `init` parses it.
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

    /// The name of the smallest limit that permits the write's duration; nil for no limit.
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

    /// Encodes a JSON primitive, or one followed by a key: `5,"key"`.
    private static func text(_ bound: Query.Bound) -> String {
        json(bound.value.node) + (bound.key.map { "," + json(.string($0.text)) } ?? "")
    }

    private static func json(_ node: Node) -> String {
        String(decoding: JSONWriter.encode(node, form: .plain), as: UTF8.self)
    }
}
