import Rules
import TestSupport
import Testing
import Tree

@testable import Engine
@testable import LogStore

/// Checks the outcomes of the writes of one batch, and the batch's content.
@Suite struct EvaluationTests {
    private static let now: Int64 = 1_700_000_000_000

    private static func snapshot(
        _ tree: String = "null", seq: Int64 = 10, rules: String? = nil
    ) throws -> Snapshot {
        let set = try rules.map { try RuleSet(json: Array("{\"rules\":\($0)}".utf8)) }
        return Snapshot(
            seq: seq, root: try JSONParser.parse(tree), rules: RulesVersion(seq: 0, set: set ?? .denyAll), batch: [1])
    }

    private static func evaluated(
        _ snapshot: Snapshot, keepsSteps: Bool = true, _ writes: [Write]
    ) -> Evaluation {
        var evaluation = Evaluation(snapshot, timestamp: now, keepsSteps: keepsSteps, batchID: [2])
        for write in writes { evaluation.apply(write) }
        return evaluation
    }

    private static func json(_ node: Node) -> String {
        String(decoding: JSONWriter.encode(node, form: .export), as: UTF8.self)
    }

    /// Returns the outcomes as texts.
    private static func outcomes(_ evaluation: Evaluation) -> [String] {
        evaluation.outcomes.map { outcome in
            switch outcome {
            case .committed(let seq, let changes):
                "\(seq) " + changes.map { "\($0.path)=\(json($0.value))" }.joined(separator: " ")
            case .preconditionFailed(let seq, let current): "stale at \(seq): \(current.map(json) ?? "unknown")"
            case .denied: "denied"
            case .tooLarge: "too large"
            case .refused: "refused"
            case .failed(let error): "\(error)"
            }
        }
    }

    // MARK: Rows

    /// The rows of a batch turn the stored form of the tree before it into that of the tree after it, whatever its
    /// writes did in between.
    @Test(arguments: 1...12 as ClosedRange<UInt64>) func theRowsLeadFromTreeToTree(seed: UInt64) {
        var random = TreeGenerator(seed: seed)
        var root = random.tree(depth: 4)
        for step in 0..<60 {
            let snapshot = Snapshot(seq: 10, root: root, rules: RulesVersion(seq: 0, set: .denyAll), batch: [1])
            let evaluation = Self.evaluated(snapshot, (0...random.random.below(4)).map { _ in random.write() })
            let before = CollectedRows.of(root)
            var stored = before
            for (path, row) in evaluation.rows.sink.rows {
                stored[path] = row.value.isNull ? nil : row.value
                #expect(row.existed || before[path] == nil, "seed \(seed), step \(step)")
            }
            root = evaluation.root
            #expect(stored == CollectedRows.of(root), "seed \(seed), step \(step)")
        }
    }

    // MARK: Sets and updates

