import Runtime
import TestSupport
import Testing

@testable import Engine

/// Checks which committer works on a namespace, and when: no work is forgotten, and at most one committer has the
/// namespace.
@Suite struct NamespaceScheduleTests {
    // MARK: Refusals

    @Test func writesAreRefusedWhereTheyCannotBeWritten() {
        var schedule = NamespaceSchedule(head: 0)
        let settings = EngineSettings()
        #expect(schedule.add(.test(), settings, outage: nil) == nil)
        #expect(schedule.add(.test(), settings, outage: "gone") == .unavailable("gone"))
        schedule.refusal = .stopping
        #expect(schedule.add(.test(), settings, outage: nil) == .stopping)
        // The engine's reason for refusals takes precedence.
        #expect(schedule.add(.test(), settings, outage: "gone") == .stopping)
        schedule.refusal = nil
        #expect(schedule.add(.test(), settings, outage: nil) == nil)
        #expect(schedule.waitingWrites == 2)
    }

    @Test func aFullQueueIsOverloaded() {
        var settings = EngineSettings()
        settings.maxWaitingWrites = 1
        var schedule = NamespaceSchedule(head: 0)
        #expect(schedule.add(.test(), settings, outage: nil) == nil)
        #expect(schedule.add(.test(), settings, outage: nil) == .overloaded)
        // A large write that is already written is accepted however full the queue is.
        #expect(schedule.addLarge(.test()) == nil)
    }

    /// A large write was accepted before the engine began to stop: it is finished as long as there are committers.
    @Test func aLargeWriteComesInUntilTheCommittersHaveEnded() {
        var schedule = NamespaceSchedule(head: 0)
        schedule.refusal = .stopping
        #expect(schedule.addLarge(.test(1)) == nil)
        schedule.refusal = .unknownNamespace("test")
        #expect(schedule.addLarge(.test(2)) == .unknownNamespace("test"))
        schedule.refusal = nil
        #expect(schedule.close().map(\.token) == [1])
        #expect(schedule.addLarge(.test(3)) == .stopping)
    }

    // MARK: Tasks

    @Test func aTaskSaysWhatIsKnown() {
        var schedule = NamespaceSchedule(head: 5)
        var task = schedule.takeTask(EngineSettings())
        #expect(task.remoteHead == 5 && !task.isSuspect && task.batch.isEmpty && !task.isContended && !task.hasWaiters)
        _ = schedule.add(.test(1), EngineSettings(), outage: nil)
        _ = schedule.headSeen(7, known: 5)
        _ = schedule.suspect()
        schedule.noteContention(true)
        schedule.addWaiter(9, now: 0, deadline: 100) {}
        task = schedule.takeTask(EngineSettings())
        #expect(task.remoteHead == 7 && task.isSuspect && task.batch.map(\.token) == [1])
        #expect(task.isContended && task.hasWaiters)
        #expect(schedule.takeTask(EngineSettings()).batch.isEmpty, "a write is taken once")
    }

    @Test(arguments: [
        // remote head, suspect, waiters, writes; whether the log has to be checked from seq 5 on
        (5, false, false, 0, false), (6, false, false, 0, true), (4, false, false, 0, false), (5, true, false, 0, true),
        (5, true, false, 1, true), (5, false, true, 0, true), (5, false, true, 1, false), (6, false, true, 1, true),
        (5, false, false, 1, false),
    ])
    func whenTheLogIsLookedAt(head: Int64, isSuspect: Bool, hasWaiters: Bool, writes: Int, isNeeded: Bool) {
        let task = NamespaceTask(
            remoteHead: head, isSuspect: isSuspect, batch: (0..<writes).map { .test(UInt64($0)) }, isContended: false,
            hasWaiters: hasWaiters)
        #expect(task.hasToFollow(from: 5) == isNeeded)
    }

    // MARK: Heads

    @Test func onlyNewsHandItOver() {
        var schedule = NamespaceSchedule(head: 5)
        #expect(schedule.headSeen(5, known: 5) == false)
        #expect(schedule.headSeen(4, known: 5) == false)
        #expect(schedule.headSeen(6, known: 5) == true)
        #expect(schedule.headSeen(7, known: 5) == false, "somebody has it")
        #expect(schedule.remoteHead == 7)
        #expect(schedule.finishedTask(followsLog: true, known: 7) == false)
        #expect(schedule.headSeen(8, known: 7) == true)
    }

