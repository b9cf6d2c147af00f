import Engine
import Rules
import Testing
import Tree

@testable import Gateway

/// Tests of whether readers may continue to read, and of when the check is skipped.
@Suite struct ReaderCheckTests {
    private func namespace(_ read: String, root: String = "null") throws -> TestNamespace {
        let rules = try RuleSet(json: Array("{\"rules\":{\"a\":{\".read\":\"\(read)\"}}}".utf8))
        return TestNamespace(root: try JSONParser.parse(root), rules: rules)
    }

    /// A class around the check, because `#expect` cannot call mutating methods.
    private final class Check {
        private var check: ReaderCheck

        init(_ check: ReaderCheck) { self.check = check }

        var rules: RulesVersion { check.rules }
        func holds(_ rules: RulesVersion?) -> Bool { check.holds(rules) }
        func mayRead(_ auth: AuthContext) -> Bool { check.mayRead(auth) }
    }

    private func check(_ namespace: TestNamespace, _ path: String = "a") -> Check {
        Check(ReaderCheck(namespace.snapshot, Path(splitting: path), QueryContext(nil)))
    }

    private static let user = AuthContext(auth: Node(children: [(Key("uid"), .string("u"))]))

    @Test func rulesDecide() throws {
        let check = check(try namespace("auth.uid == 'u'"))
        #expect(check.mayRead(Self.user))
        #expect(!check.mayRead(.unauthenticated))
        #expect(check.mayRead(.admin), "administrators are not judged")
        let root = self.check(try namespace("auth.uid == 'u'"), "")
        #expect(!root.mayRead(Self.user))
        #expect(root.mayRead(.admin))
    }

    /// Checks that the result for one anonymous reader applies to all anonymous readers, except readers on another
    /// machine.
    @Test func readersAreNotCheckedOnceForEachPath() throws {
        let rules = try RuleSet(json: Array("{\"rules\":{\".read\":true}}".utf8))
        let open = check(TestNamespace(rules: rules))
        for _ in 0..<3 {
            #expect(open.mayRead(AuthContext(auth: .null, isElsewhere: false)))
            #expect(open.mayRead(AuthContext(auth: .null, isElsewhere: true)))
        }
    }

    @Test func steadyRulesHold() throws {
        let namespace = try namespace("auth.uid == 'u'")
        let check = check(namespace)
        #expect(check.holds(check.rules))
        #expect(!check.holds(nil), "who was never judged")
        #expect(!check.holds(RulesVersion(seq: 9, set: .allowAll)))
        try namespace.adopt("{\"rules\":{\".read\":true}}")
        #expect(!self.check(namespace).holds(check.rules), "new rules are other rules")
    }

    @Test(
        arguments: [
            ("root.child('x').val() == 1", false), ("data.child('x').exists()", false), ("now > 5", false),
            ("auth != null", true), ("true", true), ("auth.token.admin == true", true),
        ])
    func whatLooksAtDataOrTimeIsNotSteady(_ read: String, _ isSteady: Bool) throws {
        let check = check(try namespace(read))
        #expect(check.holds(check.rules) == isSteady)
    }

    @Test func groupsAreJudgedByTheNewestState() throws {
        let namespace = try namespace("root.child('open').val() == true", root: "{\"open\":true}")
        let group = ListenerGroup(
            ListenerKey(namespace: NamespaceKey(id: 1), path: Path(splitting: "a"), query: nil, encoding: .realtime),
            namespace.live)
        let before = Check(ReaderCheck(group))
        namespace.commit((path: "open", value: .bool(false)))
        let after = Check(ReaderCheck(group))
        #expect(before.mayRead(.unauthenticated), "as of when it was made")
        #expect(!after.mayRead(.unauthenticated))
    }
}