    @Test func eachWriteIsTheNextEntry() throws {
        let evaluation = Self.evaluated(
            try Self.snapshot("{\"a\":1}"), [.set("a", .int(2)), .set("b/c", .string("x")), .set("a", .null)])
        #expect(Self.outcomes(evaluation) == ["11 /a=2", "12 /b/c=\"x\"", "13 /a=null"])
        #expect(Self.json(evaluation.root) == "{\"b\":{\"c\":\"x\"}}")
        #expect(evaluation.head == 13)
        #expect(evaluation.records.map(\.operation) == [.set, .set, .remove])
        #expect(evaluation.records.map { "\($0.path)" } == ["/a", "/b/c", "/a"])
        #expect(
            try evaluation.records.map { try ChangeCodec.decode($0.changes).map(\.value) } == [
                [.int(2)], [.string("x")], [.null],
            ])
    }

    /// Listeners receive each step with the tree before and after it.
    @Test func stepsAreAChain() throws {
        let snapshot = try Self.snapshot("{\"a\":1}")
        let evaluation = Self.evaluated(
            snapshot,
            [
                .set("a", .int(2)), .set("a", .int(3), expecting: "wrong"),
                .update("b", [("x", .int(1)), ("y", .int(2))]),
            ])
        #expect(evaluation.steps.map(\.entry.seq) == [11, 12])
        #expect(evaluation.steps.allSatisfy { $0.entry.committedAt == Self.now && $0.batch == [2] })
        #expect(evaluation.steps[0].before == snapshot.root)
        #expect(evaluation.steps[1].before == evaluation.steps[0].after)
        #expect(evaluation.steps[1].after == evaluation.root)
        #expect(evaluation.steps[1].entry.path == Path(splitting: "b"))
        let after = evaluation.snapshot
        #expect(after.seq == 12 && after.batch == [2] && after.root == evaluation.root)
    }

    @Test func withoutListenersNoStepsAreKept() throws {
        let writes: [Write] = [.set("a", .int(2)), .update("", [("b", .int(1)), ("c", .int(2))])]
        let with = Self.evaluated(try Self.snapshot(), writes)
        let without = Self.evaluated(try Self.snapshot(), keepsSteps: false, writes)
        #expect(without.steps.isEmpty && with.steps.count == 2)
        #expect(without.root == with.root && without.head == with.head)
        #expect(Self.outcomes(without) == Self.outcomes(with))
    }

    /// An update's changes are applied together: values, then removals, then priorities, in any order of arrival.
    @Test func updatesAreAppliedInTheOrderOfTheirSteps() throws {
        let evaluation = Self.evaluated(
            try Self.snapshot("{\"old\":{\".priority\":1,\"a\":1}}"),
            [.update("old", [("a", .null), ("new/.priority", .int(5)), ("new", .string("n"))])])
        let old = evaluation.root.child(Key("old"))
        #expect(old.priority == .int(1), "it never was without a child")
        #expect(old.child(Key("new")).withoutPriority == .string("n") && old.child(Key("new")).priority == .int(5))
        #expect(old.childCount == 1)
        #expect(evaluation.steps[0].entry.changes.map { "\($0.path)" } == ["/old/new", "/old/a", "/old/new/.priority"])
    }

    @Test func anUpdateOfNothingIsNoWrite() throws {
        let evaluation = Self.evaluated(try Self.snapshot(), [.update("a", []), .set("b", .int(1))])
        #expect(Self.outcomes(evaluation) == ["10 ", "11 /b=1"])
        #expect(evaluation.records.count == 1)
    }

    @Test func removingWhatIsNotThereIsAWrite() throws {
        let evaluation = Self.evaluated(try Self.snapshot("{\"a\":1}"), [.set("none", .null)])
        #expect(Self.outcomes(evaluation) == ["11 /none=null"])
        #expect(evaluation.rows.sink.isEmpty)
    }

    // MARK: Server values

    @Test func serverValuesSeeTheWritesBefore() throws {
        let evaluation = Self.evaluated(
            try Self.snapshot("{\"n\":5}"),
            [
                .increment("n", by: 2), .increment("n", by: 3), .increment("text"), .set("text", .string("t")),
                .increment("text"),
            ])
        #expect(Self.outcomes(evaluation) == ["11 /n=7", "12 /n=10", "13 /text=1", "14 /text=\"t\"", "15 /text=1"])
    }

    @Test func timestampsAreTheBatchs() throws {
        let write = Write(
            .set(Path(splitting: "at"), .serverValue(ServerValue(.timestamp))), operation: .set, hasServerValue: true,
            byteCount: 8, auth: .admin)
        let evaluation = Self.evaluated(try Self.snapshot(), [write, write])
        #expect(Self.outcomes(evaluation) == ["11 /at=\(Self.now)", "12 /at=\(Self.now)"])
    }

    /// The answer to a sum reveals the previous value, and is returned only to callers that may read it.
    @Test func sumsAreReportedToReadersOnly() throws {
        let rules = "{\"open\":{\".read\":true,\".write\":true},\"blind\":{\".write\":true}}"
        let evaluation = Self.evaluated(
            try Self.snapshot("{\"open\":1,\"blind\":1}", rules: rules),
            ["open", "blind"].map { path in
                Write(
                    .set(Path(splitting: path), .serverValue(ServerValue(.increment(.int(1))))), operation: .set,
                    hasServerValue: true, byteCount: 8, auth: .unauthenticated)
            })
        guard case .committed(_, let open) = evaluation.outcomes[0],
            case .committed(_, let blind) = evaluation.outcomes[1]
        else {
            Issue.record("\(evaluation.outcomes)")
            return
        }
        #expect(open.map(\.value) == [.int(2)])
        #expect(blind.first?.value.hasIncrement == true, "as it was asked for")
        #expect(Self.json(evaluation.root) == "{\"blind\":2,\"open\":2}")
    }

    // MARK: Refusals

    @Test func whatFailsFailsAlone() throws {
        let evaluation = Self.evaluated(
            try Self.snapshot("{\"a\":1}"),
            [
                .set("a", .int(2), expecting: "wrong"), .set("none/.priority", .int(1)), .set("a", .int(3)),
                .set("a", .int(4), expecting: Node.int(3).hash), .set("a", .int(5), expecting: Node.int(3).hash),
            ])
        #expect(Self.outcomes(evaluation) == ["stale at 10: 1", "refused", "11 /a=3", "12 /a=4", "stale at 12: 4"])
        #expect(evaluation.records.count == 2)
    }

    @Test(arguments: [
        ("null", "", "committed"), ("null", Node.int(1).hash, "stale"), ("1", "", "stale"),
        ("1", Node.int(1).hash, "committed"), ("2", Node.int(1).hash, "stale"),
        ("{\"b\":1}", "", "stale"),
    ])
    func expectations(value: String, hash: String, result: String) throws {
        let evaluation = Self.evaluated(
            try Self.snapshot("{\"a\":\(value)}"), [.set("a", .int(9), expecting: hash)])
        #expect(Self.outcomes(evaluation)[0].hasPrefix(result == "committed" ? "11" : result))
    }

    @Test(arguments: [(3, true), (4, true), (5, false), (100, false)])
    func rowLimits(limit: Int, isRefused: Bool) throws {
        // Two rows are added and three removed.
        let write = Write(
            .set(Path(splitting: "a"), try JSONParser.parse("{\"x\":1,\"y\":2}")), operation: .set, byteCount: 8,
            rowLimit: limit, auth: .admin)
        let evaluation = Self.evaluated(try Self.snapshot("{\"a\":{\"p\":1,\"q\":2,\"r\":3},\"b\":1}"), [write])
        #expect((Self.outcomes(evaluation) == ["too large"]) == isRefused)
        #expect(evaluation.records.isEmpty == isRefused)
    }

    /// A caller whose write the rules refuse learns nothing of a limit, a hash or a missing parent.
    @Test(arguments: [
        Write(
            .set(Path(splitting: "a"), .int(1)), operation: .set, expectedHash: "wrong", byteCount: 8,
            auth: .unauthenticated),
        Write(.set(Path(splitting: "a"), .int(1)), operation: .set, byteCount: 8, rowLimit: 0, auth: .unauthenticated),
        Write(.set(Path(splitting: "no/.priority"), .int(1)), operation: .set, byteCount: 8, auth: .unauthenticated),
        Write(
            .set(Path(splitting: "a"), .serverValue(ServerValue(.increment(.int(1))))), operation: .set,
            hasServerValue: true, byteCount: 8, auth: .unauthenticated),
        Write(
            .update(
                base: .root,
                [Change(path: Path(splitting: "a"), value: .int(1)), Change(path: Path(splitting: "b"), value: .null)]),
            operation: .update, byteCount: 8, auth: .unauthenticated),
    ])
    func theRulesComeFirst(write: Write) throws {
        let evaluation = Self.evaluated(try Self.snapshot("{\"a\":7}"), [write])
        #expect(Self.outcomes(evaluation) == ["denied"])
    }

    /// One path that may not be written causes the refusal of the whole update.
    @Test func anUpdateIsAllOrNothing() throws {
        let rules = "{\"mine\":{\".write\":true},\"theirs\":{\".write\":false}}"
        let update = Write(
            .update(
                base: .root,
                [
                    Change(path: Path(splitting: "mine"), value: .int(1)),
                    Change(path: Path(splitting: "theirs"), value: .int(1)),
                ]), operation: .update, byteCount: 8, auth: .unauthenticated)
        let evaluation = Self.evaluated(try Self.snapshot(rules: rules), [update])
        #expect(Self.outcomes(evaluation) == ["denied"])
        #expect(evaluation.root.isNull)
    }

    // MARK: Rules

    @Test func newRulesHoldForLaterWrites() throws {
        let open = try RuleSet(json: Array("{\"rules\":{\".write\":true}}".utf8))
        let byAnyParty = Write(
            .set(Path(splitting: "a"), .int(1)), operation: .set, byteCount: 8, auth: .unauthenticated)
        let evaluation = Self.evaluated(
            try Self.snapshot(),
            [byAnyParty, Write(.rules(open), operation: .rules, byteCount: 8, auth: .admin), byAnyParty])
        #expect(Self.outcomes(evaluation) == ["denied", "11 ", "12 /a=1"])
        #expect(evaluation.newRules.map(\.seq) == [11])
        #expect(evaluation.newRules.first?.source == open.source)
        #expect(evaluation.rules.seq == 11)
        #expect(evaluation.snapshot.rules === evaluation.rules)
        #expect(evaluation.records.map(\.operation) == [.rules, .set])
        #expect(evaluation.steps.map(\.entry.operation) == [.rules, .set])
    }

    // MARK: Sessions that ended

    private static let claim = SessionClaim(session: "s", gateway: [7], save: 3)

    private static func disconnect(_ operations: [[(String, Node)]], auth: AuthContext = .admin) -> Write {
        Write(
            .disconnect(
                claim, operations: operations.map { $0.map { Change(path: Path(splitting: $0.0), value: $0.1) } }),
            operation: .disconnect, byteCount: 8, auth: auth)
    }

    @Test func eachOperationIsAnEntryAndAllHaveOneOutcome() throws {
        let evaluation = Self.evaluated(
            try Self.snapshot("{\"online\":true}"),
            [Self.disconnect([[("online", .null)], [("a", .int(1)), ("b", .int(2))]])])
        #expect(Self.outcomes(evaluation) == ["12 "])
        #expect(evaluation.claims == [Self.claim])
        #expect(evaluation.records.map(\.operation) == [.disconnect, .disconnect])
        #expect(Self.json(evaluation.root) == "{\"a\":1,\"b\":2}")
    }

    @Test func aDeniedOperationIsLeftOut() throws {
        let rules = "{\"mine\":{\".write\":true}}"
        let evaluation = Self.evaluated(
            try Self.snapshot(rules: rules),
            [Self.disconnect([[("theirs", .int(1))], [("mine", .int(2))]], auth: .unauthenticated)])
        #expect(Self.outcomes(evaluation) == ["11 "])
        #expect(Self.json(evaluation.root) == "{\"mine\":2}")
        #expect(evaluation.claims == [Self.claim])
    }

    @Test func allDeniedLeavesTheClaimOnly() throws {
        let evaluation = Self.evaluated(
            try Self.snapshot(), [Self.disconnect([[("a", .int(1))]], auth: .unauthenticated)])
        #expect(Self.outcomes(evaluation) == ["10 "])
        #expect(evaluation.records.isEmpty)
        #expect(evaluation.claims == [Self.claim])
    }

    // MARK: Properties

    /// The rows of a batch are the difference of the trees before and after it, each with the seq of its last change.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func rowsAreTheDifference(seed: UInt64) throws {
        var random = TreeGenerator(seed: seed)
        for _ in 0..<60 {
            let root = random.tree(depth: 3)
            let snapshot = Snapshot(seq: 10, root: root, rules: RulesVersion(seq: 0, set: .denyAll))
            let evaluation = Self.evaluated(snapshot, (0..<(1 + random.random.below(6))).map { _ in random.write() })
            var expected = CollectedRows()
            var diff = RowDiff(expected)
            diff.compare(root, evaluation.root, changedAt: .root)
            expected = diff.sink
            let rows = evaluation.rows.sink.rows
            for (path, row) in expected.rows {
                #expect(rows[path]?.value == row.new, "\(String(decoding: path, as: UTF8.self))")
            }
            // The other rows were changed and changed back: they equal the stored rows.
            for (path, row) in rows where expected.rows[path] == nil {
                #expect(row.value == CollectedRows.of(root)[path] ?? .null)
            }
            #expect(rows.values.allSatisfy { (11...max(11, evaluation.head)).contains($0.version) })
        }
    }

    /// A batch has the same result as its writes one by one, each on the tree that the one before has left.
    @Test(arguments: 1...8 as ClosedRange<UInt64>) func oneByOne(seed: UInt64) throws {
        var random = TreeGenerator(seed: seed)
        for _ in 0..<40 {
            let root = random.tree(depth: 3)
            let rules = RulesVersion(seq: 0, set: .denyAll)
            let writes = (0..<8).map { _ in random.write() }
            let together = Self.evaluated(Snapshot(seq: 0, root: root, rules: rules), writes)
            var state = Snapshot(seq: 0, root: root, rules: rules)
            var outcomes: [String] = []
            for write in writes {
                let alone = Self.evaluated(state, [write])
                outcomes += Self.outcomes(alone)
                state = alone.snapshot
            }
            #expect(Self.outcomes(together) == outcomes)
            #expect(together.root == state.root && together.head == state.seq)
        }
    }

    /// A second evaluation at the same instant gives the same result, so listeners are notified of the committed
    /// changes.
    @Test(arguments: 1...4 as ClosedRange<UInt64>) func again(seed: UInt64) throws {
        var random = TreeGenerator(seed: seed)
        let snapshot = Snapshot(seq: 0, root: random.tree(depth: 3), rules: RulesVersion(seq: 0, set: .denyAll))
        let writes = (0..<50).map { _ in random.write() }
        let first = Self.evaluated(snapshot, keepsSteps: false, writes)
        let second = Self.evaluated(snapshot, writes)
        #expect(first.records.map(\.changes) == second.records.map(\.changes))
        #expect(second.steps.map(\.entry.seq) == second.steps.indices.map { Int64($0) + 1 })
        #expect(second.steps.last?.after == first.root || second.steps.isEmpty)
    }
}
