import LogStore
import TestSupport
import Testing

/// Checks that a follower receives every entry once and in order or is instructed to load, and ends with the log's state, for
/// any order of events of the log, the connection and the announcements.
@Suite struct FollowerMachineProperties {
    /// An event between two steps of a reader.
    enum Happening: CaseIterable {
        case appendOne, appendMany, prune, rollBack, step, stepFails, announcedRightly, announcedTooMuch
    }

    private static func apply(
        _ happening: Happening, _ log: inout ModelLog, _ reader: inout ModelReader, checksHistory: Bool
    ) {
        switch happening {
        case .appendOne: log.append([.plain])
        case .appendMany: log.append([.plain, .bulk, .plain, .rules])
        case .prune: log.prune(before: log.retainedFrom + 2)
        case .rollBack:
            // A follower that does not check histories cannot handle a rollback.
            guard checksHistory else { return }
            log.rollBack(to: max(0, log.head - 3))
        case .step: _ = reader.step(log)
        case .stepFails: _ = reader.step(log, readFails: true)
        case .announcedRightly: reader.machine.announced(head: log.head)
        case .announcedTooMuch: reader.machine.announced(head: log.head + 5)
        }
    }

    private static func settings(checksHistory: Bool, separatesKinds: Bool) -> FollowerMachine.Settings {
        var settings = FollowerMachine.Settings()
        settings.checksHistory = checksHistory
        settings.separatesKinds = separatesKinds
        settings.pageEntries = 2
        settings.pollMilliseconds = 100
        return settings
    }

    /// Tests all sequences of six events, from a log of three entries of which the reader has seen one.
    @Test(arguments: Happening.allCases)
    func everyOrder(first: Happening) {
        let settings = Self.settings(checksHistory: true, separatesKinds: true)
        var failures = 0
        func descend(_ log: ModelLog, _ reader: ModelReader, _ trace: [Happening]) {
            guard failures < 3 else { return }
            if trace.count == 5 {
                var reader = reader
                let ends = reader.settle(log)
                guard ends, reader.faults.isEmpty, reader.state == log.items else {
                    failures += 1
                    Issue.record("\(trace): ends \(ends), \(reader.faults), \(reader.state.count) of \(log.head)")
                    return
                }
                return
            }
            for happening in Happening.allCases {
                var (log, reader) = (log, reader)
                Self.apply(happening, &log, &reader, checksHistory: true)
                descend(log, reader, trace + [happening])
            }
        }
        var log = ModelLog()
        log.append([.plain])
        log.append([.plain, .bulk])
        var reader = ModelReader(settings, at: LogPosition(seq: 0, batch: log.origin))
        _ = reader.step(log)
        _ = reader.step(log)
        Self.apply(first, &log, &reader, checksHistory: true)
        descend(log, reader, [first])
    }

    /// Tests long random sequences, with and without the check of histories and the separation of kinds.
    @Test(arguments: Array(1...60) as [UInt64], [false, true])
    func randomLives(seed: UInt64, checksHistory: Bool) {
        var random = SeededGenerator(seed: seed)
        var log = ModelLog()
        var settings = Self.settings(checksHistory: checksHistory, separatesKinds: random.oneIn(2))
        settings.pageEntries = 1 + random.below(6)
        var reader = ModelReader(settings, at: LogPosition(seq: 0, batch: checksHistory ? log.origin : nil))
        for _ in 0..<400 {
            switch random.below(20) {
            case 0..<6:
                log.append((0...random.below(4)).map { _ in random.pick([.plain, .plain, .plain, .bulk, .rules]) })
            case 6: log.prune(before: log.retainedFrom + Int64(random.below(5)))
            case 7 where checksHistory:
                log.rollBack(to: Int64(random.below(Int(log.head) + 1)))
                // Mostly followed by other writes at once, as after a failover.
                if !random.oneIn(3) { log.append(count: 1 + random.below(6)) }
            case 8: log.knowsPrunedBatch.toggle()
            case 9: reader.machine.announced(head: Int64(random.below(Int(log.head) + 4)))
            case 10: _ = reader.step(log, readFails: true)
            case 11: _ = reader.run(log, now: Int64(random.below(1_000)))
            default: _ = reader.step(log)
            }
        }
        let rest = reader.settle(log)
        #expect(rest)
        #expect(reader.faults == [])
        // Without the check the follower cannot detect that all entries after its cursor are pruned until the next
        // entry arrives.
        if !checksHistory {
            log.append(count: 1)
            let rest = reader.settle(log)
            #expect(rest)
        }
        let isWhole = reader.state == log.items
        #expect(isWhole, "\(reader.state.count) of \(log.head)")
    }

    /// Checks that a log that only grows is read entry by entry: only gaps and other histories require loading.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func aGrowingLogIsNeverLoaded(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var log = ModelLog()
        var reader = ModelReader(
            Self.settings(checksHistory: true, separatesKinds: true), at: LogPosition(seq: 0, batch: log.origin))
        for _ in 0..<200 {
            if random.oneIn(3) { log.append((0...random.below(5)).map { _ in random.pick(ModelLog.Kind.allCases) }) }
            _ = reader.step(log, readFails: random.oneIn(4))
        }
        let ends = reader.settle(log)
        #expect(ends)
        #expect(reader.loads == 0)
        #expect(reader.faults == [])
        let isWhole = reader.state == log.items
        #expect(isWhole, "\(reader.state.count) of \(log.head)")
    }

    /// Checks that lost announcements delay a follower by at most one poll interval.
    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func lostAnnouncementsCostOnePoll(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var log = ModelLog()
        var reader = ModelReader(
            Self.settings(checksHistory: true, separatesKinds: true), at: LogPosition(seq: 0, batch: log.origin))
        var now: Int64 = 0
        var oldestUnread: Int64?
        for _ in 0..<500 {
            if random.oneIn(5) {
                log.append(count: 1)
                oldestUnread = oldestUnread ?? now
                if random.oneIn(2) { reader.machine.announced(head: log.head) }
            }
            while reader.step(log, now: now) {}
            // The second loop reports the end of the log. The follower waits from then on.
            while reader.step(log, now: now) {}
            if reader.state.count == log.items.count { oldestUnread = nil }
            if let oldest = oldestUnread { #expect(now - oldest <= 100, "unread since \(oldest) at \(now)") }
            now += 1 + Int64(random.below(20))
            if let oldest = oldestUnread { now = min(now, oldest + 100) }
        }
    }
}
