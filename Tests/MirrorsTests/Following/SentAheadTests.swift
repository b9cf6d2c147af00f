import Engine
import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Tests of steps of several pages: the target writes one page's rows while the next page is read.
@Suite struct SentAheadTests {
    private struct Side {
        let source: LogConnection
        let target: PostgresConnection
        var stepper: MirrorStepWriter
        var mirrors: [ActiveMirror]

        /// Takes a step. Returns its result with the seqs of the pages that it reached.
        mutating func advance(
            through last: Int64 = .max, _ transaction: MirrorStepWriter.Transaction = .own,
            page: (Int64) throws -> Void = { _ in }
        ) throws -> (step: Result<MirrorStepWriter.Step, any Error>, pages: [Int64]) {
            let record = try #require(try source.beginSnapshot(stepper.namespace))
            defer { source.endSnapshot() }
            var pages: [Int64] = []
            let step = Result {
                try stepper.advance(&mirrors, in: record, through: last, transaction) { seq in
                    pages.append(seq)
                    try page(seq)
                }
            }
            return (step, pages)
        }

        func refusal(of result: Result<MirrorStepWriter.Step, any Error>) -> String? {
            guard case .failure(MirrorError.table(let name, _)) = result else { return nil }
            return name
        }
    }

    /// Runs `body` with two mirrors of the same records, and pages of two entries.
    private func withSide(_ body: (MirrorBench, inout Side) throws -> Void) throws {
        try MirrorBench.with { bench in
            for name in ["a", "b"] {
                try bench.apply(
                    #"{"name": "\#(name)", "path": "/v/{k}", "columns": {"x": {"type": "bigint", "path": "."}}}"#)
            }
            let source = try LogConnection(bench.url)
            let target = try PostgresConnection(bench.url)
            defer {
                source.close()
                target.close()
            }
            var stepper = MirrorStepWriter(source: source, target: target, namespace: bench.namespace.id)
            stepper.entriesAtOnce = 2
            stepper.pagesAtOnce = 4
            let mirrors = try ["a", "b"].map { name in
                let mirror = try bench.mirror(name)
                return ActiveMirror(mirror, try #require(try MirrorCursor.of(mirror, target)))
            }
            var side = Side(source: source, target: target, stepper: stepper, mirrors: mirrors)
            try body(bench, &side)
        }
    }

    private func write(_ bench: MirrorBench, _ values: ClosedRange<Int>) throws {
        for value in values { try bench.set("/v/k\(value)", "\(value)") }
    }

    private func seqs(_ bench: MirrorBench) throws -> [String] {
        try bench.lines("select seq from pathmirror.mirror_cursor order by seq")
    }

    private let counts = "select (select count(*) from mirror.a), (select count(*) from mirror.b)"

    @Test func aStepTakesSomePages() throws {
        try withSide { bench, side in
            try write(bench, 1...9)
            let first = try side.advance()
            #expect(try first.step.get().seq == 8 && first.pages == [2, 4, 6, 8])
            #expect(try seqs(bench) == ["8", "8"] && bench.lines(counts) == ["8|8"])
            let second = try side.advance()
            #expect(try second.step.get().seq == 9 && second.pages == [9])
            #expect(try bench.lines(counts) == ["9|9"] && bench.problems() == [])
        }
    }

    @Test func itEndsWhereItHasTo() throws {
        try withSide { bench, side in
            try write(bench, 1...8)
            // Once at the end of a page, and once in the middle.
            #expect(try side.advance(through: 4).step.get().seq == 4)
            #expect(try side.advance(through: 5).step.get().seq == 5)
            #expect(try side.advance().step.get().seq == 8)
            #expect(try bench.lines(counts) == ["8|8"])
        }
    }

    /// Checks that a careful step takes one page and sends nothing ahead.
    @Test func withCareItIsOnePage() throws {
        try withSide { bench, side in
            try write(bench, 1...8)
            side.mirrors[1].isCareful = true
            #expect(try side.advance().step.get().seq == 2)
            #expect(try side.advance().step.get().seq == 8)
        }
    }

    /// Checks that a step that reads the tree, which is at the head, continues to the head from any page.
    @Test(arguments: 1...8) func theTreeIsAskedOnAnyPage(entry: Int) throws {
        try withSide { bench, side in
            let definition = #"{"name": "a", "path": "/v/{k}", "columns": {"x": "bigint", "y": "bigint"}}"#
            try bench.apply(definition)
            let mirror = try bench.mirror("a")
            side.mirrors = [ActiveMirror(mirror, try #require(try MirrorCursor.of(mirror, side.target)))]
            for number in 1...12 {
                if number == entry {
                    try bench.set("/v/k0/y", "7")
                } else {
                    try bench.set("/v/k\(number)", "{\"x\": \(number)}")
                }
            }
            #expect(try side.advance().step.get().seq == 12)
            #expect(try bench.lines("select count(x), count(y) from mirror.a") == ["11|1"])
            #expect(try bench.lines("select seq from pathmirror.mirror_cursor order by seq desc limit 1") == ["12"])
        }
    }

    /// Checks that a row of the first page that is refused while the second is read is attributed to its mirror. The
    /// step leaves no trace, and a careful step writes all other rows.
    @Test func aRefusedRowIsItsMirrorsOwn() throws {
        try withSide { bench, side in
            try bench.script("alter table mirror.b add constraint small check (x <> 2)")
            try write(bench, 1...9)
            let step = try side.advance()
            #expect(side.refusal(of: step.step) == "b" && step.pages == [2, 4])
            #expect(!side.target.isInTransaction && side.target.pipelinesInFlight == 0)
            #expect(try seqs(bench) == ["0", "0"] && bench.lines(counts) == ["0|0"])
            #expect(side.mirrors.map(\.seq) == [0, 0])
            side.mirrors[1].isCareful = true
            while try side.advance().step.get().seq < 9 {}
            #expect(try bench.lines(counts) == ["9|8"] && seqs(bench) == ["9", "9"])
            #expect(try bench.errors("b").count == 1)
        }
    }

    /// Checks the cost of a refused row on the last page of a step: one step of several pages, one of a single page,
    /// and a careful step after each, however many pages precede it.
    @Test func aRefusedRowCostsLittle() throws {
        try withSide { bench, side in
            try bench.script("alter table mirror.b add constraint small check (x <> 8)")
            try write(bench, 1...24)
            var steps: [Int64?] = []
            while side.mirrors[0].seq < 24 {
                let step = try side.advance()
                steps.append(try? step.step.get().seq)
                if case .failure = step.step {
                    #expect(side.refusal(of: step.step) == "b")
                    side.stepper.beCareful(with: &side.mirrors[1])
                }
            }
            #expect(steps == [nil, 2, 4, 6, nil, 8, 10, 12, 14, 22, 24])
            #expect(try bench.lines(counts) == ["24|23"] && bench.errors("b").count == 1)
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that earlier work of a surrounding transaction remains.
    @Test func aRefusedRowLeavesWhatWasThere() throws {
        try withSide { bench, side in
            try bench.script("alter table mirror.b add constraint small check (x <> 2)")
            try write(bench, 1...9)
            let catchingUp = CatchingUp(
                source: side.source, target: side.target, mirror: try bench.mirror("b"), progress: { _ in })
            try side.target.executeScript("begin; create temporary table kept (n integer)")
            let record = try #require(try side.source.beginSnapshot(side.stepper.namespace))
            defer { side.source.endSnapshot() }
            let step = try catchingUp.advance(&side.mirrors[1], in: record)
            #expect(step.seq == 9 && side.target.isInTransaction && side.target.pipelinesInFlight == 0)
            try side.target.executeScript("insert into kept values (1); commit")
            #expect(try bench.lines(counts) == ["0|8"])
        }
    }

    /// Checks a refusal while a page is in flight, with the pages of `CatchingUp`.
    @Test func aRefusalInATransactionOfOthers() throws {
        try withSide { bench, side in
            try bench.script("alter table mirror.b add constraint small check (x <> 2)")
            try write(bench, 1...9)
            try side.target.executeScript("begin; create temporary table kept (n integer); savepoint step")
            let step = try side.advance(.joined)
            #expect(side.refusal(of: step.step) == "b" && step.pages == [2, 4])
            #expect(side.target.isInTransaction && side.target.pipelinesInFlight == 0)
            try side.target.executeScript("rollback to savepoint step; insert into kept values (1); commit")
            #expect(try bench.lines(counts) == ["0|0"])
        }
    }

    /// Checks that a failure on any page rolls back rows that were sent ahead, and that the next step writes all of
    /// them.
    @Test(arguments: [2, 4, 6] as [Int64]) func aFailureTakesBackWhatWasSent(page: Int64) throws {
        struct Failure: Error {}
        try withSide { bench, side in
            try write(bench, 1...9)
            let failed = try side.advance(page: { if $0 == page { throw Failure() } })
            #expect(throws: Failure.self) { try failed.step.get() }
            #expect(!side.target.isInTransaction && side.target.pipelinesInFlight == 0)
            #expect(try seqs(bench) == ["0", "0"] && bench.lines(counts) == ["0|0"])
            while try side.advance().step.get().seq < 9 {}
            #expect(try bench.lines(counts) == ["9|9"] && bench.problems() == [])
        }
    }

    /// Checks that the loss of the source's or the target's connection with a page in flight leaves no rows.
    @Test(arguments: [true, false]) func aLostConnectionLeavesNothing(isSource: Bool) throws {
        try withSide { bench, side in
            try write(bench, 1...9)
            let (source, target) = (side.source, side.target)
            let failed = try side.advance(page: { seq in
                guard seq == 4 else { return }
                if isSource { source.close() } else { target.close() }
            })
            #expect(throws: (any Error).self) { try failed.step.get() }
            #expect(target.pipelinesInFlight == 0 && target.isOpen == isSource)
            #expect(!isSource || !target.isInTransaction)
            #expect(try seqs(bench) == ["0", "0"] && bench.lines(counts) == ["0|0"])
        }
    }

    /// Checks records that several pages change, in tables with a unique value.
    @Test func laterPagesWin() throws {
        try withSide { bench, side in
            for number in 1...30 { try bench.set("/v/k\(number % 3)", "\(number)") }
            try bench.set("/v/k1", "null")
            while try side.advance().step.get().seq < 31 {}
            #expect(try bench.lines("select k, x, _seq from mirror.a order by k") == ["k0|30|30", "k2|29|29"])
            #expect(try bench.problems() == [])
        }
    }
}
