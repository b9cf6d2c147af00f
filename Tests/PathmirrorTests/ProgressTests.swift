import LogStore
import Runtime
import TestSupport
import Testing

@testable import pathmirror

/// Checks that progress is rare and correct: one line that moves on terminals, and nothing for programs.
@Suite struct ProgressTests {
    private let time = ManualClock()

    @Test func plainLinesEveryFiveSeconds() throws {
        let descriptors = try Descriptors()
        let progress = Progress(descriptors.console(), "import", totalBytes: 1_000, isQuiet: false, time.clock)
        progress.update(rows: 1, bytes: 1)
        time.advance(4_999)
        progress.update(rows: 10, bytes: 10)
        #expect(descriptors.errors.text.isEmpty)
        time.advance(1)
        progress.update(rows: 100, bytes: 250)
        #expect(descriptors.errors.text == "import: 100 leaves, 20 a second, 25 %, 15 s left\n")
        progress.update(rows: 110, bytes: 260)
        time.advance(4_999)
        progress.update(rows: 120, bytes: 270)
        #expect(descriptors.errors.text.split(separator: "\n").count == 1)
        time.advance(1)
        progress.update(rows: 200, bytes: 500)
        #expect(
            descriptors.errors.text.split(separator: "\n").last == "import: 200 leaves, 20 a second, 50 %, 10 s left")
        progress.end()
        time.advance(2_340)
        progress.finish(rows: 400)
        #expect(descriptors.errors.text.split(separator: "\n").last == "import: 400 leaves in 12.3 s, 32 a second")
        #expect(descriptors.output.bytes.isEmpty)
    }

    @Test func withoutASizeThereIsNoShare() throws {
        for total in [nil, 0] as [Int?] {
            let descriptors = try Descriptors()
            let time = ManualClock()
            let progress = Progress(descriptors.console(), "export", totalBytes: total, isQuiet: false, time.clock)
            time.advance(10_000)
            progress.update(rows: 1_000, bytes: 77)
            #expect(descriptors.errors.text == "export: 1000 leaves, 100 a second\n")
        }
    }

    /// A file may grow while it is read.
    @Test func neverMoreThanAll() throws {
        let descriptors = try Descriptors()
        let progress = Progress(descriptors.console(), "import", totalBytes: 10, isQuiet: false, time.clock)
        time.advance(5_000)
        progress.update(rows: 5, bytes: 20)
        #expect(descriptors.errors.text == "import: 5 leaves, 1 a second, 100 %, 0 s left\n")
    }

    @Test(arguments: [(99, "0 s"), (50, "5 s"), (10, "45 s"), (8, "57 s"), (5, "1 min 35 s"), (1, "8 min 15 s")])
    func howLongTheRestTakes(_ percent: Int, _ left: String) throws {
        let descriptors = try Descriptors()
        let progress = Progress(descriptors.console(), "import", totalBytes: 100, isQuiet: false, time.clock)
        time.advance(5_000)
        progress.update(rows: 5, bytes: percent)
        #expect(descriptors.errors.text == "import: 5 leaves, 1 a second, \(percent) %, \(left) left\n")
    }

    @Test func aTerminalHasABar() throws {
        let terminal = try PseudoTerminal()
        let output = try ScratchFile()
        let console = Console(
            output: output.descriptor, errors: terminal.descriptor, input: output.descriptor, signals: ScriptedSignals()
        )
        let progress = Progress(console, "import", totalBytes: 100, isQuiet: false, time.clock)
        time.advance(99)
        progress.update(rows: 1, bytes: 1)
        #expect(terminal.shown.isEmpty)
        time.advance(901)
        progress.update(rows: 10, bytes: 50)
        #expect(terminal.shown == "\r\u{1B}[K[##########..........] import: 10 leaves, 10 a second, 50 %, 1 s left")
        time.advance(100)
        progress.update(rows: 20, bytes: 100)
        #expect(terminal.shown.contains("[####################]"))
        progress.finish(rows: 22)
        #expect(terminal.shown == "\r\u{1B}[Kimport: 22 leaves in 1.1 s, 20 a second\n")
    }

    @Test(arguments: [(5, "5 s"), (60, "1 min 0 s"), (3_725, "1 h 2 min"), (93_600, "1 d 2 h")])
    func spans(_ seconds: Int, _ text: String) { #expect(ProgressLine.span(seconds: seconds) == text) }

    /// An estimate that was too low gives no remaining time.
    @Test func estimates() throws {
        let descriptors = try Descriptors()
        let progress = Progress(
            descriptors.console(), "export", totalBytes: nil, estimatedRows: 1_000, isQuiet: false, time.clock)
        time.advance(5_000)
        progress.update(rows: 250, bytes: 0)
        #expect(descriptors.errors.text == "export: 250 leaves, 50 a second, 25 %, 15 s left\n")
        time.advance(5_000)
        progress.update(rows: 1_200, bytes: 0)
        #expect(descriptors.errors.text.hasSuffix("export: 1200 leaves, 120 a second\n"))
        let snapshot = ReplayProgress(
            descriptors.console(), "snapshot", "leaves", total: 10, isEstimate: true, time.clock)
        time.advance(5_000)
        snapshot.advance(to: 20)
        #expect(descriptors.errors.text.hasSuffix("snapshot: 20 leaves, 4 a second\n"))
    }

    @Test func quiet() throws {
        let terminal = try PseudoTerminal()
        let console = Console(
            output: terminal.descriptor, errors: terminal.descriptor, input: terminal.descriptor,
            signals: ScriptedSignals())
        let progress = Progress(console, "import", totalBytes: 100, isQuiet: true, time.clock)
        let replay = ReplayProgress(console, "replay", total: 100, isQuiet: true, time.clock)
        time.advance(10_000)
        progress.update(rows: 1, bytes: 1)
        replay.advance(by: 1)
        progress.end()
        replay.end()
        progress.finish(rows: 2)
        replay.finish("all")
        #expect(terminal.shown.isEmpty)
    }
}

