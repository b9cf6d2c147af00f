import Rules
import Testing
import Tree

/// Compares compiled rules with the slow evaluator on random documents, data and operations.
@Suite struct PropertyTests {
    private func query(_ random: inout SeededGenerator) -> (QueryContext, [String: Plain]) {
        var context = QueryContext.plain
        var plain: [String: Plain] = [:]
        switch random.below(5) {
        case 0:
            context.order = .key
            plain["orderByKey"] = .bool(true)
        case 1:
            context.order = .value
            plain["orderByValue"] = .bool(true)
        case 2:
            context.order = .child("a/b")
            plain["orderByChild"] = .string("a/b")
        default: break
        }
        if random.chance(40) {
            context.startAt = .int(2)
            plain["startAt"] = .number(2)
        }
        if random.chance(40) {
            context.equalTo = .string("a")
            plain["equalTo"] = .string("a")
        }
        if random.chance(40) {
            context.limitToFirst = 10
            plain["limitToFirst"] = .number(10)
        }
        return (context, plain)
    }

    @Test(arguments: 0..<8) func decisionsAreThoseOfTheSlowEvaluator(seed: UInt64) throws {
        var maker = RandomRules(random: SeededGenerator(seed: seed))
        var (accepted, allowed, judged) = (0, 0, 0)
        for round in 0..<120 {
            maker.disobedience = maker.random.chance(25) ? 1 : 0
            let document = maker.document()
            let text = "{\"rules\": \(document.text)}"
            let rules: RuleSet
            do {
                rules = try RuleSet(json: Array(text.utf8))
                try #require(document.accepts(), "seed \(seed), round \(round): accepted \(text)")
                accepted += 1
            } catch let error as RulesError {
                try #require(!document.accepts(), "seed \(seed), round \(round): \(error) for \(text)")
                continue
            }
            for _ in 0..<12 {
                let isAllowed = try judge(rules, document, &maker, "seed \(seed), round \(round): \(text)")
                judged += 1
                if isAllowed { allowed += 1 }
            }
        }
        // The comparison means something only if there was something to compare.
        #expect(
            accepted > 60 && allowed * 8 > judged && allowed * 4 < judged * 3, "\(accepted), \(allowed) of \(judged)")
    }

    /// Compares single expressions, and the value of each part of them.
    @Test(arguments: 100..<104) func expressionsAreThoseOfTheSlowEvaluator(seed: UInt64) throws {
        var maker = RandomRules(random: SeededGenerator(seed: seed))
        var (accepted, refused, allowed) = (0, 0, 0)
        for round in 0..<1000 {
            maker.disobedience = maker.random.chance(30) ? 4 : 0
            let expression = maker.expression(isRead: true)
            let text = "{\"rules\": {\"a\": {\".read\": \"\(expression.text)\"}}}"
            let label: Comment = "seed \(seed), round \(round): \(expression.text)"
            guard let rules = try? RuleSet(json: Array(text.utf8)) else {
                try #require(!SlowTypes(isRead: true, captures: []).accepts(expression), label)
                refused += 1
                continue
            }
            try #require(SlowTypes(isRead: true, captures: []).accepts(expression), label)
            accepted += 1
            for _ in 0..<4 {
                let data = maker.data()
                let auth = maker.auth()
                let slow = SlowEvaluator(
                    data: data, newData: .null, path: ["a"], captures: [:], auth: auth, now: 10, query: [:])
                let expected = slow.run(expression)
                let explanation = rules.explainRead(
                    Path([Key("a")]), root: data.node, auth: AuthContext(auth: auth.node), now: 10)
                try #require(explanation.decision.isAllowed == expected, "\(label) of \(data) as \(auth)")
                // Distinguishes denial by an error from denial by false: the slow evaluator must have failed as well.
                let hasFailed = (try? slow.evaluate(expression)) == nil
                try #require((explanation.steps.first?.result == nil) == hasFailed, "\(label) of \(data) as \(auth)")
                if expected { allowed += 1 }
            }
        }
        #expect(accepted > 500 && refused > 25 && allowed * 5 > accepted, "\(accepted), \(refused), \(allowed)")
    }

    /// Compares one operation's verdicts.
    private func judge(
        _ rules: RuleSet, _ document: SlowNode, _ maker: inout RandomRules, _ label: String
    ) throws -> Bool {
        let data = maker.data()
        let auth = maker.auth()
        let context = AuthContext(auth: auth.node)
        let path = maker.path()
        let now: Int64 = 10
        if maker.random.chance(40) {
            let (query, plainQuery) = query(&maker.random)
            let slow = SlowRules(root: document, auth: auth, now: Double(now), query: plainQuery)
            let expected = slow.mayRead(path, data)
            let decision = rules.mayRead(
                Path(path.map { Key($0) }), query: query, root: data.node, auth: context, now: now)
            try #require(decision.isAllowed == expected, "read \(path) of \(data) as \(auth), \(label)")
            let treePath = Path(path.map { Key($0) })
            if !rules.mayEverRead(treePath, query: query, auth: context, now: now) {
                try #require(!expected, "never \(path) of \(data) as \(auth), \(label)")
            }
            if rules.isSteadyForReading(treePath) {
                let other = maker.data()
                let later = rules.mayRead(treePath, query: query, root: other.node, auth: context, now: now + 1_000_000)
                try #require(later.isAllowed == expected, "\(path) with \(data) and then \(other) as \(auth), \(label)")
            }
            return expected
        }
        var newData = data
        var paths: [[String]] = []
        for index in 0..<(maker.random.chance(60) ? 1 : 3) {
            let path = index == 0 ? path : maker.path()
            paths.append(path)
            newData = newData.replacing(path, with: maker.data(2))
        }
        let slow = SlowRules(root: document, auth: auth, now: Double(now), query: [:])
        let expected = slow.mayWrite(paths, data, newData)
        let decision = rules.mayWrite(
            paths.map { Path($0.map { Key($0) }) }, root: data.node, newRoot: newData.node, auth: context, now: now)
        try #require(decision.isAllowed == expected, "write \(paths) of \(data) to \(newData) as \(auth), \(label)")
        try foresee(rules, paths, data, expected, context, "\(paths) of \(data) to \(newData) as \(auth), \(label)")
        return expected
    }

    /// Early refusals that use only a part of the data are refusals of the slow evaluator, too.
    private func foresee(
        _ rules: RuleSet, _ paths: [[String]], _ data: Plain, _ expected: Bool, _ auth: AuthContext, _ label: String
    ) throws {
        let paths = paths.map { Path($0.map { Key($0) }) }
        if rules.refusal(of: paths, root: data.node, auth: auth, now: 10) != nil {
            try #require(!expected, "foreseen with the data: \(label)")
        }
        if rules.refusal(of: paths, auth: auth, now: 10) != nil {
            try #require(!expected, "foreseen without the data: \(label)")
            try #require(
                rules.refusal(of: paths, root: data.node, auth: auth, now: 10) != nil, "more is less: \(label)")
        }
        for path in paths {
            for depth in 0...path.depth {
                let base = Path(Array(path.keys.prefix(depth)))
                if rules.refusal(of: base, .pathAndBelow, auth: auth, now: 10) != nil {
                    try #require(!expected, "foreseen at \(base): \(label)")
                }
            }
        }
    }
}
