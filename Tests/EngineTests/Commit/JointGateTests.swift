import LogStore
import Rules
import Runtime
import TestSupport
import Testing
import Tree

@testable import Engine

/// How many transactions of several namespaces are under way at once.
@Suite struct JointGateTests {
    /// Longer than any test takes.
    private static let forEver: Milliseconds = 600_000

    /// Comes in on a thread of its own, and says when it has.
    private final class Visitor {
        private let isInside = MutexBox(false)
        private let thread: Thread

        init(_ gate: JointGate, _ number: Int) {
            let isInside = isInside
            thread = Thread(name: "visitor") {
                gate.enter(number)
                isInside.withLock { $0 = true }
            }
        }

        var hasEntered: Bool { isInside.withLock { $0 } }

        func waitUntilInside() -> Bool {
            let isThere = eventually { hasEntered }
            if isThere { thread.join() }
            return isThere
        }
    }

    @Test func soManyComeInAtOnce() {
        let gate = JointGate(most: 2, patienceMilliseconds: Self.forEver)
        gate.enter(0)
        gate.enter(1)
        gate.leave(0)
        gate.enter(0)
        gate.leave(0)
        gate.leave(1)
        gate.enter(2)
        gate.enter(3)
    }

    /// Who has just left does not overtake those who wait.
    @Test func whoWaitsLongestIsNext() {
        let gate = JointGate(most: 1, patienceMilliseconds: Self.forEver)
        gate.enter(0)
        var visitors: [Visitor] = []
        for number in 1...3 {
            visitors.append(Visitor(gate, number))
            #expect(eventually { gate.waitingCount == number })
        }
        gate.leave(0)
        visitors.append(Visitor(gate, 0))
        for (index, visitor) in visitors.enumerated() {
            #expect(visitor.waitUntilInside())
            #expect(visitors.filter(\.hasEntered).count == index + 1)
            gate.leave((index + 1) % visitors.count)
        }
        #expect(gate.waitingCount == 0)
    }

    @Test func whoIsNotInsideCanLeave() {
        let gate = JointGate(most: 1, patienceMilliseconds: Self.forEver)
        gate.leave(0)
        gate.enter(0)
        gate.leave(1)
        let next = Visitor(gate, 1)
        #expect(eventually { gate.waitingCount == 1 })
        gate.leave(0)
        #expect(next.waitUntilInside())
    }

    /// One that is held up for ever keeps the others for as long as the patience lasts, and then nobody any more.
    @Test func whoTakesLongIsNotCounted() {
        let gate = JointGate(most: 1, patienceMilliseconds: 20)
        gate.enter(0)
        let second = Visitor(gate, 1)
        #expect(second.waitUntilInside())
        let third = Visitor(gate, 2)
        #expect(third.waitUntilInside())
    }

    @Test func withoutPatienceNobodyWaits() {
        let gate = JointGate(most: 1, patienceMilliseconds: 0)
        for number in 0..<4 { gate.enter(number) }
    }

    /// Many come and go, and never are more inside than may be.
    @Test func neverMoreThanMayBe() {
        let gate = JointGate(most: 2, patienceMilliseconds: Self.forEver)
        let inside = MutexBox((now: 0, most: 0))
        let threads = (0..<6).map { number in
            Thread(name: "visitor") {
                for _ in 0..<2_000 {
                    gate.enter(number)
                    inside.withLock {
                        $0.now += 1
                        $0.most = max($0.most, $0.now)
                    }
                    inside.withLock { $0.now -= 1 }
                    gate.leave(number)
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(inside.withLock { $0.now } == 0)
        #expect((1...2).contains(inside.withLock { $0.most }))
    }

    // MARK: In the engine

    /// Somebody is inside for ever; a committer that has work for several namespaces waits, and then does all of it at once.
    @Test func whatComesMeanwhileGoesTogether() throws {
        try withHeldEngine(Self.oneForEver) { held, _, namespaces in
            let gate = held.engine.engine.core.jointGate
            gate.enter(99)
            try held.hold()
            var sinks = submit(.increment("n"), to: Array(namespaces.prefix(2)))
            try held.letGo()
            #expect(eventually { gate.waitingCount == 1 })
            sinks += submit(.increment("n"), to: Array(namespaces.dropFirst(2)))
            #expect(sinks.allSatisfy { $0.outcomes.isEmpty })
            gate.leave(99)
            for sink in sinks { #expect(sink.outcome(1)?.committedSeq == 2) }
            #expect(held.engine.metrics.jointTransactions.current == 1)
            #expect(held.engine.metrics.jointNamespaces.current == 8)
            try checkCounts(held.url, namespaces, counts: 2)
        }
    }

    /// What has to be done alone is not kept waiting for those that go together.
    @Test func whoGoesAloneDoesNotWait() throws {
        try withHeldEngine(Self.oneForEver) { held, _, namespaces in
            let gate = held.engine.engine.core.jointGate
            gate.enter(99)
            let log = try LogConnection(held.url)
            defer { log.close() }
            let lease = try log.beginLease(Batch.makeID())
            let change = Change(path: Path(splitting: "n"), value: .int(2))
            let session = StoredSession(
                namespace: namespaces[0].id, namespaceName: "n0", id: "session", operations: [[change]], isAdmin: true,
                auth: .null, origin: nil)
            #expect(try log.saveSession(SessionSave(session, number: 1, isFirst: true), lease) == .saved)
            let claim = try #require(try log.session(namespaces[0].id, "session")?.claim)
            try held.hold()
            let alone = submit(
                Write(.disconnect(claim, operations: [[change]]), operation: .disconnect, byteCount: 8, auth: .admin),
                to: [namespaces[0]])
            let others = submit(.increment("n"), to: Array(namespaces.dropFirst()))
            try held.letGo()
            for sink in alone { #expect(sink.outcome(1)?.committedSeq == 2) }
            #expect(eventually { gate.waitingCount == 1 })
            #expect(others.allSatisfy { $0.outcomes.isEmpty })
            gate.leave(99)
            for sink in others { #expect(sink.outcome(1)?.committedSeq == 2) }
        }
    }

    private static func oneForEver(_ settings: inout EngineSettings) {
        settings.jointTransactions = 1
        settings.jointLockMilliseconds = forEver
    }
}
