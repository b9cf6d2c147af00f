import LogStore
import Testing
import Tree

/// Tests of the requests of a reader of the log, and of the events that it derives from the answers.
@Suite struct FollowerMachineTests {
    private func settings(_ change: (inout FollowerMachine.Settings) -> Void) -> FollowerMachine.Settings {
        var settings = FollowerMachine.Settings()
        change(&settings)
        return settings
    }

    private var checking: FollowerMachine.Settings { settings { $0.checksHistory = true } }

    /// Returns the events of one page, as short words with the cursor after each.
    private func events(_ machine: inout FollowerMachine) -> [String] {
        var found: [String] = []
        while case .take(let event) = machine.next() {
            found.append(Self.word(event) + " @\(machine.position.seq)")
            if case .end = event { break }
            if case .missing = event, machine.settings.gaps == .refused { break }
            if case .rolledBack = event { break }
        }
        return found
    }

    private static func word(_ event: LogEvent) -> String {
        switch event {
        case .entries(let entries): "entries \(entries.map { "\($0.entry.seq)" }.joined(separator: ","))"
        case .bulk(let logged): "bulk \(logged.entry.seq)"
        case .rules(let logged): "rules \(logged.entry.seq)"
        case .missing(let range, let read): "missing \(range.lowerBound)..<\(range.upperBound) read \(read.count)"
        case .rolledBack(let history): "taken back to \(history.map { "\($0.head)" } ?? "nothing")"
        case .end(let head): "end \(head.map { "\($0)" } ?? "unknown")"
        }
    }

    private func pageRequest(_ machine: inout FollowerMachine, at now: Int64 = 0) -> FollowerMachine.PageRequest? {
        if case .read(let request) = machine.next(at: now) { request } else { nil }
    }

    /// Reads the next page from the model, and returns its events.
    private func page(_ machine: inout FollowerMachine, _ log: ModelLog) throws -> [String] {
        let request = try #require(pageRequest(&machine))
        try machine.received(
            history: request.withHistory ? log.history(at: request.after) : nil, entries: log.entries(request))
        return events(&machine)
    }

    // MARK: Pages

    @Test func theFirstPageFollowsTheCursor() throws {
        var machine = FollowerMachine(
            at: LogPosition(seq: 41), through: 99,
            settings: settings {
                $0.pageEntries = 10
                $0.pageBytes = 2_000
            })
        let asked = try #require(pageRequest(&machine))
        #expect(asked.after == 41)
        #expect(asked.through == 99)
        #expect(asked.entries == 10)
        #expect(asked.bytes == 2_000)
        #expect(!asked.withHistory)
    }

    @Test(arguments: [false, true])
    func pagesFollowOneAnotherToTheEnd(checksHistory: Bool) throws {
        var log = ModelLog()
        log.append(count: 7)
        var machine = FollowerMachine(
            at: LogPosition(seq: 0),
            settings: settings {
                $0.pageEntries = 3
                $0.checksHistory = checksHistory
            })
        let head = checksHistory ? "7" : "unknown"
        #expect(try page(&machine, log) == ["entries 1,2,3 @3"])
        #expect(try page(&machine, log) == ["entries 4,5,6 @6"])
        #expect(try page(&machine, log) == ["entries 7 @7"])
        #expect(try page(&machine, log) == ["end \(head) @7"])
        #expect(machine.position == log.end)
        // A request at the end reads again.
        log.append(count: 1)
        #expect(try page(&machine, log) == ["entries 8 @8"])
    }

    @Test func thePageIsAskedForAgainUntilItComes() throws {
        var log = ModelLog()
        log.append(count: 2)
        var machine = FollowerMachine(at: LogPosition(seq: 0))
        let first = try #require(pageRequest(&machine))
        #expect(pageRequest(&machine) == first)
        #expect(pageRequest(&machine) == first)
        #expect(try page(&machine, log) == ["entries 1,2 @2"])
    }

    @Test func nothingIsRequestedAfterTheBound() throws {
        var log = ModelLog()
        log.append(count: 9)
        var machine = FollowerMachine(at: LogPosition(seq: 0), through: 4, settings: settings { $0.pageEntries = 3 })
        #expect(try page(&machine, log) == ["entries 1,2,3 @3"])
        #expect(try page(&machine, log) == ["entries 4 @4", "end unknown @4"])
        #expect(events(&machine) == ["end unknown @4"])
        // The bound may be raised.
        machine.bound = 6
        #expect(try page(&machine, log) == ["entries 5,6 @6", "end unknown @6"])
    }