    @Test func whatWasHeardOfIsKeptUntilItIsThere() {
        var schedule = NamespaceSchedule(head: 5)
        _ = schedule.headSeen(9, known: 5)
        #expect(schedule.finishedTask(followsLog: true, known: 6) == true, "more is in the log")
        #expect(
            schedule.finishedTask(followsLog: false, known: 6) == false, "it can't be read now: the tail says so again")
        #expect(schedule.headSeen(9, known: 6) == true)
        #expect(schedule.finishedTask(followsLog: true, known: 9) == false)
    }

    /// The announced head belongs to a history that no longer exists.
    @Test(
        arguments: [
            // announced, reached, known before; the head left to follow
            (9, 6, 9, 5), (9, 9, 9, 9), (9, 12, 9, 9), (9, 6, 10, 10), (nil, 6, 9, 9), (9, nil, 9, 9),
        ] as [(Int64?, Int64?, Int64, Int64)])
    func headsThatAreNoMore(notes: Int64?, end: Int64?, heard: Int64, left: Int64) {
        var schedule = NamespaceSchedule(head: 5)
        _ = schedule.headSeen(heard, known: 5)
        _ = schedule.suspect()
        schedule.checked(notes, reaches: end, known: 5, now: 0)
        #expect(schedule.remoteHead == left)
        #expect(!schedule.isSuspect)
    }

    /// Every role that can connect can announce any head: each false one lengthens the wait for the next, until a true
    /// one arrives.
    @Test func falseHeadsAreDoubted() {
        var schedule = NamespaceSchedule(head: 5)
        var now: Milliseconds = 1_000
        var looks = 0
        for _ in 0..<10_000 {
            now += 1
            guard schedule.believesAnnouncements(at: now) else { continue }
            looks += 1
            _ = schedule.headSeen(.max, known: 5)
            schedule.checked(.max, reaches: 5, known: 5, now: now)
            #expect(schedule.remoteHead == 5)
        }
        #expect(looks < 20, "\(looks)")
        now += 1_000
        #expect(schedule.believesAnnouncements(at: now))
        _ = schedule.headSeen(6, known: 5)
        schedule.checked(6, reaches: 6, known: 6, now: now)
        #expect(schedule.believesAnnouncements(at: now))
        schedule.checked(.max, reaches: 6, known: 6, now: now)
        #expect(schedule.believesAnnouncements(at: now + 20), "it begins with short ones again")
    }

    @Test func aResetForgetsWhatWasHeardOf() {
        var schedule = NamespaceSchedule(head: 5)
        _ = schedule.headSeen(90, known: 5)
        _ = schedule.reset(to: 3)
        #expect(schedule.remoteHead == 3)
        #expect(schedule.finishedTask(followsLog: true, known: 3) == false)
        _ = schedule.reached(4)
        #expect(schedule.remoteHead == 4)
    }

    // MARK: Waiters

    @Test func waitersAreNotifiedOnceTheirSeqIsThere() {
        var schedule = NamespaceSchedule(head: 0)
        let notes = Notes()
        for seq in [3, 1, 2, 3, 9] as [Int64] { schedule.addWaiter(seq, now: 0, deadline: 1_000) { notes.note(seq) } }
        for body in schedule.reached(0) { body() }
        #expect(notes.seqs == [])
        for body in schedule.reached(2) { body() }
        #expect(notes.seqs == [1, 2])
        for body in schedule.reached(3) { body() }
        #expect(notes.seqs == [1, 2, 3, 3])
        for body in schedule.reset(to: 20) { body() }
        #expect(notes.seqs == [1, 2, 3, 3, 9])
        #expect(schedule.reached(100).isEmpty)
        #expect(!schedule.takeTask(EngineSettings()).hasWaiters)
    }

    @Test func waitersAreForgottenInTime() {
        var waiters = SeqWaiters()
        let notes = Notes()
        waiters.add(5, now: 0, deadline: 10) { notes.note(1) }
        waiters.add(5, now: 5, deadline: 15) { notes.note(2) }
        waiters.add(5, now: 10, deadline: 20) { notes.note(3) }
        for body in waiters.take(upTo: 5) { body() }
        #expect(notes.seqs == [2, 3])
        #expect(waiters.isEmpty)
    }

    // MARK: Contention

    @Test func contentionIsRememberedForSomeBatches() {
        var contention = WriterContention()
        #expect(!contention.isContended)
        contention.committed()
        contention.conflicted()
        for _ in 0..<WriterContention.memory {
            #expect(contention.isContended)
            contention.committed()
        }
        #expect(!contention.isContended)
        contention.conflicted()
        for _ in 0..<10 { contention.committed() }
        contention.conflicted()
        for _ in 0..<(WriterContention.memory - 1) { contention.committed() }
        #expect(contention.isContended, "the newest conflict counts")
    }

    // MARK: Every order

    /// The events that decide which committer has a namespace.
    enum Happening: CaseIterable {
        case write, headHeard, suspicion, taken, done, doneUnread, published
    }

    /// In every sequence of up to seven events at most one committer has the namespace, and a namespace without a
    /// committer has no work left.
    @Test func noWaiterAndNothingIsForgotten() {
        var sequences = 0
        var worst: [Happening] = []
        func go(_ schedule: NamespaceSchedule, _ model: Model, _ way: [Happening]) {
            sequences += 1
            guard way.count < 7, worst.isEmpty else { return }
            for happening in Happening.allCases {
                var (schedule, model) = (schedule, model)
                guard model.apply(happening, to: &schedule) else { continue }
                if model.isWrong(schedule) { worst = way + [happening] }
                go(schedule, model, way + [happening])
            }
        }
        go(NamespaceSchedule(head: 0), Model(), [])
        #expect(worst.isEmpty)
        #expect(sequences > 10_000)
    }

    /// A plain model of the schedule.
    private struct Model {
        var isHeld = false
        var hasTask = false
        var waiting = 0
        var known: Int64 = 0
        var heard: Int64 = 0
        /// The committer could not read the log: the tail has to report the head again.
        var isLeftToTheTail = false
        var handOvers = 0

        /// Returns false if the event can't happen now.
        mutating func apply(_ happening: Happening, to schedule: inout NamespaceSchedule) -> Bool {
            switch happening {
            case .write:
                guard schedule.add(.test(), EngineSettings(), outage: nil) == nil else { return false }
                waiting += 1
                take(schedule.schedule())
            case .headHeard:
                heard += 1
                isLeftToTheTail = false
                take(schedule.headSeen(heard, known: known))
            case .suspicion: take(schedule.suspect())
            case .taken:
                guard isHeld, !hasTask else { return false }
                hasTask = true
                waiting -= schedule.takeTask(EngineSettings()).batch.count
            case .done, .doneUnread:
                guard hasTask else { return false }
                hasTask = false
                let isRead = happening == .done
                if isRead { schedule.checked(nil, reaches: nil, known: known, now: 0) }
                isHeld = schedule.finishedTask(followsLog: isRead, known: known)
                if !isRead { isLeftToTheTail = true }
            case .published:
                guard hasTask, known < heard else { return false }
                known = heard
                _ = schedule.reached(known)
            }
            return true
        }

        private mutating func take(_ isHandedOver: Bool) {
            if isHandedOver {
                handOvers += isHeld ? 100 : 0
                isHeld = true
            }
        }

        func isWrong(_ schedule: NamespaceSchedule) -> Bool {
            if handOvers > 0 || schedule.isScheduled != isHeld || schedule.waitingWrites != waiting { return true }
            guard !isHeld else { return false }
            return waiting > 0 || (heard > known && !isLeftToTheTail) || !schedule.isIdle
        }
    }

    private final class Notes: Sendable {
        private let state = MutexBox<[Int64]>([])
        func note(_ seq: Int64) { state.withLock { $0.append(seq) } }
        var seqs: [Int64] { state.withLock { $0 } }
    }
}
