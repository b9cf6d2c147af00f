import Testing

@testable import LogStore

/// Tests of when a gateway regards another gateway's lease as expired: see `HeartbeatWatch`.
@Suite struct HeartbeatWatchTests {
    private func heartbeat(_ gateway: String, _ number: Int64, seenAt: String = "then") -> GatewayHeartbeat {
        GatewayHeartbeat(gateway: gateway, heartbeat: number, seenAt: seenAt)
    }

    private func watch() -> HeartbeatWatch {
        HeartbeatWatch(leaseExpiryMilliseconds: 1_000, heartbeatMilliseconds: 200)
    }

    /// Checks every 200 ms from `start` on. Returns the number of checks until a gateway was dead.
    private func looksUntilDead(_ watch: inout HeartbeatWatch, from start: Int64, _ heartbeats: [GatewayHeartbeat])
        -> Int?
    {
        for look in 0..<50 {
            let now = start + Int64(look) * 200
            if !watch.look(heartbeats, asked: now, answered: now).isEmpty { return look }
        }
        return nil
    }

    @Test func whatDoesNotMoveForSoLongIsDead() {
        var watch = watch()
        #expect(looksUntilDead(&watch, from: 5_000, [heartbeat("a", 7)]) == 5)
        #expect(watch.look([heartbeat("a", 7)], asked: 6_200, answered: 6_200) == [heartbeat("a", 7)])
        #expect(watch.look([heartbeat("a", 8)], asked: 6_400, answered: 6_400).isEmpty)
    }

    @Test func whatMovesIsAlive() {
        var watch = watch()
        for number in 0..<100 as Range<Int64> {
            let now = number * 200
            #expect(
                watch.look(
                    [heartbeat("a", number / 4), heartbeat("b", 1, seenAt: "\(number)")], asked: now, answered: now
                )
                .isEmpty)
        }
    }

    /// Checks that a heartbeat's age counts from the watcher's first check, not from the time it was written.
    @Test func aWatcherThatStartsKnowsNothing() {
        var watch = watch()
        #expect(watch.look([heartbeat("a", 1)], asked: 1_000_000, answered: 1_000_000).isEmpty)
    }

    @Test func aStalledWatcherStartsAgain() {
        var watch = watch()
        for look in 0..<4 as Range<Int64> {
            #expect(watch.look([heartbeat("a", 1)], asked: look * 200, answered: look * 200).isEmpty)
        }
        #expect(watch.look([heartbeat("a", 1)], asked: 60_000, answered: 60_000).isEmpty)
        #expect(looksUntilDead(&watch, from: 60_200, [heartbeat("a", 1)]) == 4)
    }

    @Test func aWatcherStartsAgainAfterAFailedLook() {
        var watch = watch()
        for look in 0..<4 as Range<Int64> {
            _ = watch.look([heartbeat("a", 1)], asked: look * 200, answered: look * 200)
        }
        watch.forget()
        #expect(looksUntilDead(&watch, from: 800, [heartbeat("a", 1)]) == 5)
    }

    /// Checks that slow answers do not shorten the expiry: the database reads a value at an unknown moment between
    /// request and answer.
    @Test func slowAnswersExpireNoGateway() {
        var watch = watch()
        #expect(watch.look([heartbeat("a", 1)], asked: 0, answered: 400).isEmpty)
        #expect(watch.look([heartbeat("a", 1)], asked: 500, answered: 900).isEmpty)
        #expect(watch.look([heartbeat("a", 1)], asked: 1_300, answered: 1_800).isEmpty)
        #expect(watch.look([heartbeat("a", 1)], asked: 1_900, answered: 1_900) == [heartbeat("a", 1)])
    }
}
