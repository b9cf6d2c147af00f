public import Tree

/// The protocol's query objects (reference: rtdb-protocol 3.1).
enum QueryObject {
    /// Maximum size of a query's text in bytes: it is compared and stored with its listen.
    private static let maxBytes = 16 * 1024

    /// Returns nil for no query, and for a query that selects everything.
    static func parse(_ raw: RawJSON?) throws(MessageError) -> Query? {
        guard let raw, !raw.isNull else { return nil }
        guard raw.bytes.count <= maxBytes else { throw MessageError(reason: "Invalid query: it is too long") }
        // A cancel repeats the query as it was received, including members without meaning here.
        guard let members = raw.members, raw.isJSON else {
            throw MessageError(reason: "Invalid query: q must be an object")
        }
        let fields = MessageFields(members)
        var query = Query(index: try index(fields))
        query.start = try bound(fields, value: "sp", key: "sn", inclusive: "sin", index: query.index)
        query.end = try bound(fields, value: "ep", key: "en", inclusive: "ein", index: query.index)
        if let limit = fields["l"] {
            guard let count = limit.integer, count > 0, count <= Int64(Int32.max) else {
                throw MessageError(reason: "Invalid query: l must be a positive whole number")
            }
            switch fields.string("vf") {
            case "l", nil: query.limit = .first(Int(count))
            case "r": query.limit = .last(Int(count))
            default: throw MessageError(reason: "Invalid query: vf must be l or r")
            }
        }
        return query.selectsAll ? nil : query
    }

    private static func index(_ fields: MessageFields) throws(MessageError) -> Query.Index {
        guard let raw = fields["i"] else { return .priority }
        guard let name = raw.string else { throw MessageError(reason: "Invalid query: i must be a string") }
        switch name {
        case ".key": return .key
        case ".value": return .value
        case ".priority": return .priority
        default:
            let path = Path(splitting: name)
            guard !path.isRoot, path.depth <= KeyRules.maxDepth,
                path.keys.allSatisfy({ KeyRules.violation(in: $0) == nil })
            else { throw MessageError(reason: "Invalid query: i is not an index") }
            return .child(path)
        }
    }

    private static func bound(
        _ fields: MessageFields, value: String, key: String, inclusive: String, index: Query.Index
    ) throws(MessageError) -> Query.Bound? {
        guard let raw = fields[value] else { return nil }
        guard let node = raw.scalar else { throw MessageError(reason: "Invalid query: \(value) must be a primitive") }
        if index == .key {
            guard case .string = node else { throw MessageError(reason: "Invalid query: \(value) must be a key") }
        }
        var name: Key?
        if let rawKey = fields[key], !rawKey.isNull {
            guard let text = rawKey.string else { throw MessageError(reason: "Invalid query: \(key) must be a string") }
            name = Key(text)
        }
        return Query.Bound(value: .init(node), key: name, isInclusive: fields[inclusive]?.bool ?? true)
    }
}

extension QueryObject {
    /// Writes a query as the SDK for JavaScript does, without members that have their default (reference: rtdb-protocol
    /// 3.1).
    static func write(_ query: Query, to writer: inout JSONWriter) {
        var isFirst = true
        func key(_ name: String) {
            writer.writeKey(name, isFirst: isFirst)
            isFirst = false
        }
        func bound(_ bound: Query.Bound?, _ names: (value: String, key: String, inclusive: String)) {
            guard let bound else { return }
            key(names.value)
            writer.write(bound.value.node)
            if let name = bound.key {
                key(names.key)
                writer.writeString(name.text)
            }
            key(names.inclusive)
            writer.raw(bound.isInclusive ? "true" : "false")
        }
        writer.beginObject()
        bound(query.start, ("sp", "sn", "sin"))
        bound(query.end, ("ep", "en", "ein"))
        if let limit = query.limit {
            key("l")
            switch limit {
            case .first(let count): writer.writeInteger(Int64(count))
            case .last(let count): writer.writeInteger(Int64(count))
            }
            key("vf")
            if case .first = limit { writer.raw("\"l\"") } else { writer.raw("\"r\"") }
        }
        if let name = name(of: query.index) {
            key("i")
            writer.writeString(name)
        }
        writer.endObject()
    }

    /// Returns nil for the default index.
    private static func name(of index: Query.Index) -> String? {
        switch index {
        case .key: ".key"
        case .value: ".value"
        case .priority: nil
        case .child(let path): String(path.description.unicodeScalars.dropFirst())
        }
    }
}

extension Query {
    /// Parses a query object of the protocol; returns nil if it is invalid (reference: rtdb-protocol 3.1). An object
    /// without bounds and limits becomes the default query, because only the client needs its order.
    public init?(object raw: RawJSON) {
        do throws(MessageError) {
            self = try QueryObject.parse(raw) ?? Query()
        } catch {
            return nil
        }
    }
}
