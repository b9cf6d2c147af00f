import Testing

@testable import HTTPServer

/// Checks that every filed deadline is checked in time, once, and never lost.
@Suite struct DeadlineWheelTests {
    /// A connection's use of the wheel: a deadline that may move, one valid entry, and stale ones.
    private struct Connection {
        var deadline: Int
        var tick: Int
        var expiredAt: Int?
    }

    /// Compares random deadlines that move both ways with the rule itself: a connection expires at the first check at
    /// or after its deadline, and checks come at least every tick.
    @Test(arguments: 0..<200) func noClientIsForgotten(_ seed: UInt64) {
        var dice = SeededGenerator(seed: seed &* 31 + 1)
        let tickLength = [1, 7, 10, 1_000].randomElement(using: &dice) ?? 1
        let bucketCount = [2, 3, 8, 128].randomElement(using: &dice) ?? 8
        var now = Int.random(in: 0...1_000_000, using: &dice)
        var wheel = DeadlineWheel(
            tickMilliseconds: numericCast(tickLength), bucketCount: bucketCount, nowMilliseconds: numericCast(now))
        var connections: [UInt64: Connection] = [:]
        func file(_ id: UInt64) {
            let deadline = connections[id]?.deadline ?? 0
            connections[id]?.tick = numericCast(wheel.file(id, deadlineMilliseconds: numericCast(deadline)))
        }
        for step in 0..<300 {
            switch Int.random(in: 0..<4, using: &dice) {
            case 0:
                let id = UInt64(step)
                let deadline = now + Int.random(in: 0...(tickLength * bucketCount * 2), using: &dice)
                connections[id] = Connection(deadline: deadline, tick: .max)
                file(id)
            case 1:
                guard let id = connections.keys.sorted().randomElement(using: &dice), connections[id]?.expiredAt == nil
                else { continue }
                let deadline = now + Int.random(in: 0...(tickLength * bucketCount * 2), using: &dice)
                connections[id]?.deadline = deadline
                // Only an earlier deadline is filed at once.
                let tick: Int = numericCast(wheel.tick(of: numericCast(deadline)))
                if tick < connections[id]?.tick ?? .max { file(id) }
            default:
                now += Int.random(in: 0...(tickLength * 2), using: &dice)
                for entry in wheel.take(nowMilliseconds: numericCast(now)).flatMap({ $0 }) {
                    guard let connection = connections[entry.connection], connection.expiredAt == nil,
                        connection.tick == Int(entry.tick)
                    else { continue }
                    connections[entry.connection]?.tick = .max
                    if connection.deadline <= now {
                        connections[entry.connection]?.expiredAt = now
                    } else {
                        file(entry.connection)
                    }
                }
                // A connection that is overdue by more than a tick was lost.
                for (id, connection) in connections where connection.expiredAt == nil {
                    #expect(connection.deadline + tickLength > now, "connection \(id) of seed \(seed)")
                }
            }
        }
        for (id, connection) in connections {
            guard let expired = connection.expiredAt else { continue }
            #expect(expired >= connection.deadline, "connection \(id) of seed \(seed) expired early")
        }
    }

    @Test func eachEntryIsHandedOverOnce() {
        var wheel = DeadlineWheel(tickMilliseconds: 10, bucketCount: 4, nowMilliseconds: 0)
        for id in 0..<100 { _ = wheel.file(UInt64(id), deadlineMilliseconds: numericCast(id)) }
        #expect(wheel.count == 100)
        var seen: [UInt64] = []
        for now in stride(from: 0, through: 200, by: 5) {
            seen += wheel.take(nowMilliseconds: numericCast(now)).flatMap { $0 }.map(\.connection)
        }
        #expect(seen.sorted() == (0..<100).map { UInt64($0) })
        #expect(wheel.count == 0)
    }

    @Test func aClockThatStandsStillHandsNothingOver() {
        var wheel = DeadlineWheel(tickMilliseconds: 10, nowMilliseconds: 500)
        _ = wheel.file(1, deadlineMilliseconds: 500)
        #expect(wheel.take(nowMilliseconds: 500).isEmpty)
        #expect(wheel.take(nowMilliseconds: 509).isEmpty)
        #expect(wheel.take(nowMilliseconds: 510).flatMap { $0 }.count == 1)
    }
}
