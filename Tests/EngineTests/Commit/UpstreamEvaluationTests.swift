import Rules
import TestSupport
import Testing
import Tree

@testable import Engine
@testable import LogStore

/// Checks how writes to a namespace that follows an upstream are evaluated.
@Suite struct UpstreamEvaluationTests {
    private static let fence: [UInt8] = [1]
    private static let open = "{\".read\": true, \".write\": \"auth == null\"}"

    private static func evaluated(
        _ following: Following, superseded: Set<[UInt8]> = [], rules: String = open, _ writes: [Write]
    ) throws -> Evaluation {
        let snapshot = Snapshot(
            seq: 10, root: try JSONParser.parse("{\"a\":1}"),
            rules: RulesVersion(seq: 0, set: try RuleSet(json: Array("{\"rules\":\(rules)}".utf8))), batch: [1])
        var evaluation = Evaluation(
            snapshot, timestamp: 1_700_000_000_000,
            messages: UpstreamMessages(following: following, superseded: superseded))
        for write in writes { evaluation.apply(write) }
        return evaluation
    }

    private static func message(_ number: Int64, _ path: String = "m", _ fence: [UInt8] = fence) -> Write {
        Write(
            .set(Path(splitting: path), .int(number)), operation: .upstream, byteCount: 8, auth: .admin,
            upstream: UpstreamMark(fence: fence, number: number))
    }

    private static func client(_ path: String, expecting hash: String? = nil) -> Write {
        Write(
            .set(Path(splitting: path), .int(2)), operation: .set, expectedHash: hash, byteCount: 8,
            auth: AuthContext(auth: .null))
    }

    private static func told(_ evaluation: Evaluation) -> [String] {
        evaluation.outcomes.map { outcome in
            switch outcome {
            case .committed(let seq, _): "\(seq)"
            case .denied: "denied"
            case .failed(.readOnly): "read-only"
            case .failed(.superseded): "superseded"
            case .refused: "refused"
            default: "\(outcome)"
            }
        }
    }

    @Test func clientsAreRefusedAndMessagesAreNot() throws {
        let evaluation = try Self.evaluated(
            .upstream,
            [Self.client("x"), Self.message(4), .set("y", .int(1)), Self.message(5), Self.client("a", expecting: "no")])
        #expect(Self.told(evaluation) == ["read-only", "11", "read-only", "12", "read-only"])
        #expect(evaluation.records.map(\.operation) == [.upstream, .upstream])
        #expect(evaluation.follow == FollowPass(.init(fence: Self.fence, after: 3, upto: 5)))
        #expect(try evaluation.root == JSONParser.parse("{\"a\":1,\"m\":5}"))
    }

    /// A client without permission learns nothing about the namespace.
    @Test func permissionComesFirst() throws {
        let user = Write(
            .set(Path(splitting: "x"), .int(2)), operation: .set, byteCount: 8,
            auth: AuthContext(auth: try JSONParser.parse("{\"uid\":\"u\"}")))
        #expect(try Self.told(Self.evaluated(.upstream, [user, Self.client("x")])) == ["denied", "read-only"])
        #expect(try Self.told(Self.evaluated(.nothing, [user, Self.client("x")])) == ["denied", "11"])
    }

    /// The check for the newest state is an update of nothing.
    @Test func anUpdateOfNothingIsNoWrite() throws {
        let empty = Write(.update(base: .root, []), operation: .update, byteCount: 0, auth: .admin)
        let evaluation = try Self.evaluated(.upstream, [empty])
        #expect(Self.told(evaluation) == ["10"] && evaluation.records.isEmpty && evaluation.follow == nil)
    }

    /// A message of the upstream is an entry even if it changes nothing, because the next one has to follow it.
    @Test func everyMessageIsAnEntry() throws {
        let empty = Write(
            .update(base: .root, []), operation: .upstream, byteCount: 0, auth: .admin,
            upstream: UpstreamMark(fence: Self.fence, number: 1))
        let evaluation = try Self.evaluated(.upstream, [empty, Self.message(2)])
        #expect(Self.told(evaluation) == ["11", "12"] && evaluation.records.count == 2)
        #expect(evaluation.follow == FollowPass(.init(fence: Self.fence, after: 0, upto: 2)))
    }