/// Checks that a replay shows its progress and keeps to its rate.
@Suite struct ReplayProgressTests {
    private let time = ManualClock()

    @Test func lines() throws {
        let descriptors = try Descriptors()
        let progress = ReplayProgress(descriptors.console(), "replay", total: 400, time.clock)
        progress.advance(by: 10)
        #expect(descriptors.errors.text.isEmpty)
        time.advance(5_000)
        progress.advance(to: 100)
        #expect(descriptors.errors.text == "replay: 100 entries, 20 a second, 25 %, 15 s left\n")
        time.advance(5_000)
        progress.advance(by: 500)
        #expect(progress.done == 600)
        #expect(descriptors.errors.text.hasSuffix("replay: 600 entries, 60 a second, 100 %, 0 s left\n"))
        progress.finish("600 entries")
        #expect(descriptors.errors.text.hasSuffix("\nreplay: 600 entries in 10.0 s\n"))
        #expect(time.allPauses.isEmpty)
    }

    /// One entry may be an import of millions of leaves: its progress is measured in parts.
    @Test func bulkEntriesCountByTheirParts() throws {
        let descriptors = try Descriptors()
        let console = descriptors.console()
        let progress = ReplayProgress(
            console, "replay", total: 100_000, bulk: BulkRead(snapshotLeaves: 100_000, parts: 4), time.clock)
        time.advance(5_000)
        try progress.note(BulkRead(snapshotLeaves: 100_000, parts: 0))
        #expect(descriptors.errors.text == "replay: 0 entries, 100000 leaves, 20000 a second, 25 %, 15 s left\n")
        time.advance(5_000)
        try progress.note(BulkRead(snapshotLeaves: 100_000, parts: 2, partLeaves: 60_000))
        #expect(
            descriptors.errors.text.hasSuffix("replay: 0 entries, 160000 leaves, 16000 a second, 50 %, 10 s left\n"))
        time.advance(5_000)
        progress.advance(to: 50_000)
        #expect(
            descriptors.errors.text.hasSuffix("replay: 50000 entries, 160000 leaves, 14000 a second, 62 %, 9 s left\n"))
        _ = console.interruption.note(2)
        #expect(throws: Interrupted.self) { try progress.note(BulkRead()) }
    }

    @Test func otherUnitsAndNoTotal() throws {
        let descriptors = try Descriptors()
        let progress = ReplayProgress(descriptors.console(), "write", "leaves", time.clock)
        time.advance(8_000)
        progress.advance(to: 4)
        #expect(descriptors.errors.text == "write: 4 leaves, 0 a second\n")
        // No work is done yet, so there is no estimate of the remaining time.
        let none = try Descriptors()
        let idle = ReplayProgress(none.console(), "replay", total: 10, time.clock)
        time.advance(5_000)
        idle.advance(to: 0)
        #expect(none.errors.text == "replay: 0 entries, 0 a second\n")
    }

    /// For all step sizes: N units at a rate R take N/R seconds.
    @Test(arguments: [1, 7, 100, 999], [1, 10, 1_000]) func theRateIsKept(_ step: Int, _ rate: Int) throws {
        let descriptors = try Descriptors()
        let progress = ReplayProgress(descriptors.console(), "replay", rate: rate, isQuiet: true, time.clock)
        let start = time.clock.now()
        for _ in 0..<20 { progress.advance(by: step) }
        let passed = time.clock.now() - start
        #expect(passed == Int64(20 * step) * 1_000 / Int64(rate))
        #expect(time.allPauses.allSatisfy { (1...200).contains($0) })
    }

    /// Checks that work slower than the rate does not wait.
    @Test func slowTerminalsDoNotWait() throws {
        let descriptors = try Descriptors()
        let progress = ReplayProgress(descriptors.console(), "replay", rate: 100, isQuiet: true, time.clock)
        for _ in 0..<50 {
            time.advance(11)
            progress.advance(by: 1)
        }
        #expect(time.allPauses.isEmpty)
        progress.advance(by: 10)
        #expect(time.allPauses.reduce(0, +) == 50)
    }

    @Test func itReportsWhileItWaits() throws {
        let descriptors = try Descriptors()
        let progress = ReplayProgress(descriptors.console(), "replay", total: 100, rate: 1, time.clock)
        progress.advance(by: 12)
        #expect(descriptors.errors.text.split(separator: "\n").count == 2)
    }

    @Test(arguments: [
        (nil, 1_000, 1_000), (1, 1_000, 1), (4, 1_000, 1), (5, 1_000, 1), (10, 1_000, 2), (500, 1_000, 100),
        (1_000_000, 1_000, 1_000),
    ]) func pagesAreSmallEnoughToWaitBetween(_ rate: Int?, _ most: Int, _ expected: Int) throws {
        let progress = ReplayProgress(try Descriptors().console(), "replay", rate: rate, time.clock)
        #expect(progress.pageLimit(atMost: most) == expected)
    }

    @Test(arguments: [
        ("1", true), ("100000000", true), ("0", false), ("-1", false), ("fast", false), ("100000001", false),
    ])
    func rates(_ text: String, _ isValid: Bool) throws {
        let specification = CommandSpecification("x", "x", options: [ReplayProgress.rateOption])
        let parsed = try ParsedArguments(["--rate", text], specification, Environment(values: [:]))
        if isValid {
            #expect(try ReplayProgress.rate(parsed) == Int(text))
        } else {
            #expect(throws: UsageError.self) { try ReplayProgress.rate(parsed) }
        }
    }
}

