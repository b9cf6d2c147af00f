public import Tree

extension RuleSet {
    /// Creates a rule set with one rule, which applies at the paths that a pattern matches. The pattern's captures are its
    /// variables. For expressions of the rules language outside of security rules, such as filters.
    ///
    /// - Throws: the mistakes in the expression. Offsets refer to a document that this initializer builds.
    public init(
        _ kind: RuleKind, _ expression: String, at pattern: PathPattern, limits: RuleLimits = RuleLimits()
    ) throws(RulesError) {
        var writer = JSONWriter(form: .plain, reserving: expression.utf8.count + 256)
        writer.beginObject()
        writer.writeKey("rules", isFirst: true)
        for part in pattern.parts {
            writer.beginObject()
            switch part {
            case .key(let key): writer.writeKey(key.text, isFirst: true)
            case .capture(let name): writer.writeKey("$" + name, isFirst: true)
            }
        }
        writer.beginObject()
        writer.writeKey(kind.rawValue, isFirst: true)
        writer.writeString(expression)
        for _ in 0..<(pattern.parts.count + 2) { writer.endObject() }
        try self.init(json: writer.bytes, limits: limits, maxRegexCost: Self.maxRegexCostOfExpression)
    }

    /// The maximum cost of all regular expressions of one expression, about 20 milliseconds of compiling. Filters are compiled
    /// by threads that serve all namespaces.
    public static let maxRegexCostOfExpression = 40_000

    /// Whether an expression can refer to a capture of this name as `$name`: ASCII letters, digits and `_`, without a digit at
    /// the start.
    public static func isVariable(_ name: String) -> Bool {
        guard let first = name.utf8.first, !(0x30...0x39).contains(first), name.utf8.count <= 63 else { return false }
        return name.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x5F: true
            default: false
            }
        }
    }

    /// Values that an expression can read in addition to the data at or below its path, and the path's captures.
    public enum Surrounding: String, Sendable, CaseIterable {
        case auth
        case now
        case root
        case parent = "parent()"
        case query
    }

    /// The surroundings that any of the expressions names.
    public var surroundings: Set<Surrounding> {
        Set(compiled.program.operations.compactMap(\.surrounding))
    }
}

extension Op {
    fileprivate var surrounding: RuleSet.Surrounding? {
        switch self {
        case .auth: .auth
        case .now: .now
        case .location(.root, _): .root
        case .location(_, let levelsUp): levelsUp > 0 ? .parent : nil
        case .parent: .parent
        case .orderFlag, .queryField: .query
        default: nil
        }
    }
}
