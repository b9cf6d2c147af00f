import Rules
import Testing
import Tree

/// Checks that no rule can stall the gateway.
@Suite struct BudgetTests {
    @Test func aRuleOutOfStepsHasNoValue() throws {
        let long = (0..<500).map { "now > \($0)" }.joined(separator: " && ")
        #expect(try evaluates(long))
        #expect(try !evaluates(long, limits: RuleLimits(maxStepsPerRule: 100)))
        #expect(try !evaluates(long + " || true", limits: RuleLimits(maxStepsPerRule: 100)))
    }

    @Test(arguments: [
        // These searches are slow by construction: every start matches almost to the end.
        "data.child('long').val().contains(data.child('needle').val())",
        "data.child('long').val().replace('', data.child('long').val()).length > 0",
        "data.child('long').val().replace('a', data.child('long').val()).length > 0",
        "(data.child('long').val() + data.child('long').val()).replace('aa', data.child('long').val()) != ''",
        "data.child('long').val().matches(/(a?){50}(b|a?){50}$/) && data.child('long').val().matches(/((a|b)*c){30}/)",
    ])
    func expensiveStringsEndSoon(expression: String) throws {
        let data =
            "{\"long\": \"\(String(repeating: "a", count: 1_000_000))\", \"needle\": \"\(String(repeating: "a", count: 20_000))b\"}"
        let clock = ContinuousClock()
        let start = clock.now
        #expect(try !evaluates("\(expression) || true", data: data))
        // Without a budget each of these takes minutes or all memory.
        #expect(clock.now - start < .seconds(20))
    }

    /// A pattern is charged for the states that may be active at a time, not for its size.
    @Test func longTextsOfLimitedLengthAreJudged() throws {
        func judge(_ pattern: String, _ count: Int, limits: RuleLimits = RuleLimits()) throws -> Bool {
            let data = "{\"long\": \"\(String(repeating: "a", count: count))\"}"
            return try evaluates("data.child('long').val().matches(/\(pattern)/)", data: data, limits: limits)
        }
        #expect(try judge("^.{1,10000}$", 10_000) && !judge("^.{1,10000}$", 10_001))
        #expect(try judge("^[A-Za-z0-9+=]+$", 1_000_000) && judge(".{1,5000}", 1_000_000))
        #expect(try !judge("^.{1,10000}$", 10_000, limits: RuleLimits(maxStepsPerRule: 100)))
    }

    /// Patterns whose states RE2 caches completely are charged for the text only.
    @Test func longTextsAreJudgedInAPatternOfFewStates() throws {
        let base64 = "[A-Za-z0-9+\\/=]+$"
        for (pattern, prefix, count) in [
            ("^\(base64)", "", 3_000_000),
            ("^data:image\\/(png|jpeg);base64,\(base64)", "data:image/png;base64,", 3_000_000),
            ("^\\w+( \\w+)*$", "a b ", 2_000_000), ("<.+>", "<b", 2_000_000),
        ] {
            let data = "{\"long\": \"\(prefix)\(String(repeating: "A", count: count))\"}"
            let expression = "data.child('long').val().matches(/\(pattern)/)"
            #expect(try evaluates(pattern == "<.+>" ? "!\(expression)" : expression, data: data), "\(pattern)")
        }
    }

    /// If all parts of a pattern may be active at each position, the cost is that of trying all of them.
    @Test(arguments: ["^(.*a){300}b$", "(.*a){300}b$", "^(a*){300}b$", "a.{300}[cx]$", "^((.*a){20}b|(.*b){20}a){8}$"])
    func ambiguousPatternsAreDear(pattern: String) throws {
        let data =
            "{\"long\": \"\(String(repeating: "a", count: 20_000))\", \"short\": \"\(String(repeating: "a", count: 20))\"}"
        #expect(try !evaluates("!data.child('long').val().matches(/\(pattern)/)", data: data))
        #expect(try evaluates("!data.child('short').val().matches(/\(pattern)/)", data: data))
    }

    /// Short texts inserted at many positions are charged by their sum: each is less than a step.
    @Test func textThatGrowsIsCharged() throws {
        let data = "{\"long\": \"\(String(repeating: "a", count: 20_000))\"}"
        let grown = "data.child('long').val().replace('', '\(String(repeating: "x", count: 200))').beginsWith('x')"
        #expect(try evaluates(grown, data: data))
        #expect(try !evaluates(grown, data: data, limits: RuleLimits(maxStepsPerRule: 10_000)))
    }

    /// The name of a child is charged by its length, too.
    @Test(arguments: [
        "data.child(data.child('long').val()).exists() || true", "auth[data.child('long').val()] == null",
    ])
    func longNamesAreCharged(expression: String) throws {
        let data = "{\"long\": \"\(String(repeating: "a", count: 200_000))\"}"
        let auth = "{\"uid\": \"a\"}"
        #expect(try evaluates(expression, data: data, auth: auth))
        #expect(try !evaluates(expression, data: data, auth: auth, limits: RuleLimits(maxStepsPerRule: 700)))
    }

    @Test func theOperationHasABudgetOfItsOwn() throws {
        let text = "{\"rules\":{\".write\":true,\"$x\":{\".validate\":\"newData.isNumber()\"}}}"
        let new = Node(children: (0..<10_000).map { (Key("k\($0)"), Node.int(Int64($0))) })
        func mayWrite(_ limits: RuleLimits) throws -> Decision {
            try rules(text, limits: limits).mayWrite([.root], root: .null, newRoot: new, auth: .unauthenticated, now: 0)
        }
        #expect(try mayWrite(RuleLimits()) == .allowed)
        guard case .denied(let denial) = try mayWrite(RuleLimits(maxStepsPerOperation: 1000)) else {
            Issue.record("allowed")
            return
        }
        #expect(denial.reason == .failed)
    }
}
