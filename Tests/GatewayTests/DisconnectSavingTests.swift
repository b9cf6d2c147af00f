import Engine
import TestSupport
import Testing
import Tree
import Wire

@testable import Gateway

/// Tests of a session's onDisconnect operations and their copy in the database: see `DisconnectSaving`.
@Suite struct DisconnectSavingTests {
    private typealias Effect = DisconnectSaving.Effect
    private typealias Save = DisconnectSaving.Save

    /// A class around the machine, because `#expect` cannot call mutating methods.
    private final class Saving {
        private(set) var machine = DisconnectSaving()

        /// Requests that a value be written at a path.
        func put(_ path: String, _ request: Int64, since revision: Int? = nil) -> [Effect] {
            var queue = machine.operations
            queue.put(Path(splitting: path), .int(request))
            return machine.change(to: queue, since: revision ?? machine.revision, by: request)
        }

        func cancel(_ path: String, _ request: Int64) -> [Effect] {
            var queue = machine.operations
            queue.cancel(Path(splitting: path))
            return machine.change(to: queue, since: machine.revision, by: request)
        }

        func change(to queue: DisconnectQueue, since revision: Int, _ request: Int64) -> [Effect] {
            machine.change(to: queue, since: revision, by: request)
        }

        func login() -> [Effect] { machine.loginChanged() }
        func ended(_ outcome: SaveOutcome) -> [Effect] { machine.saveEnded(outcome) }
        var paths: [String] { machine.operations.paths }
    }

    private let saving = Saving()

    private func save(_ number: Int64, isFirst: Bool = false) -> Effect {
        .save(Save(number: number, isFirst: isFirst))
    }

    // MARK: Sequential requests

    @Test func aRequestIsAnsweredOnceItIsSaved() {
        #expect(saving.put("a", 1) == [save(1, isFirst: true)])
        #expect(saving.machine.isSaving)
        #expect(saving.ended(.saved) == [.accept(1)])
        #expect(!saving.machine.isSaving)
        #expect(saving.put("b", 2) == [save(2)])
        #expect(saving.ended(.saved) == [.accept(2)])
        #expect(saving.paths == ["/a", "/b"])
    }

    @Test func nothingIsSavedWhereThereIsNothing() {
        #expect(saving.cancel("a", 1) == [.accept(1)])
        #expect(!saving.machine.isSaving && !saving.machine.mustBeExecuted)
        #expect(saving.login() == [])
    }

    @Test func aCancelOfTheLastIsSavedToo() {
        _ = saving.put("a", 1)
        _ = saving.ended(.saved)
        #expect(saving.cancel("a", 2) == [save(2)])
        #expect(saving.ended(.saved) == [.accept(2)])
        // The row still exists. The session's end removes it.
        #expect(saving.machine.operations.isEmpty && saving.machine.mustBeExecuted)
    }

    /// Checks that requests that arrive during a save are saved together by the next save.
    @Test func whatComesMeanwhileIsSavedTogether() {
        _ = saving.put("a", 1)
        #expect(saving.put("b", 2) == [])
        #expect(saving.cancel("a", 3) == [])
        #expect(saving.put("c", 4) == [])
        #expect(saving.ended(.saved) == [.accept(1), save(2)])
        #expect(saving.ended(.saved) == [.accept(2), .accept(3), .accept(4)])
        #expect(saving.paths == ["/b", "/c"])
    }

