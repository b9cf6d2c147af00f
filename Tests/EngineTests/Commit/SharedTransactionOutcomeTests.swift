import Rules
import TestSupport
import Testing
import Tree

@testable import Engine

/// Checks the meaning of a shared transaction's outcome for each namespace, and the number of participants.
@Suite struct SharedTransactionOutcomeTests {
    private let now = CommitMachine.Circumstances(now: 5, isDatabaseUp: true, isStopping: false)

    /// Returns a machine that has requested the sending of its batch.
    private func sending() -> CommitMachine {
        var machine = CommitMachine(deadline: 100, isContended: false)
        _ = machine.start()
        _ = machine.handle(.connected)
        #expect(machine.handle(.evaluated(batch: [1], hasRecords: true)) == .send(isLocked: false))
        return machine
    }

    @Test func whatWasCommittedIsPublished() throws {
        let event = try #require(SharedTransactionOutcome.committed.continuation(now).event)
        var machine = sending()
        #expect(machine.handle(event) == .publish(.current))
    }

    /// No writer is answered, and the attempt leaves no trace.
    @Test func whatCameToNothingBeginsAgain() {
        #expect(SharedTransactionOutcome.cameToNothing.continuation(now) == .alone)
    }

    @Test func whatIsUnknownIsSearchedFor() throws {
        let event = try #require(SharedTransactionOutcome.unknown.continuation(now).event)
        var machine = sending()
        #expect(machine.handle(event) == .keepLost)
        #expect(machine.handle(.done) == .dropConnection)
        #expect(machine.handle(.done) == .pause)
        #expect(machine.handle(.done) == .connect(isRetry: false))
        #expect(machine.handle(.connected) == .search(lost: 0))
    }

    /// After the deadline there is no further search, and no write is reported as not written.
    @Test func whatIsUnknownAtTheDeadlineStaysSo() throws {
        let late = CommitMachine.Circumstances(now: 100, isDatabaseUp: true, isStopping: false)
        let event = try #require(SharedTransactionOutcome.unknown.continuation(late).event)
        var machine = sending()
        #expect(machine.handle(event) == .keepLost)
        #expect(machine.handle(.done) == .dropConnection)
        #expect(machine.handle(.done) == .fail(.outcomeUnknown))
    }

    @Test func fewerTakePartWhereTransactionsComeToNothing() {
        var size = SharedTransactionSize(most: 64)
        #expect(size.next == 64)
        size.failed()
        #expect(size.next == 32)
        for _ in 0..<10 { size.failed() }
        #expect(size.next == 1)
        size.committed()
        #expect(size.next == 2)
        for _ in 0..<40 { size.committed() }
        #expect(size.next == 64)
        #expect(SharedTransactionSize(most: 0).next == 1)
    }

    @Test func aNamespaceThatMadeOthersWaitStandsAside() {
        var standing = FairnessPenalty()
        #expect(standing.mayJoin)
        standing.standAside()
        for _ in 0..<FairnessPenalty.memory {
            #expect(!standing.mayJoin)
            standing.wentAlone()
        }
        #expect(standing.mayJoin)
    }

    /// A thread that the system suspends for a moment makes its namespace look slow.
    @Test func aNamespaceThatIsSlowTwiceInARowStandsAside() {
        var standing = FairnessPenalty()
        for isSlow in [true, false, true, false, false, true] {
            standing.wentWithOthers(isSlow: isSlow)
            #expect(standing.mayJoin)
        }
        standing.wentWithOthers(isSlow: true)
        #expect(!standing.mayJoin)
        for _ in 0..<FairnessPenalty.memory { standing.wentAlone() }
        #expect(standing.mayJoin)
        standing.wentWithOthers(isSlow: true)
        #expect(standing.mayJoin, "what was before is forgotten")
    }

    @Test func roomIsTaken() {
        var room = SharedTransactionLimits(namespaces: 2, rows: 10, bytes: 100)
        room.take(rows: 4, bytes: 20)
        #expect(room == SharedTransactionLimits(namespaces: 1, rows: 6, bytes: 80) && !room.isFull)
        for (namespaces, rows, bytes) in [(1, 6, 0), (1, 0, 80), (0, 6, 80)] {
            #expect(SharedTransactionLimits(namespaces: namespaces, rows: rows, bytes: bytes).isFull)
        }
    }

