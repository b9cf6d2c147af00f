import Testing

@testable import Mirrors

/// Tests of when records that wait for other tables are retried, in simulated time. A try of a record takes half a
/// millisecond.
@Suite struct WaitingRowsTests {
    /// Waiting records in order of their position, and the tries.
    private struct Simulation {
        var waiting = WaitingRows(MirrorSettings())
        var now: Int64 = 1_000
        /// Records that are never accepted, in ascending order of position.
        var old: [UInt32]
        var tried: [(record: String, at: Int64)] = []
        var slices: [(milliseconds: Int64, count: Int)] = []
        /// The records whose referenced row has arrived.
        var resolved: Set<String> = []

        static func position(_ number: UInt32) -> [UInt8] {
            [UInt8](repeating: 0, count: 12) + withUnsafeBytes(of: number.bigEndian) { Array($0) }
        }

        static func name(_ number: UInt32) -> String { "/old/\(number)" }

        /// Advances the time to `end`, with all tries in between.
        mutating func run(until end: Int64, every step: Int64 = 10) {
            while now < end {
                switch waiting.next("m", now) {
                case nil: now += step
                case .fresh(let records):
                    let began = now
                    take(records)
                    waiting.triedFresh("m", left: Set(records.filter { !resolved.contains($0) }), now)
                    slices.append((now - began, records.count))
                case .slice(let position, let limit):
                    let began = now
                    let last = position.map { $0.suffix(4).reduce(0) { $0 << 8 | UInt32($1) } }
                    let some = Array(
                        old[(last.map { last in old.firstIndex { $0 > last } ?? old.count } ?? 0)...].prefix(limit))
                    let names = some.map(Self.name)
                    take(names)
                    let left = names.filter { !resolved.contains($0) }.count
                    if left < names.count { old.removeAll { resolved.contains(Self.name($0)) } }
                    waiting.triedSlice(
                        "m", count: some.count, position: some.last.map(Self.position), left: left, began: began, now)
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

    /// Checks that a new waiting record each second does not cause all other records to be tried each second.
    @Test func newRecordsDoNotTakeOldOnesAlong() {
        var simulation = Simulation(old: Array(0..<500))
        simulation.run(until: 120_000)
        let before = simulation.tried.count
        for second in 1...300 {
            simulation.waiting.began(["/new/\(second)"], of: "m", simulation.now)
            simulation.run(until: 120_000 + Int64(second) * 1_000)
        }
        let old = simulation.tried.dropFirst(before).filter { $0.record.hasPrefix("/old/") }.count
        // One round per half minute.
        #expect((4_000...6_000).contains(old), "\(old)")
        let busy = simulation.slices.reduce(0) { $0 + $1.milliseconds }
        #expect(busy < simulation.now / 20, "\(busy)")
        #expect((1...290).allSatisfy { !simulation.times(of: "/new/\($0)").isEmpty })
    }

    /// Checks that the next round reaches a record whose parent has arrived among many that wait forever.
    @Test func aRoundReachesEachRecord() {
        var simulation = Simulation(old: Array(0..<20_000))
        simulation.run(until: 60_000)
        simulation.resolved = [Simulation.name(17_777)]
        let began = simulation.now
        simulation.run(until: began + 80_000)
        let found = simulation.times(of: Simulation.name(17_777)).first { $0 >= began }
        #expect(found.map { $0 - began < 55_000 } == true, "\(String(describing: found))")
        // Tries leave half of the time to other mirrors, and no try is long.
        let busy = simulation.slices.reduce(0) { $0 + $1.milliseconds }
        #expect(busy <= simulation.now * 6 / 10, "\(busy) of \(simulation.now)")
        #expect(simulation.slices.allSatisfy { $0.milliseconds <= 2 * WaitingRows.sliceMilliseconds })
        #expect(simulation.slices.contains { $0.count == WaitingRows.limits.upperBound })
    }

    /// Checks that slow tries, as with a distant server, contain few records.
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
            // 20 ms per record.
            now += Int64(limit) * 20
            waiting.triedSlice(
                "m", count: limit, position: Simulation.position(UInt32(number)), left: limit, began: began, now)
        }
        #expect(limits.dropFirst().allSatisfy { $0 <= 13 }, "\(limits)")
    }

    /// Checks that a mirror without waiting records is checked only now and then, in case an operator's command leaves
    /// some.
    @Test func whereNothingWaitsItIsLookedAtSeldom() {
        var waiting = WaitingRows(MirrorSettings())
        #expect(waiting.retryAt("m") == 0)
        #expect(waiting.next("m", 5) == .slice(after: nil, limit: WaitingRows.firstLimit))
        waiting.triedSlice("m", count: 0, position: nil, left: 0, began: 5, 5)
        #expect(waiting.next("m", 29_000) == nil)
        #expect(waiting.next("m", 30_005) != nil)
    }

    /// Checks that a try that fails as a whole is followed by a pause.
    @Test func aTryThatFailsIsFollowedByAPause() {
        var waiting = WaitingRows(MirrorSettings())
        #expect(waiting.next("m", 0) != nil)
        #expect(waiting.next("m", 1) == nil && waiting.retryAt("m") == 200)
    }
}
