import Testing

@testable import Mirrors

/// When records that wait for other tables are tried again: in simulated time, where a try of a record takes half a millisecond.
@Suite struct WaitingRowsTests {
    /// Records that wait, by their places, and the tries.
    private struct Simulation {
        var waiting = WaitingRows(MirrorSettings())
        var now: Int64 = 1_000
        /// Records that no other table ever lets in, by ascending place.
        var old: [UInt32]
        var tried: [(record: String, at: Int64)] = []
        var slices: [(milliseconds: Int64, count: Int)] = []
        /// Those for which the other row has come.
        var resolved: Set<String> = []

        static func place(_ number: UInt32) -> [UInt8] {
            [UInt8](repeating: 0, count: 12) + withUnsafeBytes(of: number.bigEndian) { Array($0) }
        }

        static func name(_ number: UInt32) -> String { "/old/\(number)" }

        /// Lets time pass until a moment, with all tries in between.
        mutating func run(until end: Int64, every step: Int64 = 10) {
            while now < end {
                switch waiting.next("m", now) {
                case nil: now += step
                case .fresh(let records):
                    let began = now
                    take(records)
                    waiting.triedFresh("m", left: Set(records.filter { !resolved.contains($0) }), now)
                    slices.append((now - began, records.count))
                case .slice(let place, let limit):
                    let began = now
                    let last = place.map { $0.suffix(4).reduce(0) { $0 << 8 | UInt32($1) } }
                    let some = Array(
                        old[(last.map { last in old.firstIndex { $0 > last } ?? old.count } ?? 0)...].prefix(limit))
                    let names = some.map(Self.name)
                    take(names)
                    let left = names.filter { !resolved.contains($0) }.count
                    if left < names.count { old.removeAll { resolved.contains(Self.name($0)) } }
                    waiting.triedSlice(
                        "m", count: some.count, place: some.last.map(Self.place), left: left, began: began, now)
                    if !some.isEmpty { slices.append((now - began, some.count)) }
                }
            }
        }

        private mutating func take(_ records: [String]) {
            now += max(1, Int64(records.count) / 2)
            for record in records { tried.append((record, now)) }
        }

        func times(of record: String) -> [Int64] { tried.filter { $0.record == record }.map(\.at) }
    }

    @Test func aFreshRecordIsTriedSoonAndMoreAndMoreSeldom() {
        var simulation = Simulation(old: [])
        simulation.run(until: 2_000)
        simulation.waiting.began(["/a"], of: "m", simulation.now)
        simulation.run(until: 60_000)
        let times = simulation.times(of: "/a").map { $0 - 2_000 }
        #expect(times.count == WaitingRows.freshTries)
        #expect(times.first.map { $0 <= 300 } == true && times.last.map { $0 < 15_000 } == true, "\(times)")
    }

    @Test func aRecordThatGotWhatItWaitedForIsTriedNoMore() {
        var simulation = Simulation(old: [])
        simulation.run(until: 2_000)
        simulation.waiting.began(["/a", "/b"], of: "m", simulation.now)
        simulation.resolved = ["/a"]
        simulation.run(until: 60_000)
        #expect(simulation.times(of: "/a").count == 1)
    }

    /// One that writes a dangling row each second does not have all others tried each second.
    @Test func newRecordsDoNotTakeOldOnesAlong() {
        var simulation = Simulation(old: Array(0..<500))
        simulation.run(until: 120_000)
        let before = simulation.tried.count
        for second in 1...300 {
            simulation.waiting.began(["/new/\(second)"], of: "m", simulation.now)
            simulation.run(until: 120_000 + Int64(second) * 1_000)
        }
        let old = simulation.tried.dropFirst(before).filter { $0.record.hasPrefix("/old/") }.count
        // A round in half a minute.
        #expect((4_000...6_000).contains(old), "\(old)")
        let busy = simulation.slices.reduce(0) { $0 + $1.milliseconds }
        #expect(busy < simulation.now / 20, "\(busy)")
        #expect((1...290).allSatisfy { !simulation.times(of: "/new/\($0)").isEmpty })
    }

    /// Among many that wait for ever, one whose parent has come is found by the next round.
    @Test func aRoundReachesEachRecord() {
        var simulation = Simulation(old: Array(0..<20_000))
        simulation.run(until: 60_000)
        simulation.resolved = [Simulation.name(17_777)]
        let began = simulation.now
        simulation.run(until: began + 80_000)
        let found = simulation.times(of: Simulation.name(17_777)).first { $0 >= began }
        #expect(found.map { $0 - began < 55_000 } == true, "\(String(describing: found))")
        // Tries leave half of the time to the other mirrors, and no try is long.
        let busy = simulation.slices.reduce(0) { $0 + $1.milliseconds }
        #expect(busy <= simulation.now * 6 / 10, "\(busy) of \(simulation.now)")
        #expect(simulation.slices.allSatisfy { $0.milliseconds <= 2 * WaitingRows.sliceMilliseconds })
        #expect(simulation.slices.contains { $0.count == WaitingRows.limits.upperBound })
    }

    /// A try that takes long, as with a server far away, is of few records.
    @Test func slicesFitTheirTime() {
        var waiting = WaitingRows(MirrorSettings())
        var now: Int64 = 0
        var limits: [Int] = []
        for number in 1...20 {
            now = max(now, waiting.retryAt("m"))
            guard case .slice(_, let limit) = waiting.next("m", now) else {
                Issue.record("no slice")
                return
            }
            limits.append(limit)
            let began = now
            // 20 ms a record.
            now += Int64(limit) * 20
            waiting.triedSlice(
                "m", count: limit, place: Simulation.place(UInt32(number)), left: limit, began: began, now)
        }
        #expect(limits.dropFirst().allSatisfy { $0 <= 13 }, "\(limits)")
    }

    /// A command of an operator leaves records that wait: each mirror is looked at now and then, and not more often.
    @Test func whereNothingWaitsItIsLookedAtSeldom() {
        var waiting = WaitingRows(MirrorSettings())
        #expect(waiting.retryAt("m") == 0)
        #expect(waiting.next("m", 5) == .slice(after: nil, limit: WaitingRows.firstLimit))
        waiting.triedSlice("m", count: 0, place: nil, left: 0, began: 5, 5)
        #expect(waiting.next("m", 29_000) == nil)
        #expect(waiting.next("m", 30_005) != nil)
    }

    /// Nothing is said of what became of a try that failed as a whole.
    @Test func aTryThatFailsIsFollowedByAPause() {
        var waiting = WaitingRows(MirrorSettings())
        #expect(waiting.next("m", 0) != nil)
        #expect(waiting.next("m", 1) == nil && waiting.retryAt("m") == 200)
    }
}
