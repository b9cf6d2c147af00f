public import Tree

/// The compiled security rules of one namespace. An immutable value, which any thread may use.
///
/// `mayRead` and `mayWrite` do no I/O and read no clock. Their time is bounded by `limits` and by the size of the written data.
public struct RuleSet: Sendable {
    let compiled: CompiledRules
    /// The document as it was given, with its comments.
    public let source: [UInt8]
    /// Warnings about valid but probably unintended code: the first `maxWarnings`, if they were requested.
    public let warnings: [RulesError.Problem]
    public let limits: RuleLimits
    /// Whether callers on other machines are denied everything.
    let isForThisMachine: Bool

    /// The maximum size of a document, in bytes. Committers also compile documents, when they load a namespace or follow a
    /// change of its rules.
    public static let maxBytes = 1 << 20

    /// The maximum cost of all regular expressions of a document. A cost of 1 is at most a few microseconds of compiling, and
    /// 128 bytes of memory.
    public static let maxRegexCost = 320_000

    /// The maximum number of warnings for a document.
    public static let maxWarnings = 100

    /// Checks and compiles a document (reference: security-rules 1 to 6, 12).
    ///
    /// - Parameter keepsWarnings: whether to keep warnings for display. A gateway, which holds the rules of many namespaces,
    ///   does not keep them.
    /// - Throws: all mistakes, each with its position and, where it is known, Firebase's wording.
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
        // The database can't store text with U+0000.
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
            // The offsets of the words in the text above.
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

    /// Denies everything to all callers but administrators.
    public static let denyAll = RuleSet(reading: false, writing: false)
    /// Allows everything to all callers.
    public static let allowAll = RuleSet(reading: true, writing: true)
    /// Allows everything to callers on the gateway's machine, and on other machines only to administrators.
    public static let allowThisMachine = RuleSet(reading: true, writing: true, isForThisMachine: true)

    // MARK: Rules

    /// Information about a rule.
    public struct RuleInfo: Sendable, Equatable {
        public let kind: RuleKind
        /// Keys and `$names` from the root to the rule's node, such as `/rooms/$room`.
        public let pattern: String
        public let source: String
        /// The position of the expression in the document.
        public let position: TextPosition
    }

    /// - Parameter id: the id of a rule in a decision of this rule set.
    public func info(_ id: RuleID) -> RuleInfo {
        let rule = compiled.sources[Int(id.index)]
        return RuleInfo(
            kind: rule.kind, pattern: "/" + rule.pattern.joined(separator: "/"), source: rule.text,
            position: TextPosition(of: rule.offset, in: source))
    }

    // MARK: Indexes

    /// Returns the indexes declared at a path. Key and priority order need no declaration.
    public func indexes(at path: Path) -> [Query.Index] {
        compiled.node(at: path).flatMap { compiled.indexes[$0] } ?? []
    }

    /// Whether the index may answer a query at the path: it is declared, or needs no declaration.
    public func isIndexed(_ index: Query.Index, at path: Path) -> Bool {
        switch index {
        case .key, .priority: true
        case .value, .child: indexes(at: path).contains(index)
        }
    }
}

/// The caller: the `auth` variable, and whether rules apply at all.
public struct AuthContext: Sendable {
    /// `uid`, `token` with all claims, `provider`; `.null` when signed out.
    public let auth: Node
    /// Rules do not apply to administrators.
    public let isAdmin: Bool
    /// Whether the caller may read everything and write nothing, whatever the rules are. Excludes `isAdmin`.
    public let isViewer: Bool
    /// Whether the caller is known not to be on the gateway's machine. Only `RuleSet.allowThisMachine` uses this.
    public let isElsewhere: Bool

    public init(auth: Node, isAdmin: Bool = false, isElsewhere: Bool = false) {
        self.init(auth: auth, isAdmin: isAdmin, isViewer: false, isElsewhere: isElsewhere)
    }

    private init(auth: Node, isAdmin: Bool, isViewer: Bool, isElsewhere: Bool) {
        self.auth = auth
        self.isAdmin = isAdmin
        self.isViewer = isViewer
        self.isElsewhere = isElsewhere
    }

    public static let unauthenticated = AuthContext(auth: .null)
    public static let admin = AuthContext(auth: .null, isAdmin: true)
    public static let viewer = AuthContext(auth: .null, isAdmin: false, isViewer: true, isElsewhere: false)

    /// Whether the caller may read everything, whatever the rules are.
    public var readsEverything: Bool { isAdmin || isViewer }

    /// Returns the same caller with its location.
    public func at(isElsewhere: Bool) -> AuthContext {
        AuthContext(auth: auth, isAdmin: isAdmin, isViewer: isViewer, isElsewhere: isElsewhere)
    }
}

/// The decision of the rules about a read or a write.
public enum Decision: Sendable, Equatable {
    case allowed
    case denied(Denial)

    public var isAllowed: Bool { self == .allowed }
}

/// The reason for a denial. For logs, tests and `explain`; clients never receive it (reference: security-rules 14).
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
    /// The path that was denied: where a validation failed, or else the requested path.
    public let path: Path
    /// The rule that denied, or nil if no rule was evaluated.
    public let rule: RuleID?
}

/// Identifies a rule within its `RuleSet`.
public struct RuleID: Sendable, Hashable {
    let index: Int32
}

/// The limits of evaluation. A step is one operation of a compiled expression, some ten nanoseconds, or reading a quarter of a
/// kilobyte of text.
public struct RuleLimits: Sendable, Equatable {
    /// The maximum number of steps of one expression (default 100,000). An expression that needs more has no value, and the
    /// rule counts as false.
    public var maxStepsPerRule: Int
    /// The maximum number of steps of all expressions of one read or write together (default 20,000,000).
    public var maxStepsPerOperation: Int

    public init(maxStepsPerRule: Int = 100_000, maxStepsPerOperation: Int = 20_000_000) {
        self.maxStepsPerRule = maxStepsPerRule
        self.maxStepsPerOperation = maxStepsPerOperation
    }
}
