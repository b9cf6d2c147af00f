import Rules
import Testing
import Tree

/// Checks complete decisions, and their explanations.
@Suite struct DecisionTests {
    private let text = """
        {
          "rules": {
            "rooms": {
              "$room": {
                ".write": "auth != null",
                ".validate": "newData.hasChild('name')",
                "name": { ".validate": "newData.isString() && newData.val().length < 5" }
              }
            }
          }
        }
        """
    private let user = AuthContext(auth: Node(children: [(Key("uid"), .string("ana"))]))

    private func write(_ path: Path, _ value: Node, auth: AuthContext, root: Node = .null) throws -> Decision {
        try rules(text).mayWrite([path], root: root, newRoot: root.replacing(path, with: value), auth: auth, now: 0)
    }

    @Test func denialsSayWhichRuleAndWhere() throws {
        let rules = try rules(text)
        guard case .denied(let denial) = try write("rooms/a/name", .string("too long"), auth: user),
            let rule = denial.rule
        else {
            Issue.record("allowed")
            return
        }
        #expect(denial.reason == .invalid && denial.path == "rooms/a/name")
        let info = rules.info(rule)
        #expect(info.pattern == "/rooms/$room/name" && info.kind == .validate)
        #expect(info.position.line == 7 && info.position.column == 33)

        guard case .denied(let refused) = try write("rooms/a/name", .string("b"), auth: .unauthenticated) else {
            Issue.record("allowed")
            return
        }
        #expect(refused.reason == .noWriteAllowed && refused.rule.map { rules.info($0).pattern } == "/rooms/$room")
        guard case .denied(let silent) = try write("other", .int(1), auth: user) else {
            Issue.record("allowed")
            return
        }
        #expect(silent.rule == nil)
    }

