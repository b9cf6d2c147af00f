import Runtime
import Synchronization
import Testing

@Suite struct StallMeterTests {
    /// A clock that the test advances.
    private final class HandClock: Sendable {
        let time = Atomic<UInt64>(1_000_000_000_000)
        func pass(milliseconds: UInt64) { time.wrappingAdd(milliseconds * 1_000_000, ordering: .relaxed) }
    }

    private final class Heard: Sendable {
        let words = MutexBox<[String]>([])
    }

    private func meter(_ clock: HandClock, _ heard: Heard) -> StallMeter {
        let now: @Sendable () -> UInt64 = { clock.time.load(ordering: .relaxed) }
        return StallMeter(name: "t", tooLongMilliseconds: 100, now: now) { kind, nanoseconds, count in
            heard.words.withLock { $0.append("\(kind) \(nanoseconds / 1_000_000) \(count)") }
        }
    }

    @Test func theLongestAndWhatItWasSpentOn() {
        let (clock, heard) = (HandClock(), Heard())
        let meter = meter(clock, heard)
        meter.measure("input") {
            clock.pass(milliseconds: 10)
            meter.measure("parse") { clock.pass(milliseconds: 200) }
            meter.measure("answer") { clock.pass(milliseconds: 20) }
            #expect(meter.elapsedNanoseconds == 230_000_000)
        }
        #expect(meter.longest == 230_000_000)
        #expect(heard.words.withLock { $0 } == ["parse 230 1"])
        #expect(meter.elapsedNanoseconds == 0)
        // Time spread over many inner parts is attributed to the outer one.
        clock.pass(milliseconds: 2_000)
        meter.measure("posted") { for _ in 0..<10 { meter.measure("event") { clock.pass(milliseconds: 30) } } }
        #expect(heard.words.withLock { $0.last } == "posted 300 1")
    }

    @Test func warningsAreRareAndCount() {
        let (clock, heard) = (HandClock(), Heard())
        let meter = meter(clock, heard)
        for _ in 0..<5 { meter.measure("input") { clock.pass(milliseconds: 150) } }
        #expect(heard.words.withLock { $0 } == ["input 150 1"])
        clock.pass(milliseconds: 1_000)
        meter.measure("input") { clock.pass(milliseconds: 99) }
        meter.measure("input") { clock.pass(milliseconds: 100) }
        #expect(heard.words.withLock { $0.last } == "input 100 5")
        #expect(meter.tooLongCount == 6)
    }

    @Test func longStallsAreForgotten() {
        let (clock, heard) = (HandClock(), Heard())
        let meter = meter(clock, heard)
        meter.measure("input") { clock.pass(milliseconds: 500) }
        clock.pass(milliseconds: 61_000)
        meter.measure("input") { clock.pass(milliseconds: 5) }
        #expect(meter.longest == 500_000_000)
        clock.pass(milliseconds: 61_000)
        meter.measure("input") { clock.pass(milliseconds: 7) }
        #expect(meter.longest == 7_000_000)
        clock.pass(milliseconds: 200_000)
        #expect(meter.longest == 0)
    }
}
