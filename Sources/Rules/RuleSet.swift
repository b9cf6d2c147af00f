public import Tree

/// The security rules of one namespace, compiled. An immutable value: any thread may ask it anything.
///
/// `mayRead` and `mayWrite` do no I/O and read no clock. Their time is bounded by `limits` and by the size of what is
/// written.
public struct RuleSet: Sendable {
    let compiled: CompiledRules
    /// The document as it was given, with its comments.
    public let source: [UInt8]
    /// What is legal, but probably not what the author meant: the first `maxWarnings`, if they were asked for.
    public let warnings: [RulesError.Problem]
    public let limits: RuleLimits
    /// Whether callers elsewhere are denied everything.
    let isForThisMachine: Bool

    /// The most bytes that a document may have: committers compile it, too, when they load a namespace or follow a
    /// change of its rules.
    public static let maxBytes = 1 << 20

    /// What the regular expressions of a document may cost together: 1 is at most a few microseconds for compiling, and 128
    /// bytes that are kept.
    public static let maxRegexCost = 320_000

    /// The most warnings of a document.
    public static let maxWarnings = 100

    /// Checks and compiles a document (reference: security-rules 1 to 6, 12).
    ///
    /// - Parameter keepsWarnings: for those who show them. A gateway, which holds the rules of many namespaces, does not.
    /// - Throws: every mistake, each with its place and, where it is known, the original's wording.
    public init(
        json: [UInt8], limits: RuleLimits = RuleLimits(), keepsWarnings: Bool = false
    ) throws(RulesError) {
        try self.init(json: json, limits: limits, keepsWarnings: keepsWarnings, maxRegexCost: Self.maxRegexCost)
    }

    init(
        json: [UInt8], limits: RuleLimits, keepsWarnings: Bool = false, maxRegexCost: Int
    ) throws(RulesError) {
        guard json.count <= Self.maxBytes else {
            throw RulesError(
                [TextError(offset: 0, message: "The rules have more than \(Self.maxBytes) bytes.")], in: [])
        }
        // The database stores no text with it.
        if let zero = json.firstIndex(of: 0) {
            throw RulesError([TextError(offset: zero, message: "The rules have a character U+0000 here.")], in: json)
        }
        let compilation = try RuleSetCompiler.compile(json, maxRegexCost: maxRegexCost)
        compiled = compilation.rules
        warnings = keepsWarnings ? compilation.warnings : []
        source = json
        self.limits = limits
        isForThisMachine = false
    }

    private init(reading: Bool, writing: Bool, isForThisMachine: Bool = false) {
        let text = "{\n  \"rules\": {\n    \".read\": \(reading),\n    \".write\": \(writing)\n  }\n}\n"
        var program = Program()
        var rules: ContiguousArray<CompiledRule> = []
        var sources: [RuleSource] = []
        for (kind, value) in [(RuleKind.read, reading), (.write, writing)] {
            let index = rules.count
            let root = program.append(.boolean(value), at: 0..<(value ? 4 : 5))
            rules.append(CompiledRule(root: root, constant: value, isSteady: true))
            // Where the words stand in the text above.
            let offset = kind == .read ? 27 : 46 + (reading ? 4 : 5)
            sources.append(
                RuleSource(kind: kind, text: "\(value)", offset: offset, operations: index..<(index + 1), pattern: []))
        }
        let node = CompiledNode(read: 0, write: 1)
        compiled = CompiledRules(
            program: program, nodes: [node], children: [ChildTable()], indexes: [:], rules: rules, sources: sources)
        source = Array(text.utf8)
        warnings = []
        limits = RuleLimits()
        self.isForThisMachine = isForThisMachine
    }

    /// Lets nobody but administrators do anything.
    public static let denyAll = RuleSet(reading: false, writing: false)
    /// Lets everybody do everything.
    public static let allowAll = RuleSet(reading: true, writing: true)
    /// Lets everybody on the gateway's machine do everything, and of all others administrators only.
    public static let allowThisMachine = RuleSet(reading: true, writing: true, isForThisMachine: true)

    // MARK: Rules

    /// What is known of a rule.
    public struct RuleInfo: Sendable, Equatable {
        public let kind: RuleKind
        /// Keys and `$names` from the root to the rule's node, such as `/rooms/$room`.
        public let pattern: String
        public let source: String
        /// Where the expression begins in the document.
        public let position: TextPosition
    }

    /// - Parameter id: from a decision of this very set.
    public func info(_ id: RuleID) -> RuleInfo {
        let rule = compiled.sources[Int(id.index)]
        return RuleInfo(
            kind: rule.kind, pattern: "/" + rule.pattern.joined(separator: "/"), source: rule.text,
            position: TextPosition(of: rule.offset, in: source))
    }

    // MARK: Indexes

    /// The indexes declared at a path; key and priority order need none.
    public func indexes(at path: Path) -> [Query.Index] {
        compiled.node(at: path).flatMap { compiled.indexes[$0] } ?? []
    }

    /// True when a query at the path may be answered by the index: it is declared, or needs no declaration.
    public func isIndexed(_ index: Query.Index, at path: Path) -> Bool {
        switch index {
        case .key, .priority: true
        case .value, .child: indexes(at: path).contains(index)
        }
    }
}

/// Who asks: the `auth` variable, and whether rules apply at all.
public struct AuthContext: Sendable {
    /// `uid`, `token` with all claims, `provider`; `.null` when signed out.
    public let auth: Node
    /// Administrators are not judged.
    public let isAdmin: Bool
    /// Whether the caller is known not to be on the gateway's machine. Of rules only `RuleSet.allowThisMachine` asks.
    public let isElsewhere: Bool

    public init(auth: Node, isAdmin: Bool = false, isElsewhere: Bool = false) {
        self.auth = auth
        self.isAdmin = isAdmin
        self.isElsewhere = isElsewhere
    }

    public static let unauthenticated = AuthContext(auth: .null)
    public static let admin = AuthContext(auth: .null, isAdmin: true)
}

/// What the rules say to a read or a write.
public enum Decision: Sendable, Equatable {
    case allowed
    case denied(Denial)

    public var isAllowed: Bool { self == .allowed }
}

/// Why something was refused. For logs, tests and `explain`; clients are never told (reference: security-rules 14).
public struct Denial: Sendable, Equatable {
    public enum Reason: Sendable, Equatable {
        /// No `.read` from the root to the path was true.
        case noReadAllowed
        /// No `.write` from the root to the path was true.
        case noWriteAllowed
        /// A `.validate` was false.
        case invalid
        /// A `.validate` had no value: a type error, or too many steps.
        case failed
    }

    public let reason: Reason
    /// The place that was refused: for a failed validation where it failed, else the place asked for.
    public let path: Path
    /// The rule that refused; nil when none spoke.
    public let rule: RuleID?
}

/// Names a rule within its `RuleSet`.
public struct RuleID: Sendable, Hashable {
    let index: Int32
}

/// How long rules may run. A step is one operation of a compiled expression, some ten nanoseconds, or a quarter of a
/// kilobyte of text gone over.
public struct RuleLimits: Sendable, Equatable {
    /// Steps that one expression may take (default 100,000). One that needs more has no value: the rule counts as false.
    public var maxStepsPerRule: Int
    /// Steps that all expressions of one read or write may take together (default 20,000,000).
    public var maxStepsPerOperation: Int

    public init(maxStepsPerRule: Int = 100_000, maxStepsPerOperation: Int = 20_000_000) {
        self.maxStepsPerRule = maxStepsPerRule
        self.maxStepsPerOperation = maxStepsPerOperation
    }
}
