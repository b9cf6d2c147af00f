import LogStore
import TestSupport
import Testing

@testable import Engine

/// Checks a gateway's steps for its lease: see `LeaseMachine`.
@Suite struct LeaseMachineTests {
    private typealias Step = LeaseMachine.Step
    private typealias Circumstances = LeaseMachine.Circumstances

    private func machine() -> LeaseMachine { LeaseMachine(renewalMilliseconds: 100) }

    private func lease(_ id: UInt8, connection: Int64 = 1, heartbeat: Int64 = 1) -> GatewayLease {
        GatewayLease(gateway: [UInt8](repeating: id, count: 16), connection: connection, heartbeat: heartbeat)
    }

    private func at(_ now: Int64, isUp: Bool = true, history: Int = 0, isComparing: Bool = false) -> Circumstances {
        Circumstances(now: now, isDatabaseUp: isUp, history: history, isComparing: isComparing)
    }

    /// Returns a machine whose lease is begun and was renewed at 0.
    private func ready() -> LeaseMachine {
        var machine = machine()
        machine.start()
        machine.began(lease(1))
        machine.settled()
        machine.renewed(2, now: 0)
        return machine
    }

    // MARK: A connection's life

    @Test func aLeaseIsBegunSettledAndRenewed() {
        var machine = machine()
        machine.start()
        #expect(machine.next(at(5)) == .begin)
        machine.began(lease(1))
        #expect(machine.next(at(5)) == .settle(lease(1)))
        machine.settled()
        // Other gateways' leases are checked first, even if the database answers.
        #expect(machine.next(at(5)) == .renew(lease(1)))
        machine.renewed(2, now: 5)
        #expect(machine.next(at(5)) == .ready(lease(1, heartbeat: 2)))
        #expect(machine.nextRenewal == 105)
        #expect(machine.number == .first)
    }

    @Test func aLeaseIsRenewedWhenItIsTime() {
        var machine = ready()
        machine.start()
        #expect(machine.next(at(99)) == .ready(lease(1, heartbeat: 2)))
        #expect(machine.next(at(100)) == .renew(lease(1, heartbeat: 2)))
        machine.renewed(3, now: 102)
        #expect(machine.next(at(102)) == .ready(lease(1, heartbeat: 3)))
        #expect(machine.next(at(201)) == .ready(lease(1, heartbeat: 3)))
        machine.start()
        #expect(machine.next(at(202)) == .renew(lease(1, heartbeat: 3)))
    }

    /// A database that may be unavailable is queried before anything else, once for each task.
    @Test func aDatabaseThatMayBeAwayIsAsked() {
        var machine = ready()
        for round in 3..<6 as Range<Int64> {
            machine.start()
            #expect(machine.next(at(10, isUp: false)) == .renew(lease(1, heartbeat: round - 1)))
            machine.renewed(round, now: 10)
            #expect(machine.next(at(10, isUp: false)) == .ready(lease(1, heartbeat: round)))
        }
    }

    @Test func anotherConnectionTakesTheLeaseOver() {
        var machine = ready()
        machine.connectionLost()
        machine.start()
        #expect(machine.next(at(1)) == .takeOver(lease(1, heartbeat: 2)))
        machine.tookOver(lease(1, connection: 2, heartbeat: 3))
        #expect(machine.next(at(1)) == .settle(lease(1, connection: 2, heartbeat: 3)))
        machine.settled()
        #expect(machine.next(at(1)) == .renew(lease(1, connection: 2, heartbeat: 3)))
        #expect(machine.number == .first)
    }

    // MARK: Expiry

    @Test func aLeaseThatHasExpiredIsFollowedByAnother() {
        var machine = ready()
        machine.start()
        machine.renewed(nil, now: 100)
        #expect(machine.number == LeaseNumber.first.next)
        #expect(machine.held == nil)
        #expect(machine.next(at(100)) == .begin)
        machine.began(lease(2))
        #expect(machine.next(at(100)) == .settle(lease(2)))
        machine.settled()
        // The database was queried already.
        #expect(machine.next(at(100)) == .ready(lease(2)))
        machine.start()
        #expect(machine.next(at(100)) == .renew(lease(2)))
    }

    @Test func aLeaseThatHasExpiredMeanwhileIsNotTakenOver() {
        var machine = ready()
        machine.connectionLost()
        #expect(machine.next(at(1)) == .takeOver(lease(1, heartbeat: 2)))
        machine.tookOver(nil)
        #expect(machine.number == LeaseNumber.first.next)
        #expect(machine.next(at(1)) == .begin)
    }

    @Test func aRefusalEndsTheLease() {
        var machine = ready()
        machine.lost()
        #expect(machine.number == LeaseNumber.first.next && machine.held == nil)
        #expect(machine.next(at(1)) == .begin)
    }

    // MARK: Histories

    @Test func anotherHistoryEndsTheLease() {
        var machine = ready()
        machine.start()
        #expect(machine.next(at(1, history: 1)) == .giveUp(lease(1, heartbeat: 2)))
        machine.gaveUp(for: 1)
        #expect(machine.number == LeaseNumber.first.next)
        #expect(machine.next(at(1, history: 1)) == .begin)
        machine.began(lease(2))
        machine.settled()
        #expect(machine.next(at(1, history: 1)) == .renew(lease(2)))
    }