    @Test(arguments: [0, 4, 5] as [Int64])
    func aBoundThatIsReachedAlreadyAsksForNothing(bound: Int64) {
        var machine = FollowerMachine(at: LogPosition(seq: 5), through: bound)
        #expect(events(&machine) == ["end unknown @5"])
    }

    // MARK: Kinds

    static let kinds: [(kinds: [ModelLog.Kind], events: [String])] = [
        ([.plain, .plain], ["entries 1,2 @2"]),
        ([.bulk], ["bulk 1 @1"]),
        ([.rules], ["rules 1 @1"]),
        ([.plain, .bulk, .plain], ["entries 1 @1", "bulk 2 @2", "entries 3 @3"]),
        ([.bulk, .bulk, .rules, .plain], ["bulk 1 @1", "bulk 2 @2", "rules 3 @3", "entries 4 @4"]),
        ([.plain, .plain, .rules], ["entries 1,2 @2", "rules 3 @3"]),
        ([.rules, .plain, .plain, .bulk], ["rules 1 @1", "entries 2,3 @3", "bulk 4 @4"]),
    ]

    @Test(arguments: kinds)
    func kindsComeSeparatelyInOrder(kinds: [ModelLog.Kind], events: [String]) throws {
        var log = ModelLog()
        log.append(kinds)
        var apart = FollowerMachine(at: LogPosition(seq: 0), settings: settings { $0.separatesKinds = true })
        #expect(try page(&apart, log) == events)
        var together = FollowerMachine(at: LogPosition(seq: 0))
        let all = (1...kinds.count).map { "\($0)" }.joined(separator: ",")
        #expect(try page(&together, log) == ["entries \(all) @\(kinds.count)"])
    }

    @Test func theCursorMovesEventByEvent() throws {
        var log = ModelLog()
        log.append([.plain, .bulk])
        log.append([.rules])
        var machine = FollowerMachine(
            at: LogPosition(seq: 0, batch: log.origin),
            settings: settings {
                $0.checksHistory = true
                $0.separatesKinds = true
            })
        let asked = try #require(pageRequest(&machine))
        try machine.received(history: log.history(at: 0), entries: log.entries(asked))
        #expect(machine.position == LogPosition(seq: 0, batch: log.origin), "nothing was handed out")
        for seq in 1...3 as ClosedRange<Int64> {
            _ = machine.next()
            #expect(machine.position == LogPosition(seq: seq, batch: log.batch(seq)))
        }
    }

    // MARK: Gaps

    @Test func prunedEntriesAreMissing() throws {
        var log = ModelLog()
        log.append(count: 8)
        log.prune(before: 6)
        var machine = FollowerMachine(at: LogPosition(seq: 2), settings: settings { $0.pageEntries = 2 })
        #expect(try page(&machine, log) == ["missing 3..<6 read 2 @2"])
        // The machine repeats the event until it is restarted at a position.
        #expect(try page(&machine, log) == ["missing 3..<6 read 2 @2"])
        machine.restart(at: LogPosition(seq: 7))
        #expect(try page(&machine, log) == ["entries 8 @8"])
    }

    @Test func allOfTheLogIsPruned() throws {
        var log = ModelLog()
        log.append(count: 4)
        log.prune(before: 5)
        var machine = FollowerMachine(at: LogPosition(seq: 2), settings: checking)
        #expect(try page(&machine, log) == ["missing 3..<5 read 0 @2"])
        machine.restart(at: log.end)
        #expect(try page(&machine, log) == ["end 4 @4"])
        // A follower that does not request the head cannot distinguish this from the end.
        var plain = FollowerMachine(at: LogPosition(seq: 2))
        #expect(try page(&plain, log) == ["end unknown @2"])
    }

