import Engine
import LogStore
import Postgres
import Rules
import Runtime
import TestSupport
import Testing
import Tree

/// Checks a namespace that follows an upstream: its follower writes each message once and in order, and every other client
/// only reads.
@Suite struct FollowedNamespaceTests {
    private static let fence: [UInt8] = (1...16).map { $0 }
    /// The name of the statement with which a follower's batch begins.
    private static let passSign = Array("follow_batch#".utf8)

    /// Runs `body` with an engine that has loaded the namespace before it began to follow.
    private func withFollowed(
        keepRules: Bool = false, _ change: (inout EngineSettings, inout LogConnection.Settings) -> Void = { _, _ in },
        _ body: (PostgresURL, TestEngine, LiveNamespace, LogConnection) throws -> Void
    ) throws {
        try withEngines(1, change) { url, engines in
            let namespace = try engines[0].namespace()
            #expect(namespace.write(.set("before", .int(1)))?.committedSeq == 1)
            let connection = try LogConnection(url)
            defer { connection.close() }
            #expect(try connection.startFollowing("test", keepRules: keepRules) == namespace.id)
            #expect(try connection.claimsFollow(namespace.id, observed: nil, fence: Self.fence, gateway: "a"))
            try body(url, engines[0], namespace, connection)
        }
    }

    private static func message(_ number: Int64, _ fence: [UInt8] = fence, _ value: Node? = nil) -> Write {
        Write(
            .set(Path(splitting: "m/\(number)"), value ?? .int(number)), operation: .upstream, byteCount: 32,
            auth: .admin, upstream: UpstreamMark(fence: fence, number: number))
    }

    @Test func clientsOnlyRead() throws {
        try withFollowed { url, _, namespace, connection in
            #expect(!namespace.isFollowing)
            #expect(namespace.write(.set("x", .int(1)))?.failure == .readOnly)
            #expect(namespace.isFollowing)
            #expect(namespace.write(.update("", [("x", .int(1)), ("y", .int(2))]))?.failure == .readOnly)
            #expect(namespace.write(.set("before", .null))?.failure == .readOnly)
            #expect(namespace.write(.set("x", .int(1), expecting: "wrong"))?.failure == .readOnly)
            #expect(namespace.write(.increment("n"))?.failure == .readOnly)
            let current = Condition<Int64?>(nil)
            namespace.withCurrentSnapshot { result in current.broadcast { $0 = (try? result.get())?.seq } }
            #expect(current.wait(milliseconds: 30_000) { $0 } == 1)
            #expect(namespace.write(Self.message(1))?.committedSeq == 2)
            try StoredState(url).check(equals: [namespace])
            #expect(try verify(url).isClean)
        }
    }

    /// Clients' writes that wait together with messages, while the engine does not know yet that the namespace follows.
    @Test func messagesCarryNoOtherWrites() throws {
        try withFollowed { url, _, namespace, _ in
            let holder = try PostgresConnection(url.withApplicationName("psql"))
            defer { holder.close() }
            try holder.executeScript("begin; select 1 from pathmirror.namespace where name = 'test' for update")
            let sink = CollectingSink()
            namespace.submit(Self.message(1), to: sink, token: 0)
            #expect(try oneWaitsForALock(url))
            for token in 1..<20 as Range<UInt64> {
                let isMessage = token % 2 == 0
                let write = isMessage ? Self.message(Int64(token / 2) + 1) : .set("client/\(token)", .int(1))
                namespace.submit(write, to: sink, token: token)
            }
            try holder.executeScript("rollback")
            let outcomes = try #require(sink.all(20))
            for (token, outcome) in outcomes {
                #expect(token % 2 == 0 ? outcome.committedSeq != nil : outcome.failure == .readOnly, "\(token)")
            }
            let stored = try StoredState(url)
            #expect(stored.root[Path(splitting: "client")].isNull)
            stored.check(equals: [namespace])
        }
    }

    @Test func theStateIsKnownAtLoadAndFromThePeriodicCheck() throws {
        try withFollowed {
            settings, _ in
            settings.pollMilliseconds = 20
        } _: { url, _, namespace, connection in
            #expect(eventually { namespace.isFollowing })
            let other = try TestEngine(url)
            defer { other.stop() }
            #expect(try other.namespace().isFollowing)
            #expect(try connection.removeFollow(namespace.id))
            #expect(eventually { !namespace.isFollowing })
            #expect(namespace.write(.set("x", .int(1)))?.committedSeq == 2)
        }
    }

