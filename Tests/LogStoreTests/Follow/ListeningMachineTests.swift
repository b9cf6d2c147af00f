import LogStore
import Runtime
import Testing

/// Tests of when a listening connection is opened, checks for changes, and is reopened.
@Suite struct ListeningMachineTests {
    private func machine(poll: Int64 = 100) -> ListeningMachine {
        ListeningMachine(
            pollMilliseconds: poll, backoff: Backoff(firstMilliseconds: 50, longestMilliseconds: 200))
    }

    @Test func firstItListensThenItLooks() {
        var machine = machine()
        #expect(machine.next(at: 0) == .connect)
        machine.connected()
        #expect(machine.next(at: 10) == .look(isNew: true))
        machine.looked(startingAt: 10, endingAt: 10)
        #expect(machine.next(at: 12) == .listen(milliseconds: 98))
    }

    @Test func looksComeByThePoll() {
        var machine = machine()
        machine.connected()
        machine.looked(startingAt: 0, endingAt: 0)
        #expect(machine.next(at: 99) == .listen(milliseconds: 1))
        #expect(machine.next(at: 100) == .look(isNew: false))
        machine.looked(startingAt: 100, endingAt: 100)
        // A check that took longer than the poll interval is followed by the next one immediately.
        #expect(machine.next(at: 350) == .look(isNew: false))
    }

    @Test func anAnnouncementMayWantALook() {
        var machine = machine()
        machine.connected()
        machine.looked(startingAt: 0, endingAt: 0)
        machine.lookSoon()
        machine.lookSoon()
        #expect(machine.next(at: 50) == .look(isNew: false))
        machine.looked(startingAt: 50, endingAt: 50)
        #expect(machine.next(at: 51) == .listen(milliseconds: 99), "one look for both")
    }

    /// Checks that a flood of announcements causes only a few checks, which take at most a quarter of the time: every
    /// role that can connect can send announcements.
    @Test func announcementsCauseABoundedNumberOfLooks() {
        var machine = machine(poll: 1_000)
        machine.connected()
        machine.looked(startingAt: 0, endingAt: 0)
        var looks = 0
        for now in 1...1_000 as ClosedRange<Int64> {
            machine.lookSoon()
            guard case .look = machine.next(at: now) else { continue }
            looks += 1
            machine.looked(startingAt: now, endingAt: now)
        }
        #expect(looks == 20)
        machine.looked(startingAt: 2_000, endingAt: 2_100)
        machine.lookSoon()
        #expect(machine.next(at: 2_101) == .listen(milliseconds: 299))
        #expect(machine.next(at: 2_400) == .look(isNew: false))
        // A check that takes longer than the poll interval is delayed by no more than that interval.
        machine.looked(startingAt: 3_000, endingAt: 3_900)
        machine.lookSoon()
        #expect(machine.next(at: 4_000) == .look(isNew: false))
    }

    /// Checks that a new connection starts with a complete check, in whichever state the previous one was lost.
    @Test(arguments: ["connecting", "looking first", "looking again", "listening", "wanting a look"])
    func lostInEachState(_ state: String) {
        var machine = machine()
        if state != "connecting" { machine.connected() }
        if !["connecting", "looking first"].contains(state) { machine.looked(startingAt: 0, endingAt: 0) }
        if state == "wanting a look" { machine.lookSoon() }
        let now: Int64 = state == "looking again" ? 100 : 5
        machine.failed()
        #expect(machine.next(at: now) == .pause(milliseconds: 50))
        #expect(machine.next(at: now) == .pause(milliseconds: 50), "until the pause is over")
        machine.paused()
        #expect(machine.next(at: now + 50) == .connect)
        machine.connected()
        #expect(machine.next(at: now + 51) == .look(isNew: true))
        machine.looked(startingAt: now + 51, endingAt: now + 51)
        #expect(machine.next(at: now + 51) == .listen(milliseconds: 100))
    }

    @Test func pausesGrowUntilALookSucceeds() {
        var machine = machine()
        func pause() -> Int64? {
            machine.failed()
            guard case .pause(let milliseconds) = machine.next(at: 0) else { return nil }
            machine.paused()
            return milliseconds
        }
        #expect(pause() == 50)
        #expect(pause() == 100)
        // A connection alone does not count as success: the server may be shutting down.
        machine.connected()
        #expect(pause() == 200)
        #expect(pause() == 200)
        machine.connected()
        machine.looked(startingAt: 0, endingAt: 0)
        #expect(pause() == 50)
    }

    @Test func aPauseThatIsOverTwiceDoesNoHarm() {
        var machine = machine()
        machine.connected()
        machine.paused()
        #expect(machine.next(at: 0) == .look(isNew: true))
    }

    /// Checks for every sequence of events that each connection starts with a complete check before it waits, and that
    /// no wait is longer than the poll interval.
    @Test func everyOrder() {
        enum Happening: CaseIterable { case goesWell, fails, announced }
        var count = 0
        func descend(_ machine: ListeningMachine, _ hasLooked: Bool, _ depth: Int) {
            count += 1
            guard depth < 9 else { return }
            for happening in Happening.allCases {
                var (machine, hasLooked) = (machine, hasLooked)
                let now = Int64(depth) * 30
                let ask = machine.next(at: now)
                switch (ask, happening) {
                case (_, .announced): machine.lookSoon()
                case (.pause, _):
                    machine.paused()
                    #expect(machine.next(at: now) == .connect)
                case (.connect, .goesWell):
                    machine.connected()
                    hasLooked = false
                case (.look(let isNew), .goesWell):
                    #expect(isNew == !hasLooked)
                    machine.looked(startingAt: now, endingAt: now)
                    hasLooked = true
                case (.listen(let milliseconds), .goesWell):
                    #expect(hasLooked)
                    #expect(milliseconds > 0 && milliseconds <= 100)
                case (_, .fails):
                    machine.failed()
                    hasLooked = false
                }
                descend(machine, hasLooked, depth + 1)
            }
        }
        descend(machine(), false, 0)
        #expect(count > 20_000)
    }
}
