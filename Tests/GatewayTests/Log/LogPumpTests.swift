import Engine
import LogStore
import TestSupport
import Testing

@testable import Gateway

/// Checks that a reader receives each entry once and in order, and no more than it accepts, for every order of events.
struct LogPumpTests {
    private func position(_ seq: Int64) -> LogLinePosition { LogLinePosition(LogPosition(seq: seq)) }

    @Test func `from slice to slice, and then waits`() {
        var pump = LogPump(at: position(0))
        #expect(pump.received(to: position(5), isAtEnd: false, isFull: false) == .read(position(5)))
        #expect(pump.received(to: position(9), isAtEnd: true, isFull: false) == .awaitEntry(10))
        #expect(pump.isAtEnd)
        #expect(pump.woke(isFull: false) == .read(position(9)))
        // A wake during a read has no effect: the answer will include the new entry.
        #expect(pump.woke(isFull: false) == .nothing && pump.drained() == .nothing)
        #expect(pump.received(to: position(9), isAtEnd: true, isFull: false) == .awaitEntry(10))
    }

    @Test func `nothing is read for a client that takes nothing`() {
        var pump = LogPump(at: position(0))
        #expect(pump.received(to: position(5), isAtEnd: false, isFull: true) == .nothing)
        #expect(pump.woke(isFull: true) == .nothing)
        #expect(pump.drained() == .read(position(5)))
        #expect(pump.received(to: position(6), isAtEnd: true, isFull: true) == .awaitEntry(7))
        #expect(pump.woke(isFull: true) == .nothing)
        #expect(!pump.isAtEnd)
        #expect(pump.drained() == .read(position(6)))
    }

    /// Checks that the client receives all entries while the log grows, the client reads at random times, and wakes
    /// arrive late, twice or without cause. The pump never reads twice at once, and never while the client's buffer is
    /// full.
    @Test(arguments: 0..<200 as Range<UInt64>) func `any order of events`(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var pump = LogPump(at: position(0))
        var (head, given, queued) = (Int64(0), Int64(0), 0)
        var reading: LogLinePosition? = position(0)
        var awaited: Int64?
        func follow(_ ask: LogPump.Ask) {
            switch ask {
            case .read(let position):
                #expect(reading == nil && position.seq == given && queued <= 2)
                reading = position
            case .awaitEntry(let seq): awaited = seq
            case .nothing: break
            }
        }
        func step(_ choice: Int) {
            switch choice {
            case 0: head += Int64.random(in: 0...3, using: &generator)
            case 1:
                guard let position = reading else { return }
                reading = nil
                let end = min(head, position.seq + 2)
                queued += Int(end - given)
                given = end
                follow(
                    pump.received(to: LogLinePosition(LogPosition(seq: end)), isAtEnd: end == head, isFull: queued > 2))
            case 2:
                guard queued > 0 else { return }
                queued = 0
                follow(pump.drained())
            case 3:
                guard let seq = awaited, head >= seq else { return }
                awaited = nil
                follow(pump.woke(isFull: queued > 2))
            default: follow(pump.woke(isFull: queued > 2))
            }
        }
        for _ in 0..<300 { step(Int.random(in: 0...4, using: &generator)) }
        // All entries arrive even if only the necessary events happen.
        for _ in 0..<2_000 where given < head || queued > 0 { for choice in 1...3 { step(choice) } }
        #expect(given == head && queued == 0)
    }
}
