import LogStore
import Rules
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks the properties of a write.
@Suite struct WriteTests {
    private static let claim = SessionClaim(session: "s", gateway: [1], save: 1)

    private static func rules() throws -> Write {
        Write(.rules(try RuleSet(json: Array("{\"rules\":{}}".utf8))), operation: .rules, byteCount: 12, auth: .admin)
    }

    private static let ended = Write(
        .disconnect(claim, operations: [[Change(path: Path(splitting: "a"), value: .int(1))]]), operation: .disconnect,
        byteCount: 10, auth: .admin)

    @Test func thePathThatItNames() throws {
        #expect(Write.set("a/b", .int(1)).path == Path(splitting: "a/b"))
        #expect(Write.update("a", [("x", .int(1))]).path == Path(splitting: "a"))
        #expect(try Self.rules().path == .root && Self.ended.path == .root)
    }

    @Test(arguments: [
        (Write.set("a", .null), 1), (.set("a", .int(1)), 2), (.update("", []), 0), (.update("", [("a", .null)]), 1),
        (.update("", [("a", .int(1)), ("b", Node(children: [(Key("x"), .int(1)), (Key("y"), .int(2))]))]), 5),
        (ended, 0),
    ])
    func rowsThatItBrings(write: Write, rows: Int) { #expect(write.rowCount == rows) }

    @Test func onlyAnEndedSessionGoesAlone() throws {
        #expect(Self.ended.goesAlone)
        #expect(!Write.set("a", .int(1)).goesAlone && !Write.update("", []).goesAlone)
        #expect(try !Self.rules().goesAlone)
    }

    /// The bytes of a write, the rows that it brings and the rows that it replaces can make it large.
    @Test(arguments: [
        (100, 0, 0, false), (101, 0, 0, true), (0, 10, 0, false), (0, 11, 0, true), (0, 5, 5, false), (0, 5, 6, true),
    ])
    func whatIsLarge(bytes: Int, brings: Int, replaces: Int, isLarge: Bool) {
        var settings = EngineSettings()
        settings.largeWriteBytes = 100
        settings.largeWriteRows = 10
        func rows(_ count: Int) -> Node { Node(children: (0..<count).map { (Key("k\($0)"), .int(1)) }) }
        let write = Write(.set(Path(splitting: "a"), rows(brings)), operation: .set, byteCount: bytes, auth: .admin)
        let root = Node.null.replacing(Path(splitting: "a"), with: rows(replaces)).replacing(
            Path(splitting: "b"), with: rows(99))
        #expect(write.isLarge(settings, root) == isLarge)
    }

    /// Data outside the paths of an update does not count as replaced.
    @Test(arguments: [(5, 4, false), (5, 6, true), (4, 6, false), (11, 0, true)])
    func whatOfAnUpdateIsLarge(brings: Int, replaces: Int, isLarge: Bool) {
        var settings = EngineSettings()
        settings.largeWriteRows = 10
        func rows(_ count: Int) -> Node { Node(children: (0..<count).map { (Key("k\($0)"), .int(1)) }) }
        let root = Node.null.replacing(Path(splitting: "base/a"), with: rows(replaces)).replacing(
            Path(splitting: "base/b"), with: rows(99))
        #expect(Write.update("base", [("a", rows(brings))]).isLarge(settings, root) == isLarge)
        #expect(!Write.update("other", [("a", rows(2))]).isLarge(settings, root))
        #expect(!Write.set("base/a/.priority", .int(1)).isLarge(settings, root))
    }

    // MARK: Trials

    private static func kind(_ outcome: WriteOutcome?) -> String {
        switch outcome {
        case nil: "none"
        case .committed: "committed"
        case .preconditionFailed(_, let current): "stale \(current.map(\.hash) ?? "unknown")"
        case .denied: "denied"
        case .tooLarge: "too large"
        case .refused: "refused"
        case .failed: "failed"
        }
    }

    /// A trial refuses exactly the writes that the evaluation refuses.
    @Test(arguments: 1...6 as ClosedRange<UInt64>) func aTrialIsAnEvaluation(seed: UInt64) throws {
        let text = "{\"rules\":{\".read\":\"auth != null\",\"$a\":{\".write\":\"newData.exists() || auth != null\"}}}"
        let rules = RulesVersion(seq: 0, set: try RuleSet(json: Array(text.utf8)))
        let user = AuthContext(auth: try JSONParser.parse("{\"uid\":\"u\"}"))
        var random = TreeGenerator(seed: seed)
        var seen: Set<String> = []
        for _ in 0..<300 {
            let snapshot = Snapshot(seq: 4, root: random.tree(depth: 3), rules: rules)
            let plain = random.write()
            let write = Write(
                plain.action, operation: plain.operation,
                expectedHash: random.random.oneIn(4) ? (random.random.oneIn(2) ? "" : "wrong") : nil,
                hasServerValue: plain.hasServerValue, byteCount: 1,
                rowLimit: random.random.oneIn(5) ? random.random.below(6) : nil,
                auth: random.random.oneIn(2) ? user : .unauthenticated)
            var evaluation = Evaluation(snapshot, timestamp: 1_000)
            evaluation.apply(write)
            let outcome = Self.kind(evaluation.outcomes.first)
            let trial = Self.kind(WriteTrial.refusal(of: write, on: snapshot, now: 1_000))
            #expect(trial == (outcome == "committed" ? "none" : outcome))
            seen.insert(String(outcome.prefix(5)))
        }
        #expect(seen.isSuperset(of: ["commi", "denie", "stale", "too l"]), "\(seen)")
    }

    @Test func rulesAndEndedSessionsAreNotTried() throws {
        let snapshot = Snapshot(seq: 0, root: .null, rules: RulesVersion(seq: 0, set: .denyAll))
        #expect(WriteTrial.refusal(of: try Self.rules(), on: snapshot, now: 0) == nil)
        #expect(WriteTrial.refusal(of: Self.ended, on: snapshot, now: 0) == nil)
    }

    // MARK: Snapshots

    @Test func snapshotsOfOtherBatchesAreDistinguished() {
        let rules = RulesVersion(seq: 0, set: .denyAll)
        let known = Snapshot(seq: 1, root: .null, rules: rules, batch: [1])
        #expect(known.isOf([1]) && !known.isOf([2]) && known.isOf(nil))
        #expect(Snapshot(seq: 1, root: .null, rules: rules).isOf([2]), "what isn't known contradicts nothing")
    }

    @Test(arguments: [
        EngineError.unknownNamespace("n"), .unavailable("r"), .outcomeUnknown, .overloaded, .stopping, .corrupt("w"),
    ])
    func errorsAreSentences(error: EngineError) {
        #expect("\(error)".hasSuffix(".") || "\(error)".contains(": "))
        #expect(!"\(error)".contains("EngineError"))
    }
}
