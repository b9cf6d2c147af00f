import Engine
import Rules
import TestSupport
import Testing
import Tree

/// Checks that a trial of a write has the same result as its commit.
@Suite struct WriteTrialTests {
    private static let rules = """
        {"rules": {".read": "auth != null", "$a": {
            ".write": "newData.exists() || auth != null", "$b": {".validate": "!newData.hasChild('x')"}
        }}}
        """

    @Test(arguments: 1...3 as ClosedRange<UInt64>) func asTheCommit(seed: UInt64) throws {
        let rules = RulesVersion(seq: 0, set: try RuleSet(json: Array(Self.rules.utf8)))
        let user = AuthContext(auth: try JSONParser.parse("{\"uid\":\"u\"}"))
        try withEngines(1) { settings, _ in
            settings.defaultRules = rules
        } _: { _, engines in
            let namespace = try engines[0].namespace()
            var random = TreeGenerator(seed: seed)
            var (refused, done) = (0, 0)
            for _ in 0..<150 {
                let plain = random.write()
                let hash = random.random.oneIn(4) ? (random.random.oneIn(2) ? "" : "wrong") : nil
                let write = Write(
                    plain.action, operation: plain.operation, expectedHash: hash,
                    hasServerValue: plain.hasServerValue, byteCount: plain.byteCount,
                    auth: random.random.oneIn(2) ? user : .unauthenticated)
                let trial = WriteTrial.refusal(of: write, on: namespace.snapshot, now: 1_000)
                let outcome = try #require(namespace.write(write))
                if case .committed = outcome {
                    #expect(trial == nil)
                    done += 1
                } else {
                    #expect(Self.kind(trial) == Self.kind(outcome))
                    refused += 1
                }
            }
            #expect(refused > 20 && done > 20, "\(refused), \(done)")
        }
    }

    private static func kind(_ outcome: WriteOutcome?) -> String {
        switch outcome {
        case nil: "none"
        case .committed: "committed"
        case .preconditionFailed(_, let current): "stale \(current.map { "\($0.hash)" } ?? "unknown")"
        case .denied: "denied"
        case .tooLarge: "too large"
        case .refused: "refused"
        case .failed: "failed"
        }
    }
}
