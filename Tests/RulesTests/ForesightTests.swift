import Rules
import Testing
import Tree

/// What rules say of a write before the value, or the data, is looked at.
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
        // A failure behind what is not known refuses only where nothing else may let in.
        #expect(try refuses("newData.isString() && (1 < 'a')"))
        #expect(try !refuses("(newData.isString() && (1 < 'a')) || true"))
    }

    @Test func dataIsLookedAtWhereItIsGiven() throws {
        let rule = "data.child('owner').val() == 'u' && newData.exists()"
        #expect(try !refuses(rule))
        #expect(try !refuses(rule, data: "{\"owner\":\"u\"}"))
        #expect(try refuses(rule, data: "{\"owner\":\"v\"}"))
    }

    @Test func placesBelowMayBeLetIn() throws {
        let rules = try rules(
            "{\"rules\": {\"a\": {\"$b\": {\".write\": \"auth != null\"}}, \"c\": {\"d\": {\".write\": false}}}}")
        let nobody = AuthContext.unauthenticated
        func refuses(_ path: Path, _ reach: RuleSet.Reach) -> Bool {
            rules.refusal(of: path, reach, auth: nobody, now: 10) != nil
        }
        #expect(refuses("a", .path))
        // Who knows which of them: that is found out place by place.
        #expect(!refuses("a", .pathAndBelow))
        #expect(refuses("a/x", .pathAndBelow))
        #expect(refuses("c", .pathAndBelow))
        #expect(refuses("nowhere", .pathAndBelow))
    }

    /// An expression that would be over its steps with the whole truth may get along with less of it, and the other way
    /// round: running out of steps here says nothing.
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

/// How much is looked at of a write that is refused.
@Suite struct RefusedWorkTests {
    private final class Count {
        var visited = 0
    }

    /// Paths that are counted as they are looked at.
    private func paths(_ number: Int, _ count: Count) -> some Sequence<Path> {
        (0..<number).lazy.map { index in
            count.visited += 1
            return Path([Key("w"), Key("k\(index)"), Key("a")])
        }
    }

    /// 400,000 places that are denied cost what the first does, and none that is allowed is looked at twice.
    @Test func aRefusalEndsAtTheFirstPlace() throws {
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