    /// Namespaces that are found at the same time to have lost entries end one lease together.
    @Test func aComparisonIsWaitedFor() {
        var machine = ready()
        machine.start()
        #expect(machine.next(at(1, history: 1, isComparing: true)) == .ready(lease(1, heartbeat: 2)))
        #expect(machine.next(at(1, history: 3, isComparing: true)) == .ready(lease(1, heartbeat: 2)))
        #expect(machine.next(at(1, history: 3)) == .giveUp(lease(1, heartbeat: 2)))
        machine.gaveUp(for: 3)
        #expect(machine.number == LeaseNumber.first.next)
    }

    @Test func whereThereIsNoLeaseNoneIsLost() {
        var machine = machine()
        machine.start()
        #expect(machine.next(at(1, history: 1)) == .giveUp(nil))
        machine.gaveUp(for: 1)
        #expect(machine.number == .first)
        #expect(machine.next(at(1, history: 1)) == .begin)
    }

    /// The connection was lost with the history: the other history is noticed before the lease is taken over.
    @Test func aHistoryComesBeforeTakingOver() {
        var machine = ready()
        machine.connectionLost()
        #expect(machine.next(at(1, history: 1)) == .giveUp(lease(1, heartbeat: 2)))
    }

    // MARK: Every order

    /// For all events between the steps, nothing is done under a lease that the connection does not hold. All
    /// sequences of events around the machine are run against a database that keeps the rows.
    @Test func everyOrderOfEvents() {
        var count = 0
        LeaseWorld().explore(depth: 7, &count)
        #expect(count > 10_000)
    }

    @Test(arguments: 1...10 as ClosedRange<UInt64>) func longLives(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var world = LeaseWorld()
        for _ in 0..<3_000 {
            world.apply(random.oneIn(3) ? random.pick(LeaseWorld.Event.allCases) : .step)
        }
        // Undisturbed, the machine gets a lease.
        world.settle()
    }
}

/// A gateway, its connection and the database's row of its lease.
private struct LeaseWorld {
    enum Event: CaseIterable {
        /// The machine's next step is done.
        case step
        /// Another task is to be done under the lease, some time later.
        case start
        /// Another gateway ends the lease, as it sees no heartbeats.
        case expired
        case connectionLost
        /// The database returns to another history.
        case history
        /// The database becomes unavailable, or available again.
        case health
    }

    private var machine = LeaseMachine(renewalMilliseconds: 100)
    private var circumstances = LeaseMachine.Circumstances(now: 0)
    private var row: GatewayLease?
    private var ids: UInt8 = 0
    /// The lease that this connection holds in the database since it took over or began; nil for none.
    private var own: GatewayLease?
    private var isSettled = false
    /// The number of leases whose loss the gateway has noticed.
    private var losses = 0
    private var isReady = false

    func explore(depth: Int, _ count: inout Int) {
        guard depth > 0 else { return }
        for event in Event.allCases {
            if event == .expired, row == nil { continue }
            if event == .connectionLost, own == nil { continue }
            var next = self
            next.apply(event)
            count += 1
            next.explore(depth: depth - 1, &count)
        }
    }

    mutating func apply(_ event: Event) {
        switch event {
        case .step: step()
        case .start:
            circumstances.now += 60
            machine.start()
        case .expired: row = nil
        case .connectionLost:
            own = nil
            isSettled = false
            machine.connectionLost()
        case .history: circumstances.history += 1
        case .health: circumstances.isDatabaseUp.toggle()
        }
        #expect(machine.number == LeaseNumber(1 + losses))
        #expect(machine.held == nil || machine.held?.gateway == [UInt8](repeating: ids, count: 16))
    }

    private mutating func step() {
        isReady = false
        switch machine.next(circumstances) {
        case .giveUp(let lease):
            if lease != nil { losses += 1 }
            if row?.gateway == lease?.gateway { row = nil }
            own = nil
            isSettled = false
            machine.gaveUp(for: circumstances.history)
        case .takeOver(let lease):
            #expect(own == nil, "a connection takes over once")
            guard var known = row, known.gateway == lease.gateway else {
                losses += 1
                return machine.tookOver(nil)
            }
            known = GatewayLease(
                gateway: known.gateway, connection: known.connection + 1, heartbeat: known.heartbeat + 1)
            (row, own) = (known, known)
            machine.tookOver(known)
        case .begin:
            ids += 1
            let new = GatewayLease(gateway: [UInt8](repeating: ids, count: 16), connection: 1, heartbeat: 1)
            (row, own) = (new, new)
            isSettled = false
            machine.began(new)
        case .settle(let lease):
            #expect(own?.gateway == lease.gateway && own?.connection == lease.connection)
            isSettled = true
            machine.settled()
        case .renew(let lease):
            #expect(own?.gateway == lease.gateway && isSettled)
            guard let known = row, known.gateway == lease.gateway else {
                losses += 1
                own = nil
                isSettled = false
                return machine.renewed(nil, now: circumstances.now)
            }
            row?.heartbeat += 1
            machine.renewed(known.heartbeat + 1, now: circumstances.now)
        case .ready(let lease):
            isReady = true
            #expect(own?.gateway == lease.gateway && own?.connection == lease.connection && isSettled)
        }
    }

    mutating func settle() {
        for _ in 0..<2 {
            // Late enough for the lease to be renewed.
            for _ in 0..<2 { apply(.start) }
            for _ in 0..<8 { apply(.step) }
        }
        #expect(isReady && row != nil && row?.gateway == machine.held?.gateway)
    }
}
