import TestSupport
import Testing

@testable import LogStore

/// Checks that no live gateway's lease expires, and that every dead gateway's lease does. Simulates gateways and a
/// watcher that is sometimes late, stopped or without the database, and compares with the actual events.
@Suite struct HeartbeatWatchOrderTests {
    private static let expiry: Int64 = 1_000
    private static let heartbeat: Int64 = 200

    private func watch() -> HeartbeatWatch {
        HeartbeatWatch(leaseExpiryMilliseconds: Self.expiry, heartbeatMilliseconds: Self.heartbeat)
    }

    /// The life of a gateway, with regular heartbeats until its death.
    private struct Life {
        let name: String
        let period: Int64
        let start: Int64
        let death: Int64

        func heartbeat(at now: Int64) -> GatewayHeartbeat {
            let lived = min(now, death) - start
            return GatewayHeartbeat(gateway: name, heartbeat: lived / period, seenAt: "then")
        }

        /// Returns the time of the last heartbeat that is visible at `now`.
        func lastHeartbeat(at now: Int64) -> Int64 {
            let lived = min(now, death) - start
            return start + lived / period * period
        }
    }

    @Test(arguments: 1...40 as ClosedRange<UInt64>) func simulatedLives(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let lives = (0..<6).map { index in
            Life(
                name: "g\(index)", period: Int64(50 + random.below(600)), start: -Int64(random.below(500)),
                death: random.oneIn(2) ? .max / 2 : Int64(random.below(20_000)))
        }
        var watch = watch()
        var now: Int64 = 0
        var looks = 0
        while now < 60_000 {
            // Mostly on time, sometimes late or without an answer.
            switch random.below(20) {
            case 0: now += Int64(random.below(5_000))
            case 1: watch.forget()
            default: now += Int64(150 + random.below(100))
            }
            let asked = now
            // The database reads the heartbeats between request and answer.
            let seen = asked + Int64(random.below(100))
            now = seen + Int64(random.below(100))
            let heartbeats = lives.map { $0.heartbeat(at: seen) }
            for expired in watch.look(heartbeats, asked: asked, answered: now) {
                guard let life = lives.first(where: { $0.name == expired.gateway }) else { continue }
                // The gateway has shown no heartbeat for the whole expiry.
                #expect(seen - life.lastHeartbeat(at: seen) >= Self.expiry, "seed \(seed), look \(looks)")
                #expect(life.death < seen, "\(life.name) lives")
            }
            looks += 1
        }
        // Regular checks find all dead gateways and no others.
        var found: Set<String> = []
        for _ in 0..<20 {
            now += Self.heartbeat
            for expired in watch.look(lives.map { $0.heartbeat(at: now) }, asked: now, answered: now) {
                found.insert(expired.gateway)
            }
        }
        #expect(found == Set(lives.filter { $0.death < 60_000 }.map(\.name)))
    }

    /// Tests all sequences of events for a watcher: the heartbeat advances or not, and the check is on time, late or
    /// missing.
    @Test func everyOrderOfLooks() {
        enum Event: CaseIterable { case stands, moves, late, failed }
        var count = 0
        /// - Parameter stood: The time since which checks on time have shown the same heartbeat, or nil if unknown.
        func explore(_ watch: HeartbeatWatch, _ heartbeat: Int64, _ now: Int64, stood: Int64?, depth: Int) {
            guard depth > 0 else { return }
            for event in Event.allCases {
                var (watch, heartbeat, now, stood) = (watch, heartbeat, now, stood)
                switch event {
                case .failed:
                    watch.forget()
                    stood = nil
                    now += 250
                    explore(watch, heartbeat, now, stood: stood, depth: depth - 1)
                    continue
                case .late:
                    // Longer than half of the expiry: the gateways may have been stopped as well.
                    now += 501
                    stood = nil
                case .moves:
                    now += 250
                    heartbeat += 1
                    stood = nil
                case .stands: now += 250
                }
                let expired = watch.look(
                    [GatewayHeartbeat(gateway: "g", heartbeat: heartbeat, seenAt: "")], asked: now, answered: now)
                let since = stood ?? now
                if expired.isEmpty == (now - since >= Self.expiry) {
                    Issue.record("\(event) at \(now), stands since \(since)")
                }
                count += 1
                explore(watch, heartbeat, now, stood: since, depth: depth - 1)
            }
        }
        explore(watch(), 0, 0, stood: nil, depth: 8)
        #expect(count > 10_000)
    }

    /// Checks that an ended lease is forgotten. A new lease has another id.
    @Test func absentGatewaysAreForgotten() {
        var watch = watch()
        let heartbeat = GatewayHeartbeat(gateway: "g", heartbeat: 1, seenAt: "")
        for look in 0..<4 as Range<Int64> {
            #expect(watch.look([heartbeat], asked: look * 250, answered: look * 250) == [])
        }
        #expect(watch.look([], asked: 1_000, answered: 1_000) == [])
        // The same row appears again, as after a restore, and its time starts again.
        for look in 5..<9 as Range<Int64> {
            #expect(watch.look([heartbeat], asked: look * 250, answered: look * 250) == [])
        }
        #expect(watch.look([heartbeat], asked: 2_250, answered: 2_250) == [heartbeat])
    }
}
