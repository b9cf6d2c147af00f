import Tree

/// Builds a query from `orderBy`, bounds and limits, with Firebase's error texts.
struct QueryParameterParser {
    private var orderBy: String?
    // The texts of bounds; their interpretation depends on the order.
    private var startAt: String?
    private var startAfter: String?
    private var endAt: String?
    private var endBefore: String?
    private var equalTo: String?
    private var first: Int?
    private var last: Int?

    /// Accepts a parameter of a query; returns false for any other parameter.
    mutating func take(_ name: String, _ value: String) throws(RESTError) -> Bool {
        switch name {
        case "orderBy":
            guard orderBy == nil else { throw RESTError(400, "orderBy may be given only once") }
            orderBy = value
        case "startAt": startAt = value
        case "startAfter": startAfter = value
        case "endAt": endAt = value
        case "endBefore": endBefore = value
        case "equalTo": equalTo = value
        case "limitToFirst": first = try Self.limit(name, value)
        case "limitToLast": last = try Self.limit(name, value)
        default: return false
        }
        return true
    }

    func finish(isShallow: Bool) throws(RESTError) -> Query? {
        let hasOthers =
            startAt != nil || startAfter != nil || endAt != nil || endBefore != nil || equalTo != nil || first != nil
            || last != nil
        guard orderBy != nil || hasOthers else { return nil }
        let index: Query.Index
        if let orderBy {
            index = try Self.index(orderBy)
        } else {
            // The CLI lists keys with shallow and limits alone (reference: rtdb-protocol 7.2).
            guard isShallow else {
                throw RESTError(400, "orderBy must be defined when other query parameters are defined")
            }
            index = .key
        }
        if equalTo != nil, startAt != nil || startAfter != nil || endAt != nil || endBefore != nil {
            throw RESTError(400, "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore")
        }
        if startAt != nil, startAfter != nil {
            throw RESTError(400, "Only one of startAt and startAfter may be specified")
        }
        if endAt != nil, endBefore != nil { throw RESTError(400, "Only one of endAt and endBefore may be specified") }
        if first != nil, last != nil {
            throw RESTError(400, "Only one of limitToFirst and limitToLast may be specified")
        }
        let limit: Query.Limit? = first.map { .first($0) } ?? last.map { .last($0) }
        return Query(
            index: index,
            start: try Self.bound(equalTo ?? startAt, startAfter, index),
            end: try Self.bound(equalTo ?? endAt, endBefore, index),
            limit: limit)
    }

    private static func bound(
        _ inclusive: String?, _ exclusive: String?, _ index: Query.Index
    ) throws(RESTError) -> Query.Bound? {
        guard let text = inclusive ?? exclusive else { return nil }
        guard let (value, key) = parts(of: text) else {
            throw index == .key ? invalidKey : RESTError(400, "Constraint index field must be a JSON primitive")
        }
        if index == .key {
            guard case .string = value, key == nil else {
                throw RESTError(400, "Provided key index type is invalid, must be string")
            }
        }
        if let key, !key.isBoundSentinel, KeyRules.violation(in: key) != nil { throw invalidKey }
        return Query.Bound(value: .init(value), key: key, isInclusive: inclusive != nil)
    }

    private static let invalidKey = RESTError(400, "Constraint key field must be a valid key name")

    private static func index(_ text: String) throws(RESTError) -> Query.Index {
        guard let node = try? JSONParser.parse(text), case .string(let name) = node else {
            throw RESTError(400, "orderBy must be a valid JSON encoded path")
        }
        switch name {
        case "$key": return .key
        case "$value": return .value
        case "$priority": return .priority
        default:
            let path = Path(splitting: name)
            guard !path.isRoot, path.keys.allSatisfy({ KeyRules.violation(in: $0) == nil }),
                path.depth <= KeyRules.maxDepth
            else { throw RESTError(400, "orderBy must be a valid JSON encoded path") }
            return .child(path)
        }
    }

    /// Parses a JSON primitive, or one followed by a key: `5,"key"`. Returns nil for other texts.
    private static func parts(of text: String) -> (value: Node, key: Key?)? {
        // Empty objects and arrays are null in the tree, but are not primitives.
        let isContainer = text.first { !$0.isWhitespace }.map { $0 == "{" || $0 == "[" } ?? true
        if !isContainer, let node = try? JSONParser.parse(text), let value = primitive(node) { return (value, nil) }
        if let pair = try? JSONParser.parse("[\(text)]"), pair.childCount == 2,
            let value = primitive(pair.child(Key("0"))), case .string(let key) = pair.child(Key("1"))
        {
            return (value, Key(key))
        }
        // `null,"key"` needs separate parsing, because nulls vanish from arrays.
        if text.hasPrefix("null,"), let node = try? JSONParser.parse(String(text.dropFirst(5))),
            case .string(let key) = node
        {
            return (.null, Key(key))
        }
        return nil
    }

    private static func primitive(_ node: Node) -> Node? {
        switch node {
        case .null, .bool, .int, .double, .string: node
        case .branch, .prioritized, .serverValue: nil
        }
    }

    private static func limit(_ name: String, _ text: String) throws(RESTError) -> Int {
        guard let limit = Int(text) else { throw RESTError(400, "\(name) must be an integer") }
        guard limit > 0 else { throw RESTError(400, "\(name) must be positive") }
        return limit
    }
}