    // MARK: Which tasks may join

    private let room = SharedTransactionLimits(namespaces: 9, rows: 4, bytes: 100)

    private func schedule(_ writes: Int = 1, bytes: Int = 10) -> NamespaceSchedule {
        var schedule = NamespaceSchedule(head: 3)
        for token in 0..<UInt64(writes) { _ = schedule.add(.test(token, bytes: bytes), EngineSettings(), outage: nil) }
        return schedule
    }

    private func snapshot(_ seq: Int64 = 3, _ root: Node = .null) -> Snapshot {
        Snapshot(seq: seq, root: root, rules: RulesVersion(seq: 0, set: .denyAll), batch: [0])
    }

    private func joins(_ schedule: NamespaceSchedule, known: Int64 = 3) -> Bool {
        var schedule = schedule
        return schedule.takeSharedTask(room, EngineSettings(), at: snapshot(known)) != nil
    }

    @Test func littleWorkJoins() {
        #expect(joins(schedule()))
        #expect(!joins(schedule(0)), "nothing to write")
        // Each of these writes brings up to two rows.
        #expect(joins(schedule(2)) && !joins(schedule(3)), "more rows than there is room for")
        #expect(!joins(schedule(2, bytes: 51)), "more bytes")
    }

    /// A write that ends a session is the only write of its transaction, also if it is queued after others.
    @Test func whatEndsASessionGoesAlone() {
        var schedule = schedule()
        _ = schedule.add(.test(7, alone: true), EngineSettings(), outage: nil)
        #expect(!joins(schedule))
        var alone = NamespaceSchedule(head: 3)
        _ = alone.add(.test(7, alone: true), EngineSettings(), outage: nil)
        #expect(!joins(alone))
    }

    /// A removal adds no rows, and is measured by the rows that it removes.
    @Test(arguments: [(10, true), (11, false)]) func removalsAreMeasuredByWhatTheyRemove(rows: Int64, fits: Bool) {
        var settings = EngineSettings()
        settings.sharedTransactionRows = 10
        let wide = Node(children: (0..<rows).map { (Key("k\($0)"), Node.int($0)) })
        let root = Node(children: [(Key("wide"), wide), (Key("other"), .int(1))])
        let writes = [Write.set("wide", .null), .update("", [("wide", .null)]), .set("wide", .int(1))]
        for (number, write) in writes.enumerated() {
            var schedule = NamespaceSchedule(head: 3)
            let item = WriteQueue.Waiting(write: write, sink: CollectingSink(), token: 1, deadline: .max)
            _ = schedule.add(item, settings, outage: nil)
            // A write that replaces also brings a row of its own.
            let joins = schedule.takeSharedTask(room, settings, at: snapshot(3, root)) != nil
            #expect(joins == (number < 2 ? fits : false), "\(number)")
        }
    }

    @Test func whatHasToFollowTheLogGoesAlone() {
        #expect(!joins(schedule(), known: 2))
        var suspect = schedule()
        _ = suspect.suspect()
        #expect(!joins(suspect))
    }

    @Test func contendedAndCostlyNamespacesGoAlone() {
        var contended = schedule()
        contended.noteContention(true)
        #expect(!joins(contended))
        var costly = schedule()
        costly.standAside()
        #expect(!joins(costly))
        for _ in 0..<FairnessPenalty.memory { _ = costly.takeTask(EngineSettings()) }
        _ = costly.add(.test(9), EngineSettings(), outage: nil)
        #expect(joins(costly))
    }

    /// A task that must go alone remains in the queue whole.
    @Test func whatGoesAloneIsStillThere() {
        var contended = schedule(2)
        contended.noteContention(true)
        #expect(contended.takeSharedTask(room, EngineSettings(), at: snapshot()) == nil)
        #expect(contended.takeTask(EngineSettings()).batch.count == 2)
    }
}

extension SharedTransactionOutcome.Continuation {
    /// The event that the machine receives, or nil if it receives none.
    fileprivate var event: CommitMachine.Event? {
        if case .event(let event) = self { event } else { nil }
    }
}
