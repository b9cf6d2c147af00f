import LogStore
import Testing

@testable import Engine

/// Checks the outcomes of saves: see `SaveMachine`.
@Suite struct SaveMachineTests {
    private typealias Save = SaveMachine.Save
    private let now = LeaseNumber.first
    private let later = LeaseNumber.first.next

    private func machine() -> SaveMachine { SaveMachine(patienceMilliseconds: 1_000) }

    // MARK: Before it is sent

    @Test func aSaveOfAnEarlierLeaseIsOver() {
        let machine = machine()
        #expect(machine.begin(Save(number: 1, lease: now), under: now) == .send)
        #expect(machine.begin(Save(number: 1, lease: now), under: later) == .answer(.over))
        #expect(machine.begin(Save(number: 1, lease: later), under: now) == .answer(.over))
    }

    /// While the database is unavailable, one save a second tests whether it still is.
    @Test func savesAreRefusedAtOnceWhileTheDatabaseIsAway() {
        var machine = machine()
        #expect(!machine.refusesAtOnce(isDatabaseAway: true, now: 5_000))
        machine.couldNotBegin(now: 5_000)
        #expect(machine.refusesAtOnce(isDatabaseAway: true, now: 5_000))
        #expect(machine.refusesAtOnce(isDatabaseAway: true, now: 5_999))
        #expect(!machine.refusesAtOnce(isDatabaseAway: true, now: 6_000))
        // Another thread has found the database available again.
        #expect(!machine.refusesAtOnce(isDatabaseAway: false, now: 5_500))
        machine.couldNotBegin(now: 6_000)
        #expect(machine.refusesAtOnce(isDatabaseAway: true, now: 6_999))
    }

    // MARK: Answers

    @Test(arguments: [
        (LogConnection.SaveResult.saved, SaveOutcome.saved, false), (.ended, .over, false), (.lost, .over, true),
    ])
    func answers(_ result: LogConnection.SaveResult, _ outcome: SaveOutcome, _ isLeaseLost: Bool) {
        let answer = machine().answered(result)
        #expect(answer.outcome == outcome && answer.isLeaseLost == isLeaseLost)
    }

    @Test func aRefusalIsCertain() {
        var machine = machine()
        #expect(machine.failed(Save(number: 1, lease: now), wasRefused: true, now: 0) == .refused)
        #expect(machine.unanswered == nil)
        #expect(machine.settling(under: now) == nil)
        #expect(machine.givesUp(now: 100_000) == false)
    }

    // MARK: Lost answers

    /// The row that is found decides the outcome. `found`: the number of the save in the row.
    @Test(arguments: [
        (5 as Int64?, SaveOutcome.saved), (4, .refused), (1, .refused), (nil, .over),
    ])
    func aLostAnswerIsLookedFor(_ found: Int64?, _ outcome: SaveOutcome) {
        var machine = machine()
        let save = Save(number: 5, lease: now)
        #expect(machine.failed(save, wasRefused: false, now: 0) == nil)
        #expect(machine.unanswered?.save == save)
        #expect(machine.settling(under: now) == .send)
        // The query may fail, and is then repeated.
        #expect(machine.settling(under: now) == .send)
        #expect(machine.settled(number: found) == outcome)
        #expect(machine.unanswered == nil && machine.settling(under: now) == nil)
    }

    @Test func noLookUnderAnotherLease() {
        var machine = machine()
        _ = machine.failed(Save(number: 5, lease: now), wasRefused: false, now: 0)
        #expect(machine.settling(under: later) == .answer(.over))
        machine.settledAsOver()
        #expect(machine.settling(under: later) == nil)
        #expect(machine.settled(number: 5) == .over)
    }

    @Test func aClientWaitsForSoLongOnly() {
        var machine = machine()
        #expect(machine.givesUp(now: 5_000) == false)
        _ = machine.failed(Save(number: 5, lease: now), wasRefused: false, now: 2_000)
        #expect(machine.givesUp(now: 2_000) == false)
        #expect(machine.givesUp(now: 3_000) == false)
        #expect(machine.givesUp(now: 3_001) == true)
        // The machine gives up once.
        #expect(machine.givesUp(now: 9_000) == false)
        #expect(machine.settling(under: now) == nil)
    }

    /// Explores every sequence after a lost answer: the save is answered once, and with `.refused` only after the
    /// database was queried.
    @Test func everyOrderAfterALostAnswer() {
        enum Event: CaseIterable { case wait, giveUp, settleSaved, settleOther, settleGone, leaseLost }
        func explore(_ machine: SaveMachine, _ lease: LeaseNumber, _ clock: Int64, outcomes: [SaveOutcome], depth: Int)
        {
            #expect(outcomes.count <= 1)
            guard depth > 0 else { return }
            for event in Event.allCases {
                var (machine, lease, clock, outcomes) = (machine, lease, clock, outcomes)
                let verdict = machine.settling(under: lease)
                switch event {
                case .wait: clock += 400
                case .giveUp: if machine.givesUp(now: clock) { outcomes.append(.unknown) }
                case .leaseLost: lease = lease.next
                case .settleSaved, .settleOther, .settleGone:
                    guard let verdict else { break }
                    if case .answer(let outcome) = verdict {
                        #expect(lease != now)
                        machine.settledAsOver()
                        outcomes.append(outcome)
                    } else {
                        let found: Int64? = event == .settleSaved ? 7 : event == .settleOther ? 6 : nil
                        outcomes.append(machine.settled(number: found))
                    }
                }
                #expect((machine.unanswered == nil) == !outcomes.isEmpty)
                if lease != now, verdict != nil { #expect(outcomes.last != .saved && outcomes.last != .refused) }
                explore(machine, lease, clock, outcomes: outcomes, depth: depth - 1)
            }
        }
        var machine = machine()
        _ = machine.failed(Save(number: 7, lease: now), wasRefused: false, now: 0)
        explore(machine, now, 0, outcomes: [], depth: 5)
    }
}
