import Rules
import Testing
import Tree

@testable import Engine
@testable import LogStore

/// Checks which facts the answers to writes reveal, for each caller.
@Suite struct PermissionTests {
    private static let rules = """
        {"rules": {
            "hidden": {".read": false, ".write": false},
            "box": {".write": true},
            "board": {".read": true},
            "counter": {".read": true, ".write": "newData.val() == (data.exists() ? data.val() : 0) + 1"},
            "blind": {".write": "newData.val() == data.val() + 1"}
        }}
        """

    private func outcome(_ tree: String, _ write: Write) throws -> WriteOutcome {
        let rules = RulesVersion(seq: 0, set: try RuleSet(json: Array(Self.rules.utf8)))
        var evaluation = Evaluation(
            Snapshot(seq: 7, root: try JSONParser.parse(tree), rules: rules), timestamp: 1_000)
        evaluation.apply(write)
        return try #require(evaluation.outcomes.first)
    }

    private func set(
        _ path: String, _ value: Node, expecting hash: String? = nil, rowLimit: Int? = nil,
        as auth: AuthContext = .unauthenticated
    ) -> Write {
        Write(
            .set(Path(splitting: path), value), operation: .set, expectedHash: hash, hasServerValue: value.hasIncrement,
            byteCount: 32, rowLimit: rowLimit, auth: auth)
    }

    /// Returns the parts of an outcome that the caller can distinguish.
    private func text(_ outcome: WriteOutcome) -> String {
        switch outcome {
        case .committed(_, let changes): "committed \(changes.map { "\($0.path)=\($0.value)" })"
        case .preconditionFailed(_, let current): "stale \(current.map { "\($0)" } ?? "nothing")"
        case .denied: "denied"
        case .tooLarge: "too large"
        case .refused: "refused"
        case .failed: "failed"
        }
    }

    @Test func unauthorizedWritersAreDeniedWithAnyCondition() throws {
        for tree in ["{\"hidden\":1}", "{\"hidden\":2}", "null"] {
            for hash in ["", Node.int(1).hash, "wrong"] {
                #expect(text(try outcome(tree, set("hidden", .int(5), expecting: hash))) == "denied")
                #expect(text(try outcome(tree, set("board", .int(5), expecting: hash))) == "denied")
            }
            #expect(text(try outcome(tree, set("hidden", .int(5), rowLimit: 0))) == "denied")
            #expect(text(try outcome(tree, set("hidden/.priority", .int(5)))) == "denied")
        }
    }

    @Test func onlyReadersReceiveTheValue() throws {
        let tree = "{\"box\":1,\"board\":1}"
        #expect(text(try outcome(tree, set("box", .int(5), expecting: "wrong"))) == "stale nothing")
        #expect(text(try outcome(tree, set("box", .int(5), expecting: "wrong", as: .admin))).hasPrefix("stale int(1)"))
        #expect(text(try outcome(tree, set("box", .int(5), expecting: Node.int(1).hash))).hasPrefix("committed"))
    }

    /// A stale transaction is retried even if its rules compare with the old value, because the hash is checked first;
    /// but only for callers that may learn that the value has changed.
    @Test func aStaleTransactionIsTriedAgain() throws {
        let hash = Node.int(1).hash
        #expect(
            text(try outcome("{\"counter\":4}", set("counter", .int(2), expecting: hash))).hasPrefix("stale int(4)"))
        #expect(text(try outcome("{\"counter\":1}", set("counter", .int(2), expecting: hash))).hasPrefix("committed"))
        #expect(text(try outcome("{\"counter\":1}", set("counter", .int(9), expecting: hash))) == "denied")
        for tree in ["{\"blind\":4}", "{\"blind\":5}"] {
            #expect(text(try outcome(tree, set("blind", .int(2), expecting: hash))) == "denied")
        }
    }

    @Test func sumsAreReportedToReadersOnly() throws {
        let increment = Node.serverValue(ServerValue(.increment(.int(0))))
        let answers = try ["{\"box\":4}", "{\"box\":5}", "null"].map { text(try outcome($0, set("box", increment))) }
        #expect(Set(answers).count == 1)
        let known = text(try outcome("{\"box\":4}", set("box", increment, as: .admin)))
        #expect(known.contains("int(4)"))
    }

    @Test func whatIsNotReadableDoesNotCountAgainstALimit() throws {
        let large = "{\"box\":{\"a\":1,\"b\":2,\"c\":3}}"
        #expect(text(try outcome(large, set("box", .int(1), rowLimit: 1))).hasPrefix("committed"))
        #expect(text(try outcome(large, set("box", .int(1), rowLimit: 1, as: .admin))) == "too large")
    }

    // MARK: Named writes

    private func named(_ path: String, _ number: Int64, as auth: AuthContext, action: Write.Action? = nil) throws
        -> Write
    {
        let name = try #require(WriteName(writer: "writer-1", number: number))
        return Write(
            action ?? .set(Path(splitting: path), .int(5)), operation: .set, byteCount: 32, auth: auth, name: name)
    }

    private static func user(_ uid: String) -> AuthContext {
        AuthContext(auth: Node(children: [(Key("uid"), .string(uid))]))
    }

    /// The identity that made a write is informed at once that it was committed. Other callers are judged first, and
    /// learn nothing if the rules refuse the write.
    @Test(arguments: [.user("uid ada"), .anonymous, .administrator, nil] as [WriterIdentity?])
    func completedWritesAreReportedToTheirWriter(owner: WriterIdentity?) throws {
        let rules = RulesVersion(seq: 0, set: try RuleSet(json: Array(Self.rules.utf8)))
        var done = DoneWrites()
        let isSet = done.set("writer-1", multirange: "{[1,2),[3,4)}", seq: 6, owner)
        #expect(isSet)
        let callers: [(AuthContext, WriterIdentity)] = [
            (Self.user("ada"), .user("uid ada")), (Self.user("eve"), .user("uid eve")), (.unauthenticated, .anonymous),
        ]
        for (auth, identity) in callers {
            func text(_ write: Write) throws -> String {
                var evaluation = Evaluation(
                    Snapshot(seq: 7, root: .null, rules: rules), timestamp: 1_000, done: done)
                evaluation.apply(write)
                #expect(evaluation.records.isEmpty)
                return self.text(try #require(evaluation.outcomes.first))
            }
            let isOwn = identity == owner
            #expect(try text(named("hidden", 1, as: auth)) == (isOwn ? "committed []" : "denied"))
            #expect(try text(named("hidden", 2, as: auth)) == (isOwn ? "refused" : "denied"))
            #expect(try text(named("", 1, as: auth, action: .recall)) == (isOwn ? "committed []" : "refused"))
            // If the rules let the caller write, the write is not executed again.
            #expect(try text(named("box", 1, as: auth)) == "committed []")
            #expect(try text(named("box", 2, as: auth)) == "refused")
        }
    }

    @Test func othersAreJudgedInTheSameBatchToo() throws {
        let rules = RulesVersion(seq: 0, set: try RuleSet(json: Array(Self.rules.utf8)))
        var evaluation = Evaluation(Snapshot(seq: 7, root: .null, rules: rules), timestamp: 1_000)
        for (path, auth) in [("box", "ada"), ("hidden", "eve"), ("box", "eve"), ("hidden", "ada")] {
            evaluation.apply(try named(path, 1, as: Self.user(auth)))
        }
        #expect(evaluation.outcomes.map { text($0).hasPrefix("committed") } == [true, false, true, true])
        #expect(evaluation.records.count == 1 && evaluation.writers == ["writer-1": .user("uid ada")])
    }
}
