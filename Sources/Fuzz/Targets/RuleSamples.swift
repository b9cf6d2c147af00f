import Rules
import Tree

/// Samples for evaluating rules: paths, trees, callers and queries.
struct RuleSamples {
    /// The tree before a write, and after it.
    let root: Node
    let newRoot: Node
    let auth: AuthContext
    let query: QueryContext
    /// The index of the path whose decision is explained.
    private let explained: Int

    static let paths = ["", "p", "p/a", "p/a/b", "items", "q/x", "a/b", ".priority"].map { Path(splitting: $0) }
    private static let now: Int64 = 1_700_000_000_000

    /// Returns a few samples that depend only on the input.
    static func of(_ input: [UInt8]) -> [RuleSamples] {
        var random = RandomTree(
            seed: input.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 })
        return queries.indices.map { index in
            let root = random.tree()
            let path = paths[random.below(paths.count)]
            let written = random.tree()
            let newRoot = path.namesPriority ? written : root.replacing(path, with: written)
            return RuleSamples(
                root: root, newRoot: newRoot, auth: callers[random.below(callers.count)], query: queries[index],
                explained: random.below(paths.count))
        }
    }

    /// Returns the decisions on a read and a write of each path.
    func decisions(_ rules: RuleSet) -> [Decision] {
        Self.paths.flatMap { path in
            [
                rules.mayRead(path, query: query, root: root, auth: auth, now: Self.now),
                rules.mayWrite([path], root: root, newRoot: newRoot, auth: auth, now: Self.now),
            ]
        }
    }

    /// Whether the explanations of one path's decisions are not empty and lead to the same decisions. Only one path,
    /// because explaining is slow. For administrators, explanations show the decision for other callers, so they are
    /// not compared.
    func explains(_ decisions: [Decision], of rules: RuleSet) -> Bool {
        let path = Self.paths[explained]
        let read = rules.explainRead(path, query: query, root: root, auth: auth, now: Self.now)
        let write = rules.explainWrite([path], root: root, newRoot: newRoot, auth: auth, now: Self.now)
        if read.description.isEmpty || write.description.isEmpty { return false }
        return auth.isAdmin || [read.decision, write.decision] == Array(decisions[(2 * explained)...].prefix(2))
    }

    /// Checks that decisions do not change with data or time if the rules report that they depend on neither.
    func steadiness(_ rules: RuleSet) -> String? {
        for path in Self.paths where rules.isSteadyForReading(path) {
            let now = rules.mayRead(path, query: query, root: root, auth: auth, now: Self.now).isAllowed
            let later = rules.mayRead(path, query: query, root: newRoot, auth: auth, now: Self.now + 1_000_000)
                .isAllowed
            if now != later { return "a steady read of \(path) changes" }
        }
        return nil
    }

    private static let callers = [
        AuthContext.unauthenticated, .admin,
        AuthContext(
            auth: Node(children: [
                (Key("uid"), .string("a")), (Key("provider"), .string("x")),
                (
                    Key("token"),
                    Node(children: [(Key("admin"), .bool(true)), (Key("n"), .int(3)), (Key("a.b"), .string("é"))])
                ),
            ])),
    ]

    private static let queries = [
        QueryContext.plain, QueryContext(order: .key, limitToFirst: 10),
        QueryContext(order: .child("a/b"), startAt: .int(2), endAt: .string("x"), limitToLast: 1),
        QueryContext(order: .value, equalTo: .string("a")),
    ]
}

/// Builds small random trees. Uses SplitMix64, like the mutator.
struct RandomTree {
    private var state: UInt64
    private static let keys = ["a", "b", "p", "q", "x", "items", "1", "é"]
    private static let texts = ["", "a", "a/b", "1", "aab", "é😀", "A b", String(repeating: "aé", count: 300)]

    init(seed: UInt64) { state = seed }

    mutating func tree(_ depth: Int = 3) -> Node {
        guard depth > 0, below(3) > 0 else { return leaf() }
        var children: [(Key, Node)] = []
        for key in Self.keys where below(3) == 0 { children.append((Key(key), tree(depth - 1))) }
        return Node(children: children.filter { !$0.1.isNull })
    }

    private mutating func leaf() -> Node {
        switch below(7) {
        case 0: .null
        case 1: .bool(below(2) == 0)
        case 2: .int(Int64(below(5)) - 1)
        case 3: .double([0.5, -1e300, 1e-7][below(3)])
        default: .string(Self.texts[below(Self.texts.count)])
        }
    }

    mutating func below(_ limit: Int) -> Int {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return Int((mixed ^ (mixed >> 31)) % UInt64(limit))
    }
}