    @Test func anUnexpectedAnswerChangesNothing() {
        for outcome in [SaveOutcome.saved, .refused, .over, .unknown] { #expect(saving.ended(outcome) == []) }
        #expect(!saving.machine.mustBeExecuted)
        #expect(saving.put("a", 1) == [save(1, isFirst: true)])
    }

    /// Checks that a second cancel waits for the first: until the first is saved, the database still holds the canceled
    /// operation.
    @Test func aSecondCancelWaitsForTheFirst() {
        _ = saving.put("a", 1)
        _ = saving.ended(.saved)
        #expect(saving.cancel("a", 2) == [save(2)])
        #expect(saving.cancel("a", 3) == [])
        #expect(saving.ended(.refused) == [.refuse(2), .refuse(3)])
        #expect(saving.paths == ["/a"])
    }

    // MARK: Logins

    @Test func anotherLoginIsSaved() {
        _ = saving.put("a", 1)
        _ = saving.ended(.saved)
        #expect(saving.login() == [save(2)])
        #expect(saving.ended(.saved) == [])
    }

    @Test func anotherLoginWhileSavingIsSavedNext() {
        _ = saving.put("a", 1)
        #expect(saving.login() == [])
        #expect(saving.login() == [])
        #expect(saving.ended(.saved) == [.accept(1), save(2)])
        #expect(saving.ended(.saved) == [])
    }

    // MARK: Refusals

    @Test func aRefusalTakesBackWhatIsNotSaved() {
        _ = saving.put("a", 1)
        _ = saving.ended(.saved)
        _ = saving.put("b", 2)
        _ = saving.put("c", 3)
        #expect(saving.ended(.refused) == [.refuse(2), .refuse(3)])
        #expect(saving.paths == ["/a"])
        #expect(saving.machine.mustBeExecuted && !saving.machine.isSaving)
        #expect(saving.put("d", 4) == [save(3)])
        #expect(saving.ended(.saved) == [.accept(4)])
        #expect(saving.paths == ["/a", "/d"])
    }

    @Test func theFirstSaveMayBeTriedAgain() {
        _ = saving.put("a", 1)
        #expect(saving.ended(.refused) == [.refuse(1)])
        #expect(!saving.machine.mustBeExecuted)
        #expect(saving.put("b", 2) == [save(2, isFirst: true)])
    }

    /// Checks that a change prepared by a worker is refused if the operations on which it is based have been refused
    /// meanwhile.
    @Test func whatWasBuiltOnSomethingRefusedIsRefused() {
        _ = saving.put("a", 1)
        let revision = saving.machine.revision
        var queue = saving.machine.operations
        queue.put(Path(splitting: "b"), .int(2))
        #expect(saving.ended(.refused) == [.refuse(1)])
        #expect(saving.change(to: queue, since: revision, 2) == [.refuse(2)])
        #expect(saving.paths.isEmpty && !saving.machine.isSaving)
    }

    @Test func whatWasBuiltOnSomethingSavedHolds() {
        _ = saving.put("a", 1)
        let revision = saving.machine.revision
        var queue = saving.machine.operations
        queue.put(Path(splitting: "b"), .int(2))
        #expect(saving.ended(.saved) == [.accept(1)])
        #expect(saving.change(to: queue, since: revision, 2) == [save(2)])
        #expect(saving.paths == ["/a", "/b"])
    }

    // MARK: The end

    @Test func aSessionThatIsOverHasNothingToExecute() {
        _ = saving.put("a", 1)
        _ = saving.ended(.saved)
        _ = saving.put("b", 2)
        _ = saving.put("c", 3)
        #expect(saving.ended(.over) == [.close])
        #expect(saving.paths.isEmpty && !saving.machine.mustBeExecuted)
        // No operation is saved again: other gateways have executed the saved operations.
        #expect(saving.put("d", 4) == [])
        #expect(saving.cancel("d", 5) == [])
        #expect(saving.login() == [])
        #expect(!saving.machine.mustBeExecuted)
    }

    @Test func whatMayHaveBeenSavedIsExecuted() {
        _ = saving.put("a", 1)
        _ = saving.put("b", 2)
        #expect(saving.ended(.unknown) == [.close])
        #expect(saving.machine.mustBeExecuted && saving.paths == ["/a", "/b"])
        #expect(saving.put("c", 3) == [])
        #expect(saving.login() == [])
        #expect(!saving.machine.isSaving && saving.paths == ["/a", "/b"])
    }

    @Test func aSaveInFlightIsReasonToExecute() {
        #expect(!saving.machine.mustBeExecuted)
        _ = saving.put("a", 1)
        #expect(saving.machine.mustBeExecuted)
        _ = saving.ended(.refused)
        #expect(!saving.machine.mustBeExecuted)
    }

    // MARK: All orders of events

    /// Checks that the answers to the client are correct for every order of events. Runs all sequences of up to seven
    /// events of seven kinds against a simulated database that behaves as its answers say.
    @Test func everyOrderOfEvents() {
        var count = 0
        SavingWorld().explore(depth: 7, &count)
        #expect(count > 10_000)
    }

    /// Checks the same invariants with longer random sequences.
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func longLives(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<20 {
            var world = SavingWorld()
            for _ in 0..<200 {
                // Sessions rarely end, so that sequences are long.
                let event =
                    random.oneIn(200) ? random.pick(SavingWorld.Event.allCases) : random.pick(SavingWorld.Event.lively)
                world.apply(event)
                if world.isOver { break }
            }
            world.settle()
        }
    }
}

extension DisconnectQueue {
    /// The paths of the operations.
    fileprivate var paths: [String] {
        operations.flatMap { $0.changes.map { "\($0.path)" } }.sorted()
    }
}

/// A client, its session's machine, and a database that accepts or refuses saves.
private struct SavingWorld {
    enum Event: CaseIterable {
        case put, cancel, login, saved, refused, over, unknown
        static let lively: [Event] = [.put, .put, .cancel, .login, .saved, .saved, .saved, .refused]
    }