    @Test func administratorsAreNotJudged() throws {
        #expect(try write("other", .int(1), auth: .admin) == .allowed)
        #expect(RuleSet.denyAll.mayRead(.root, query: nil, root: .null, auth: .admin, now: 0) == .allowed)
        #expect(!RuleSet.denyAll.mayRead(.root, query: nil, root: .null, auth: user, now: 0).isAllowed)
        #expect(!RuleSet.denyAll.mayWrite([.root], root: .null, newRoot: .int(1), auth: user, now: 0).isAllowed)
        #expect(
            RuleSet.allowAll.mayWrite(["a"], root: .null, newRoot: .int(1), auth: .unauthenticated, now: 0) == .allowed)
    }

    @Test func rulesForThisMachineAreForNoOtherMachine() throws {
        let here = AuthContext(auth: user.auth)
        let elsewhere = AuthContext(auth: user.auth, isElsewhere: true)
        let administrator = AuthContext(auth: .null, isAdmin: true, isElsewhere: true)
        for (auth, isAllowed) in [(here, true), (elsewhere, false), (administrator, true)] {
            let set = RuleSet.allowThisMachine
            #expect(set.mayRead("a", query: nil, root: .null, auth: auth, now: 0).isAllowed == isAllowed)
            #expect(set.mayWrite(["a"], root: .null, newRoot: .int(1), auth: auth, now: 0).isAllowed == isAllowed)
        }
        // User-defined rules apply to clients on other machines, too.
        #expect(RuleSet.allowAll.mayRead("a", query: nil, root: .null, auth: elsewhere, now: 0).isAllowed)
        #expect(
            try RuleSet(json: RuleSet.allowThisMachine.source).mayRead(
                "a", query: nil, root: .null, auth: elsewhere, now: 0
            ).isAllowed)
    }

    @Test func aPriorityIsPartOfItsNode() throws {
        let text =
            "{\"rules\":{\"p\":{\".write\":\"newData.getPriority() == 3\",\".validate\":\"newData.val() == 1\"}}}"
        let rules = try rules(text)
        let root = try JSONParser.parse("{\"p\": 1}")
        for (priority, isAllowed) in [(3, true), (4, false)] {
            let new = root.replacing("p/.priority", with: .int(Int64(priority)))
            let decision = rules.mayWrite(["p/.priority"], root: root, newRoot: new, auth: user, now: 0)
            #expect(decision.isAllowed == isAllowed)
        }
    }

    @Test func aPriorityIsNotBoundToACapture() throws {
        let rules = try rules("{\"rules\":{\"p\":{\"$x\":{\".read\":true,\".write\":true}}}}")
        let root = try JSONParser.parse("{\"p\": 1}")
        #expect(!rules.mayRead("p/.priority", query: nil, root: root, auth: user, now: 0).isAllowed)
        let new = root.replacing("p/.priority", with: .int(2))
        #expect(!rules.mayWrite(["p/.priority"], root: root, newRoot: new, auth: user, now: 0).isAllowed)
    }

    @Test func deepDataUnderFlatRulesIsNotWalked() throws {
        let rules = try rules("{\"rules\":{\".write\":true,\"a\":{\"b\":{\".validate\":\"newData.val() == 1\"}}}}")
        let good = try JSONParser.parse("{\"a\": {\"b\": 1, \"z\": {\"b\": 2}}, \"b\": 3}")
        let bad = try JSONParser.parse("{\"a\": {\"b\": 2}}")
        #expect(rules.mayWrite([.root], root: .null, newRoot: good, auth: user, now: 0) == .allowed)
        #expect(!rules.mayWrite([.root], root: .null, newRoot: bad, auth: user, now: 0).isAllowed)
    }

    @Test func manyLiteralChildrenAreFound() throws {
        let children = (0..<40).map { "\"k\($0)\": {\".read\": \($0 % 2 == 0)}" }.joined(separator: ",")
        let rules = try rules("{\"rules\":{\"$other\": {\".read\": true}, \(children)}}")
        for index in 0..<40 {
            let path = Path([Key("k\(index)")])
            #expect(
                rules.mayRead(path, query: nil, root: .null, auth: user, now: 0).isAllowed == (index % 2 == 0)
            )
        }
        #expect(rules.mayRead("k40", query: nil, root: .null, auth: user, now: 0).isAllowed)
    }

    @Test func explanationsShowEveryPart() throws {
        let root = Node.null
        let new = root.replacing("rooms/a/name", with: .string("too long"))
        let explanation = try rules(text).explainWrite(["rooms/a/name"], root: root, newRoot: new, auth: user, now: 0)
        #expect(
            explanation.description == """
                /rooms/a
                    .write of /rooms/$room (5:20): auth != null
                    => true
                        auth != null  true
                          auth        (an object with 1 child)
                /rooms/a
                    .validate of /rooms/$room (6:23): newData.hasChild('name')
                    => true
                        newData.hasChild('name')  true
                          newData                 (an object with 1 child)
                /rooms/a/name
                    .validate of /rooms/$room/name (7:33): newData.isString() && newData.val().length < 5
                    => false
                        newData.isString() && newData.val().length < 5  false
                          newData.isString()                            true
                            newData                                     "too long"
                          newData.val().length < 5                      false
                            newData.val().length                        8
                              newData.val()                             "too long"
                                newData                                 "too long"
                Denied: /rooms/a/name is not valid, by .validate of /rooms/$room/name (7:33).

                """)
    }

    @Test func explanationsShowErrorsAndWhatWasSkipped() throws {
        let rules = try rules("{\"rules\":{\".read\":\"auth != null || data.val() + 1 > 2 || now > 0\"}}")
        let explanation = rules.explainRead(.root, root: .null, auth: .unauthenticated, now: 5)
        #expect(
            explanation.description == """
                /
                    .read of / (1:20): auth != null || data.val() + 1 > 2 || now > 0
                    => error: an operand of + is not a number or a string, which counts as false
                        auth != null || data.val() + 1 > 2 || now > 0  no value
                          auth != null                                 false
                            auth                                       null
                          data.val() + 1 > 2                           no value
                            data.val() + 1                             error: an operand of + is not a number or a string
                              data.val()                               null
                                data                                   null
                          now > 0                                      not evaluated
                            now                                        not evaluated
                Denied: no .read rule allowed the operation at /.

                """)
    }

    /// If neither data nor time influences a rule, readers need not be judged again.
    @Test func steadyPaths() throws {
        let rules = try rules(
            """
            {"rules": {
              "users": {"$uid": {".read": "auth.uid === $uid && query.limitToFirst <= 10"}},
              "rooms": {"$room": {".read": "auth != null && root.child('members').hasChildren([auth.uid])", "open": {".read": true}}},
              "later": {".read": "now > 5", ".write": "data.exists()"},
              "open": {".read": true, "deep": {".read": "data.val() === 1"}},
              "written": {".write": "data.exists() && now > 5", ".validate": "newData.exists()"}
            }}
            """)
        for path in ["", "users", "users/a", "users/a/b", "rooms", "open", "open/deep", "open/deep/x", "written"] {
            #expect(rules.isSteadyForReading(Path(splitting: path)), "\(path)")
        }
        for path in ["rooms/a", "rooms/a/b", "rooms/a/open", "later", "later/x"] {
            #expect(!rules.isSteadyForReading(Path(splitting: path)), "\(path)")
        }
        #expect(RuleSet.allowAll.isSteadyForReading("a/b") && RuleSet.denyAll.isSteadyForReading("a"))
    }
}