    @Test func messagesAreCommittedInOrderInFewBatches() throws {
        try withFollowed { url, engine, namespace, connection in
            let sink = CollectingSink()
            for number in 1...1_000 as ClosedRange<Int64> {
                namespace.submit(Self.message(number), to: sink, token: UInt64(number))
            }
            let outcomes = try #require(sink.all(1_000))
            #expect((1...1_000).allSatisfy { outcomes[$0]?.committedSeq == Int64($0) + 1 })
            #expect(engine.metrics.batches.current < 500)
            #expect(try connection.followedPosition(namespace.id, fence: Self.fence) == 1_000)
            let entries = try connection.read(namespace.id, after: 1, limit: 2_000).map(\.entry)
            #expect(entries.allSatisfy { $0.operation == .upstream })
            #expect(entries.map { "\($0.path)" } == (1...1_000).map { "/m/\($0)" })
            try StoredState(url).check(equals: [namespace])
        }
    }

    /// Rules of an administrator, in another session, come between the messages.
    @Test func messagesGoOnAfterEntriesOfOthers() throws {
        try withFollowed(keepRules: true) { url, _, namespace, connection in
            for number in 1...5 as ClosedRange<Int64> {
                #expect(namespace.write(Self.message(number))?.committedSeq == number * 2)
                let seq = try connection.setRules(
                    namespace.id, source: Array("{\"rules\":{}}".utf8), origin: Origin(json: Array("{}".utf8)))
                #expect(seq == number * 2 + 1)
            }
            #expect(try connection.followedPosition(namespace.id, fence: Self.fence) == 5)
            #expect(namespace.waitFor(11))
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func anotherFollowerReplacesThisOne() throws {
        try withFollowed { url, _, namespace, connection in
            #expect(namespace.write(Self.message(1))?.committedSeq == 2)
            let new = Batch.makeID()
            #expect(try connection.claimsFollow(namespace.id, observed: Self.fence, fence: new, gateway: "b"))
            #expect(namespace.write(Self.message(2))?.failure == .superseded)
            // Both wait for the same committer.
            let sink = CollectingSink()
            for number in 1...200 as ClosedRange<Int64> {
                namespace.submit(Self.message(number + 1), to: sink, token: UInt64(number * 2))
                namespace.submit(Self.message(number, new), to: sink, token: UInt64(number * 2 + 1))
            }
            let outcomes = try #require(sink.all(400))
            #expect((1...200).allSatisfy { outcomes[$0 * 2]?.failure == .superseded })
            #expect((1...200).allSatisfy { outcomes[$0 * 2 + 1]?.committedSeq == Int64($0) + 2 })
            #expect(try connection.followedPosition(namespace.id, fence: new) == 200)
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test func noMessageIsCommittedTwiceOrAfterAGap() throws {
        try withFollowed { url, _, namespace, connection in
            #expect(namespace.write(Self.message(1))?.committedSeq == 2)
            #expect(namespace.write(Self.message(1))?.failure == .superseded)
            #expect(namespace.write(Self.message(3))?.failure == .superseded)
            #expect(namespace.write(Self.message(2))?.committedSeq == 3)
            // A namespace that does not follow has no messages.
            #expect(try connection.removeFollow(namespace.id))
            #expect(namespace.write(Self.message(3))?.failure == .superseded)
            try StoredState(url).check(equals: [namespace])
        }
    }

    @Test(arguments: [true, false]) func rules(keepRules: Bool) throws {
        try withFollowed(keepRules: keepRules) { url, _, namespace, connection in
            let rules = try RuleSet(json: Array("{\"rules\":{\".read\":true}}".utf8))
            let write = Write(.rules(rules), operation: .rules, byteCount: 32, auth: .admin)
            for _ in 1...2 {
                let outcome = namespace.write(write)
                if keepRules {
                    #expect(outcome?.committedSeq != nil)
                } else {
                    #expect(outcome?.failure == .readOnly)
                }
            }
            let upstreams = Write(
                .rules(rules), operation: .rules, byteCount: 32, auth: .admin,
                upstream: UpstreamMark(fence: Self.fence, number: 1))
            #expect(namespace.write(upstreams)?.committedSeq == (keepRules ? 4 : 2))
            #expect(try connection.rulesHistory(namespace.id).count == (keepRules ? 3 : 1))
        }
    }

    @Test func largeWrites() throws {
        try withFollowed {
            settings, _ in
            settings.largeWriteRows = 100
        } _: { url, engine, namespace, connection in
            let wide = Node(children: (0..<500).map { (Key("k\($0)"), Node.int(Int64($0))) })
            // The engine does not know yet that the namespace follows.
            #expect(namespace.write(Write.set("big", wide).overtakable)?.failure == .readOnly)
            #expect(namespace.write(Self.message(1, Self.fence, wide).overtakable)?.committedSeq == 2)
            #expect(engine.metrics.largeWrites.current == 2)
            #expect(namespace.write(Write.set("big", wide).overtakable)?.failure == .readOnly)
            #expect(engine.metrics.largeWrites.current == 2)
            #expect(namespace.write(Self.message(1, Self.fence, wide).overtakable)?.failure == .superseded)
            #expect(namespace.write(Self.message(2, Batch.makeID(), wide).overtakable)?.failure == .superseded)
            #expect(namespace.write(Self.message(2, Self.fence, wide).overtakable)?.committedSeq == 3)
            #expect(try connection.followedPosition(namespace.id, fence: Self.fence) == 2)
            let entries = try connection.read(namespace.id, after: 1, limit: 2_000).map(\.entry)
            #expect(entries.map(\.operation) == [.upstream, .upstream])
            try StoredState(url).check(equals: [namespace])
            #expect(try verify(url).isClean)
        }
    }

    /// The operations of a session that ends are not executed, and its row is removed.
    @Test func operationsOfEndedSessionsAreDropped() throws {
        try withEngines(1) { settings, _ in
            settings.heartbeatMilliseconds = 20
            settings.leaseExpiryMilliseconds = 60_000
        } _: { url, engines in
            let engine = engines[0]
            let namespace = try engine.namespace()
            let operations = DisconnectOperations(
                id: "s", namespace: namespace, lease: engine.engine.leases.current,
                operations: [[Change(path: Path(splitting: "online"), value: .null)]], auth: .admin, origin: nil)
            let saved = Condition<SaveOutcome?>(nil)
            engine.engine.disconnects.save(operations, number: 1, isFirst: true) { outcome in
                saved.broadcast { $0 = outcome }
            }
            #expect(saved.wait(milliseconds: 30_000) { $0 } == .saved)
            let connection = try LogConnection(url)
            defer { connection.close() }
            _ = try connection.startFollowing("test")
            let done = Condition<Bool?>(nil)
            engine.engine.disconnects.execute(operations) { done.broadcast { $0 = true } }
            #expect(done.wait(milliseconds: 30_000) { $0 } == true)
            #expect(try connection.session(namespace.id, "s") == nil)
            #expect(try StoredState(url).head == 0)
        }
    }

    /// A message whose connection is lost is committed once, and its outcome is found.
    @Test func lostConnections() throws {
        try withDatabase { url in
            let proxy = try CuttingProxy(url)
            defer { proxy.stop() }
            let engine = try TestEngine(proxy.url) { settings, _ in settings.commitDeadlineMilliseconds = 20_000 }
            defer { engine.stop() }
            let namespace = try engine.namespace()
            let connection = try LogConnection(url)
            defer { connection.close() }
            _ = try connection.startFollowing("test")
            #expect(try connection.claimsFollow(namespace.id, observed: nil, fence: Self.fence, gateway: "a"))
            let cuts: [CuttingProxy.Cut] = [
                .beforeBatchArrives, .beforeCommitAnswer, .insideBatch(bytes: 100), .beforeCommitAnswer,
            ]
            for number in 1...20 as ClosedRange<Int64> {
                if number > 1 { proxy.cutNext(cuts[Int(number) % cuts.count], at: Self.passSign) }
                #expect(namespace.write(Self.message(number))?.committedSeq == number, "message \(number)")
            }
            #expect(proxy.cutCount == 19)
            #expect(try connection.followedPosition(namespace.id, fence: Self.fence) == 20)
            try StoredState(url).check(equals: [namespace])
        }
    }

    /// Other namespaces share their transactions without this one.
    @Test func sharedTransactionsLeaveItOut() throws {
        try withHeldEngine { held, _, namespaces in
            let connection = try LogConnection(held.url)
            defer { connection.close() }
            let id = try connection.startFollowing("n3")
            #expect(try connection.claimsFollow(id, observed: nil, fence: Self.fence, gateway: "a"))
            try held.hold()
            let sinks = namespaces.map { _ in CollectingSink() }
            for (namespace, sink) in zip(namespaces, sinks) {
                let isFollowed = namespace.name == "n3"
                for token in 1...3 as ClosedRange<UInt64> {
                    namespace.submit(isFollowed ? Self.message(Int64(token)) : .increment("n"), to: sink, token: token)
                }
            }
            try held.evict()
            for sink in sinks {
                #expect(sink.all(3)?.sorted { $0.key < $1.key }.map(\.value.committedSeq) == [2, 3, 4])
            }
            #expect(held.engine.metrics.sharedTransactions.current >= 1)
            #expect(held.engine.metrics.sharedTransactionNamespaces.current >= 6)
            #expect(held.engine.metrics.sharedTransactionRetries.current == 0)
            #expect(try connection.followedPosition(id, fence: Self.fence) == 3)
            try checkCounts(held.url, namespaces.filter { $0.name != "n3" }, counts: 4)
        }
    }
}