    private var machine = DisconnectSaving()
    /// The save in flight, and the operations at the time it was sent.
    private var sent: (save: DisconnectSaving.Save, operations: DisconnectQueue)?
    /// The row in the database, or nil if there is none.
    private var row: DisconnectQueue?
    private var lastNumber: Int64 = 0
    private var requests: Int64 = 0
    private var accepted: Set<Int64> = []
    private var refused: Set<Int64> = []
    private(set) var isOver = false

    /// Tries every event in the present state, and all sequences that follow.
    func explore(depth: Int, _ count: inout Int) {
        guard depth > 0 else { return }
        for event in Event.allCases {
            // The database only answers a pending save.
            if sent == nil, ![.put, .cancel, .login].contains(event) { continue }
            var next = self
            next.apply(event)
            count += 1
            if next.isOver { next.checkEnd() } else { next.explore(depth: depth - 1, &count) }
        }
    }

    mutating func apply(_ event: Event) {
        switch event {
        case .put:
            requests += 1
            var queue = machine.operations
            queue.put(Path(splitting: "r\(requests)"), .int(requests))
            take(machine.change(to: queue, since: machine.revision, by: requests))
        case .cancel:
            requests += 1
            var queue = machine.operations
            queue.cancel(Path())
            take(machine.change(to: queue, since: machine.revision, by: requests))
        case .login: take(machine.loginChanged())
        case .saved:
            guard let (_, operations) = sent else { return }
            row = operations
            answer(.saved)
        case .refused: if sent != nil { answer(.refused) }
        case .over:
            guard sent != nil else { return }
            row = nil
            answer(.over)
        case .unknown: if sent != nil { answer(.unknown) }
        }
        check()
    }

    private mutating func answer(_ outcome: SaveOutcome) {
        sent = nil
        take(machine.saveEnded(outcome))
    }

    private mutating func take(_ effects: [DisconnectSaving.Effect]) {
        for effect in effects {
            #expect(!isOver, "nothing follows the end")
            switch effect {
            case .save(let save):
                #expect(sent == nil, "one save at a time")
                #expect(save.number > lastNumber)
                #expect(save.isFirst == (row == nil))
                lastNumber = save.number
                sent = (save, machine.operations)
            case .accept(let request):
                // Whether the database holds the operation is checked once no save is in flight.
                #expect(accepted.insert(request).inserted && !refused.contains(request))
                #expect(sent == nil, "answers come before the next save")
            case .refuse(let request):
                #expect(refused.insert(request).inserted && !accepted.contains(request))
            case .close: isOver = true
            }
        }
    }

    private func check() {
        #expect(machine.isSaving == (sent != nil))
        // A refused operation is never executed.
        for request in refused { #expect(!machine.operations.has(request) && row?.has(request) != true) }
        guard !isOver, sent == nil else { return }
        // No save is in flight: each request has an answer, and the database holds the session's operations.
        #expect(accepted.count + refused.count == Int(requests))
        #expect((row ?? DisconnectQueue()) == machine.operations)
        #expect(machine.mustBeExecuted == (row != nil))
    }

    func checkEnd() {
        var later = self
        // Later requests are neither saved nor answered.
        for event in [Event.put, .login, .cancel] { later.apply(event) }
        #expect(later.sent == nil)
    }

    /// Lets the database answer all pending saves.
    mutating func settle() {
        while sent != nil, !isOver { apply(.saved) }
        check()
    }
}

extension DisconnectQueue {
    fileprivate func has(_ request: Int64) -> Bool {
        operations.contains { $0.changes.contains { $0.path == Path(splitting: "r\(request)") } }
    }
}