    @Test func messagesHaveNoGaps() throws {
        let evaluation = try Self.evaluated(
            .upstream, [Self.message(1), Self.message(3), Self.message(2), Self.message(2), Self.message(3, "m", [2])])
        #expect(Self.told(evaluation) == ["11", "superseded", "12", "superseded", "superseded"])
        #expect(evaluation.follow == FollowPass(.init(fence: Self.fence, after: 0, upto: 2)))
    }

    /// After a refused message, none of the same fence is committed.
    @Test func nothingFollowsARefusedMessage() throws {
        let evaluation = try Self.evaluated(
            .upstream, [Self.message(1), Self.message(2, "none/.priority"), Self.message(3), Self.message(2)])
        #expect(Self.told(evaluation) == ["11", "refused", "superseded", "superseded"])
        #expect(evaluation.follow == FollowPass(.init(fence: Self.fence, after: 0, upto: 1)))
    }

    @Test func mixedBatchesAreNoticed() throws {
        #expect(try Self.evaluated(.nothing, [Self.client("x"), Self.message(1)]).isMixed)
        #expect(try Self.evaluated(.nothing, [Self.message(1), Self.message(2), Self.client("x")]).isMixed)
        for following in [Following.nothing, .upstream] {
            #expect(try !Self.evaluated(following, [Self.message(1), Self.message(2)]).isMixed)
            #expect(try !Self.evaluated(following, [Self.client("x")]).isMixed)
        }
        #expect(try !Self.evaluated(.upstream, [Self.client("x"), Self.message(1)]).isMixed)
    }

    @Test func messagesOfAReplacedFenceFail() throws {
        let evaluation = try Self.evaluated(
            .upstream, superseded: [Self.fence], [Self.message(1), Self.message(1, "m", [2])])
        #expect(Self.told(evaluation) == ["superseded", "11"])
        #expect(evaluation.follow == FollowPass(.init(fence: [2], after: 0, upto: 1)))
    }

    @Test(arguments: [Following.nothing, .upstream, .upstreamWithOwnRules])
    func administratorsSetRulesUnlessTheyAreTheUpstreams(following: Following) throws {
        let rules = try RuleSet(json: Array("{\"rules\":{}}".utf8))
        let own = Write(.rules(rules), operation: .rules, byteCount: 8, auth: .admin)
        let upstreams = Write(
            .rules(rules), operation: .rules, byteCount: 8, auth: .admin,
            upstream: UpstreamMark(fence: Self.fence, number: 1))
        let evaluation = try Self.evaluated(following, [own, upstreams])
        #expect(Self.told(evaluation) == (following == .upstream ? ["read-only", "11"] : ["11", "12"]))
        #expect(
            evaluation.follow
                == FollowPass(
                    .init(fence: Self.fence, after: 0, upto: 1), hasOwnRules: following == .upstreamWithOwnRules))
    }

    /// The operations are refused, and the session's row is removed like that of a session without operations.
    @Test func operationsOfEndedSessionsAreRefused() throws {
        let claim = SessionClaim(session: "s", gateway: [1], save: nil)
        let write = Write(
            .disconnect(claim, operations: [[Change(path: Path(splitting: "a"), value: .null)]]),
            operation: .disconnect, byteCount: 8, auth: .admin)
        let evaluation = try Self.evaluated(.upstream, [write])
        #expect(Self.told(evaluation) == ["10"] && evaluation.records.isEmpty && evaluation.claims == [claim])
    }

    /// A named write that may have been executed before the namespace began to follow is looked up.
    @Test func namedWritesAreLookedUp() throws {
        let name = try #require(WriteName(writer: "writer-1", number: 1))
        let write = Write(
            .set(Path(splitting: "x"), .int(2)), operation: .set, byteCount: 8, auth: .admin, name: name)
        #expect(try Self.evaluated(.upstream, [write]).refusedNames == [name])
    }
}
