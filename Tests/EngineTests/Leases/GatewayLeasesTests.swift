import Runtime
import Testing

@testable import Engine

/// Checks the gateway's present lease, and the notification of its loss: see `GatewayLeases`.
@Suite struct GatewayLeasesTests {
    @Test func listenersLearnOfEveryLossOnce() {
        let leases = GatewayLeases()
        let reported = MutexBox(0)
        leases.onExpired { reported.withLock { $0 += 1 } }
        let first = leases.current
        leases.changed(to: first)
        #expect(reported.withLock { $0 } == 0)
        leases.changed(to: first.next)
        leases.changed(to: first.next)
        #expect(reported.withLock { $0 } == 1)
        #expect(leases.current == first.next && leases.current != first)
        leases.changed(to: first.next.next)
        #expect(reported.withLock { $0 } == 2)
    }

    @Test func listenersAreOptional() {
        let leases = GatewayLeases()
        leases.changed(to: leases.current.next)
        #expect(leases.current == LeaseNumber.first.next)
    }

    /// A notified listener may read the lease, and begin work under the new one at once: no lock is held.
    @Test func notifiedListenersMayAsk() {
        let leases = GatewayLeases()
        let seen = MutexBox<LeaseNumber?>(nil)
        leases.onExpired {
            let current = leases.current
            seen.withLock { $0 = current }
            leases.onExpired {}
        }
        leases.changed(to: leases.current.next)
        #expect(seen.withLock { $0 } == LeaseNumber.first.next)
    }
}