    @Test func pruningUpToTheCursorIsHarmless() throws {
        var log = ModelLog()
        log.append(count: 8)
        log.prune(before: 6)
        for cursor in 5...8 as ClosedRange<Int64> {
            var machine = FollowerMachine(at: LogPosition(seq: cursor, batch: log.batch(cursor)), settings: checking)
            let first = try page(&machine, log)
            #expect(first.first?.hasPrefix(cursor < 8 ? "entries \(cursor + 1)" : "end 8") == true)
        }
    }

    /// Checks that a position counts as missing if the entry before the oldest is pruned and its batch was not kept:
    /// whether the log continues from that position is unknown.
    @Test func anUnknownPositionIsMissing() throws {
        var log = ModelLog()
        log.append(count: 8)
        log.prune(before: 6)
        log.knowsPrunedBatch = false
        var machine = FollowerMachine(at: LogPosition(seq: 5, batch: log.batch(5)), settings: checking)
        #expect(try page(&machine, log) == ["missing 6..<6 read 3 @5"])
        // A cursor without a batch continues by its seq.
        var unknowing = FollowerMachine(at: LogPosition(seq: 5), settings: checking)
        #expect(try page(&unknowing, log) == ["entries 6,7,8 @8"])
    }

    @Test func aGapInsideAPageIsAnError() throws {
        var log = ModelLog()
        log.append(count: 5)
        log.holes = [3]
        var machine = FollowerMachine(at: LogPosition(seq: 0))
        let asked = try #require(pageRequest(&machine))
        #expect {
            try machine.received(history: nil, entries: log.entries(asked))
        } throws: {
            guard case .corrupt(let what)? = $0 as? LogStoreError else { return false }
            return what == "the log has seq 4 after 2"
        }
        // No entry of the page was returned.
        #expect(machine.position.seq == 0)
        #expect(pageRequest(&machine) == asked)
    }

    @Test func gapsAreReportedOnRequest() throws {
        var log = ModelLog()
        log.append(count: 9)
        log.prune(before: 3)
        log.holes = [5, 6, 9]
        var machine = FollowerMachine(at: LogPosition(seq: 0), settings: settings { $0.gaps = .reported })
        #expect(
            try page(&machine, log) == [
                "missing 1..<3 read 4 @0", "entries 3,4 @4", "missing 5..<7 read 2 @4", "entries 7,8 @8",
            ])
        #expect(try page(&machine, log) == ["end unknown @8"])
    }

    @Test func gapsBetweenPagesAreReportedToo() throws {
        var log = ModelLog()
        log.append(count: 6)
        log.holes = [3, 4]
        var machine = FollowerMachine(
            at: LogPosition(seq: 0),
            settings: settings {
                $0.gaps = .reported
                $0.pageEntries = 2
            })
        #expect(try page(&machine, log) == ["entries 1,2 @2"])
        #expect(try page(&machine, log) == ["missing 3..<5 read 2 @2", "entries 5,6 @6"])
    }

    // MARK: Other histories

    @Test func anotherBatchAtTheCursorIsAnotherHistory() throws {
        var log = ModelLog()
        log.append(count: 2)
        log.append(count: 2)
        let known = log.end
        log.rollBack(to: 2)
        var machine = FollowerMachine(at: known, settings: checking)
        #expect(try page(&machine, log) == ["taken back to 2 @4"], "a head below the cursor")
        log.append(count: 5)
        #expect(try page(&machine, log) == ["taken back to 7 @4"], "another entry there")
        machine.restart(at: log.end)
        log.append(count: 1)
        #expect(try page(&machine, log) == ["entries 8 @8"])
    }

    @Test func theNamespaceIsGone() throws {
        var machine = FollowerMachine(at: LogPosition(seq: 3, batch: [1]), settings: checking)
        _ = pageRequest(&machine)
        try machine.received(history: nil, entries: [])
        #expect(events(&machine) == ["taken back to nothing @3"])
    }

    @Test func anotherNamespaceOfTheSameNumberIsAnotherHistory() throws {
        let log = ModelLog()
        var machine = FollowerMachine(at: LogPosition(seq: 0, batch: [9, 9]), settings: checking)
        #expect(try page(&machine, log) == ["taken back to 0 @0"])
        var same = FollowerMachine(at: LogPosition(seq: 0, batch: log.origin), settings: checking)
        #expect(try page(&same, log) == ["end 0 @0"])
    }

    @Test func readersWithoutChecksFollowTheNumbers() throws {
        var log = ModelLog()
        log.append(count: 4)
        let known = log.end
        log.rollBack(to: 2)
        log.append(count: 5)
        var machine = FollowerMachine(at: known)
        #expect(try page(&machine, log) == ["entries 5,6,7 @7"])
    }

    /// Checks that a change of history is detected on every page, not only on the first.
    @Test func aHistoryThatChangesBetweenTwoPagesIsNoticed() throws {
        var log = ModelLog()
        log.append(count: 2)
        log.append(count: 2)
        var machine = FollowerMachine(
            at: LogPosition(seq: 0, batch: log.origin),
            settings: settings {
                $0.checksHistory = true
                $0.pageEntries = 3
            })
        #expect(try page(&machine, log) == ["entries 1,2,3 @3"])
        log.rollBack(to: 2)
        log.append(count: 3)
        #expect(try page(&machine, log) == ["taken back to 5 @3"])
    }

    // MARK: Waiting at the end

    private func waiting(poll: Int64 = 100) throws -> (machine: FollowerMachine, log: ModelLog) {
        var log = ModelLog()
        log.append(count: 3)
        var machine = FollowerMachine(at: log.end, settings: settings { $0.pollMilliseconds = poll })
        #expect(try page(&machine, log) == ["end unknown @3"])
        return (machine, log)
    }

    private func wait(_ machine: inout FollowerMachine, at now: Int64) -> Int64? {
        if case .wait(let milliseconds) = machine.next(at: now) { milliseconds } else { nil }
    }

    @Test func atTheEndItWaitsForThePoll() throws {
        var (machine, _) = try waiting()
        #expect(wait(&machine, at: 1_000) == 100)
        #expect(wait(&machine, at: 1_040) == 60, "the poll is not put off by looking")
        #expect(wait(&machine, at: 1_099) == 1)
        #expect(pageRequest(&machine, at: 1_100)?.after == 3)
    }

    @Test func anAnnouncementEndsTheWait() throws {
        var (machine, _) = try waiting()
        #expect(wait(&machine, at: 0) == 100)
        machine.announced(head: 4)
        #expect(pageRequest(&machine, at: 1)?.after == 3)
    }

    @Test func anOldAnnouncementIsNoNews() throws {
        var (machine, _) = try waiting()
        for head in [0, 1, 3] as [Int64] {
            machine.announced(head: head)
            #expect(wait(&machine, at: 0) == 100)
        }
    }

    /// Checks that an announced head that the log does not (or no longer) have causes only one read per announcement.
    @Test func aHeadThatIsNotThereIsLookedForOnce() throws {
        var (machine, log) = try waiting()
        machine.announced(head: 9)
        #expect(try page(&machine, log) == ["end unknown @3"])
        #expect(wait(&machine, at: 0) == 100)
        machine.announced(head: 9)
        #expect(pageRequest(&machine, at: 0) != nil)
    }

    /// Checks that a head announced during a read is read afterwards: the page may not contain it.
    @Test func anAnnouncementDuringAReadIsLookedAfter() throws {
        var (machine, log) = try waiting()
        machine.announced(head: 4)
        let asked = try #require(pageRequest(&machine))
        let stale = log.entries(asked)
        log.append(count: 2)
        machine.announced(head: 5)
        try machine.received(history: nil, entries: stale)
        #expect(events(&machine) == ["end unknown @3"])
        #expect(try page(&machine, log) == ["entries 4,5 @5"])
    }

    @Test func afterARestartNothingOldIsWaitedFor() throws {
        var (machine, _) = try waiting()
        #expect(wait(&machine, at: 0) == 100)
        machine.announced(head: 50)
        machine.restart(at: LogPosition(seq: 10))
        #expect(pageRequest(&machine, at: 5)?.after == 10)
        try machine.received(history: nil, entries: [])
        #expect(events(&machine) == ["end unknown @10"])
        #expect(wait(&machine, at: 20) == 100, "the poll begins anew")
    }

    @Test func withoutAPollItNeverWaits() throws {
        var machine = FollowerMachine(at: LogPosition(seq: 0))
        #expect(try page(&machine, ModelLog()) == ["end unknown @0"])
        #expect(try page(&machine, ModelLog()) == ["end unknown @0"])
    }
}