/// Checks that `log verify` shows progress for the log, for the stored tree, and for comparisons.
@Suite struct VerifyProgressTests {
    private let time = ManualClock()

    @Test func lines() throws {
        let descriptors = try Descriptors()
        let console = descriptors.console()
        let progress = VerifyProgress(console, isQuiet: false, time.clock)
        try progress.update(.begins(entries: 200, bulk: BulkRead(), rows: 200))
        #expect(descriptors.errors.text.isEmpty)
        time.advance(5_000)
        try progress.update(.entries(100))
        #expect(descriptors.errors.text == "verify: 100 of 200 entries, 20 a second, 25 %, 15 s left\n")
        try progress.update(.entries(200))
        time.advance(5_000)
        try progress.update(.rows(100))
        #expect(
            descriptors.errors.text.hasSuffix(
                "verify: 200 of 200 entries, 100 of 200 rows of the tree, 30 a second, 75 %, 3 s left\n"))
        #expect(progress.entries == 200)
        _ = console.interruption.note(2)
        #expect(throws: Interrupted.self) { try progress.update(.rows(200)) }
    }

    @Test func anEmptyLog() throws {
        let descriptors = try Descriptors()
        let progress = VerifyProgress(descriptors.console(), isQuiet: false, time.clock)
        time.advance(5_000)
        try progress.update(.begins(entries: 0, bulk: BulkRead(), rows: 0))
        #expect(descriptors.errors.text == "verify: 0 of 0 entries, 0 a second\n")
    }

    @Test func bulkEntries() throws {
        let descriptors = try Descriptors()
        let progress = VerifyProgress(descriptors.console(), isQuiet: false, time.clock)
        try progress.update(.begins(entries: 0, bulk: BulkRead(parts: 2), rows: 100_000))
        time.advance(5_000)
        try progress.update(.bulk(BulkRead(parts: 1, partLeaves: 40_000)))
        #expect(
            descriptors.errors.text == "verify: 0 of 0 entries, 40000 leaves of them, 8000 a second, 25 %, 15 s left\n")
    }
}

/// Checks that work without measurable progress shows its elapsed time, and nothing once it is done.
@Suite struct ElapsedLineTests {
    @Test func onATerminal() throws {
        let terminal = try PseudoTerminal()
        let console = Console(
            output: terminal.descriptor, errors: terminal.descriptor, input: terminal.descriptor,
            signals: ScriptedSignals())
        var seen = ""
        let result = console.reporting("removing", isQuiet: false, patience: 0, interval: 1) { line in
            waitUntil {
                seen += terminal.shown
                return seen.contains("removing, 0 s")
            }
            line.note("clearing up")
            waitUntil {
                seen += terminal.shown
                return seen.contains("clearing up, 0 s")
            }
            return 7
        }
        #expect(result == 7)
        seen += terminal.shown
        #expect(seen.hasSuffix("\r\u{1B}[K"))
    }

    @Test func whatIsQuickOrQuietSaysNothing() throws {
        let terminal = try PseudoTerminal()
        let console = Console(
            output: terminal.descriptor, errors: terminal.descriptor, input: terminal.descriptor,
            signals: ScriptedSignals())
        console.reporting("quick", isQuiet: false) { _ in }
        console.reporting("quiet", isQuiet: true, patience: 0, interval: 1) { $0.note("still quiet") }
        let line = ElapsedLine(console, "twice", isQuiet: false)
        line.end()
        line.end()
        #expect(throws: Interrupted.self) {
            try console.reporting("failing", isQuiet: false) { _ in throw Interrupted() }
        }
        #expect(terminal.shown.isEmpty)
    }

    private func waitUntil(_ condition: () -> Bool) {
        let end = Clock.monotonicMilliseconds + 30_000
        while !condition(), Clock.monotonicMilliseconds < end { ProgressClock.system.pause(1) }
    }
}
