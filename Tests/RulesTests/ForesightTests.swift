import Rules
import Testing
import Tree

/// Checks the verdicts of rules on a write before its value, or the data, is known.
@Suite struct ForesightTests {
    private func refuses(
        _ write: String, _ path: Path = "p", reach: RuleSet.Reach = .path, auth: String = "null", data: String? = nil
    ) throws -> Bool {
        let escaped = write.replacing("\"", with: "\\\"")
        let rules = try rules("{\"rules\": {\"p\": {\".write\": \"\(escaped)\"}}}")
        let context = AuthContext(auth: try JSONParser.parse(auth))
        guard let data else { return rules.refusal(of: path, reach, auth: context, now: 10) != nil }
        let root = Node.null.replacing("p", with: try JSONParser.parse(data))
        return rules.refusal(of: path, reach, root: root, auth: context, now: 10) != nil
    }

    @Test func whatDoesNotDependOnTheWriteIsForeseen() throws {
        #expect(try refuses("false"))
        #expect(try refuses("auth != null"))
        #expect(try !refuses("auth != null", auth: "{\"uid\":\"u\"}"))
        #expect(try refuses("auth != null && newData.isString()"))
        #expect(try refuses("newData.isString() && auth != null"))
        #expect(try !refuses("newData.isString() || auth != null"))
        #expect(try refuses("!(newData.isString() || auth == null)"))
        #expect(try !refuses("newData.isString()"))
        // An error after an unknown operand causes a refusal only if no other operand may allow the write.
        #expect(try refuses("newData.isString() && (1 < 'a')"))
        #expect(try !refuses("(newData.isString() && (1 < 'a')) || true"))
    }

    @Test func dataIsLookedAtWhereItIsGiven() throws {
        let rule = "data.child('owner').val() == 'u' && newData.exists()"
        #expect(try !refuses(rule))
        #expect(try !refuses(rule, data: "{\"owner\":\"u\"}"))
        #expect(try refuses(rule, data: "{\"owner\":\"v\"}"))
    }

    @Test func pathsBelowMayBeAllowed() throws {
        let rules = try rules(
            "{\"rules\": {\"a\": {\"$b\": {\".write\": \"auth != null\"}}, \"c\": {\"d\": {\".write\": false}}}}")
        let anonymous = AuthContext.unauthenticated
        func refuses(_ path: Path, _ reach: RuleSet.Reach) -> Bool {
            rules.refusal(of: path, reach, auth: anonymous, now: 10) != nil
        }
        #expect(refuses("a", .path))
        // It is unknown which of the paths is written: the rules are evaluated path by path later.
        #expect(!refuses("a", .pathAndBelow))
        #expect(refuses("a/x", .pathAndBelow))
        #expect(refuses("c", .pathAndBelow))
        #expect(refuses("nowhere", .pathAndBelow))
    }

    /// An expression that exceeds its steps with all data may not exceed them with less, and the reverse: exceeding the
    /// steps here decides nothing.
    @Test func runningOutOfStepsForeseesNothing() throws {
        let rules = try RuleSet(
            json: Array("{\"rules\": {\".write\": \"(newData.exists() && auth.a == 1 && auth.b == 2) || true\"}}".utf8),
            limits: RuleLimits(maxStepsPerRule: 3))
        #expect(rules.refusal(of: "p", .path, auth: .unauthenticated, now: 10) == nil)
    }

    @Test func readsThatNothingCouldAllow() throws {
        let rules = try rules("{\"rules\": {\"a\": {\".read\": \"auth != null && data.exists()\"}}}")
        #expect(!rules.mayEverRead("a", query: .plain, auth: .unauthenticated, now: 10))
        let user = AuthContext(auth: try JSONParser.parse("{\"uid\":\"u\"}"))
        #expect(rules.mayEverRead("a/b", query: .plain, auth: user, now: 10))
        #expect(!rules.mayEverRead("b", query: .plain, auth: user, now: 10))
    }
}

/// Checks how much of a refused write is examined.
@Suite struct RefusedWorkTests {
    private final class Count {
        var visited = 0
    }

    /// Returns paths, and counts them as they are visited.
    private func paths(_ number: Int, _ count: Count) -> some Sequence<Path> {
        (0..<number).lazy.map { index in
            count.visited += 1
            return Path([Key("w"), Key("k\(index)"), Key("a")])
        }
    }

    /// 400,000 denied paths cost as much as the first, and no allowed path is visited twice.
    @Test func aRefusalEndsAtTheFirstPath() throws {
        let rules = try rules(
            "{\"rules\": {\"w\": {\"$k\": {\".write\": \"auth != null && root.child('on').exists()\"}}}}")
        let count = Count()
        #expect(rules.refusal(of: paths(400_000, count), auth: .unauthenticated, now: 1) != nil)
        #expect(count.visited == 1)
        let user = AuthContext(auth: try JSONParser.parse("{\"uid\":\"u\"}"))
        count.visited = 0
        #expect(rules.refusal(of: paths(1_000, count), auth: user, now: 1) == nil)
        #expect(count.visited == 1_000)
        count.visited = 0
        #expect(rules.refusal(of: paths(1_000, count), root: .null, auth: user, now: 1) != nil)
        #expect(count.visited == 1)
    }
}
