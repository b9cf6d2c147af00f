import LogStore

@testable import Engine

/// A world without PostgreSQL in which one large write is committed: a log, its head's lock, other writers at the same
/// paths or elsewhere, connections that break, a history that changes, and a clock that reaches the deadline.
struct LargeWorld: Hashable {
    /// The maximum number of faults of each kind.
    struct Budget: Hashable {
        /// Connections that are lost.
        var losses = 0
        /// Statements that fail while the connection stays open.
        var errors = 0
        /// Entries of other writers after which the write can be placed.
        var harmless = 0
        /// Entries of other writers that touch the write's paths.
        var conflicting = 0
        /// Entries whose effect is not in their changes: imports, rules.
        var special = 0
        /// Times that the database loses its newest entry and another replaces it.
        var rolledBack = 0
        /// Whether the rules refuse the write on a newer tree.
        var refusals = 0
        /// Whether the database refuses the write, because the namespace follows an upstream.
        var follows = 0
        /// Whether the deadline can pass.
        var deadlines = 0
        /// Whether the engine stops.
        var stops = 0
    }

    enum Kind: Hashable {
        case harmless, conflicting, special, own
    }

    struct Entry: Hashable {
        let kind: Kind
        /// A number that is different for every entry ever written.
        let batch: UInt8
    }

    /// The state of the write's transaction.
    enum Transaction: Hashable {
        case open, committed, ended
        /// COMMIT was sent, and its outcome does not reach the gateway.
        case inFlight
    }

    enum Answer: Hashable {
        case done, again, failed, unknown
    }

    private(set) var log: [Entry] = []
    private(set) var nextBatch: UInt8 = 1
    /// Whether the write's transaction holds the head's lock.
    private(set) var isLocked = false
    private(set) var transaction = Transaction.open
    private(set) var machine = LargeCommitMachine(patience: 1)
    private(set) var effect: LargeCommitMachine.Effect
    /// The log entries that the namespace and the write have taken in.
    private(set) var namespace: [Entry] = []
    private(set) var write: [Entry] = []
    private(set) var budget: Budget
    private(set) var isLate = false
    private(set) var isStopping = false
    private(set) var wasSent = false
    private(set) var answer: Answer?
    private(set) var violations: [String] = []

    /// - Parameter after: the number of harmless entries that the write has not taken in.
    init(after: Int = 0, _ budget: Budget) {
        self.budget = budget
        effect = machine.start()
        for _ in 0..<after { append(.harmless) }
    }

    private mutating func append(_ kind: Kind) {
        log.append(Entry(kind: kind, batch: nextBatch))
        nextBatch += 1
    }

    private func with(_ change: (inout LargeWorld) -> Void) -> LargeWorld {
        var copy = self
        change(&copy)
        return copy
    }

    private mutating func violated(_ what: String) { violations.append(what) }

    // MARK: Transitions

    /// All states that can follow this one.
    var next: [LargeWorld] {
        var found = others
        if transaction == .inFlight {
            found.append(with { $0.land() })
            found.append(with { $0.endTransaction() })
        }
        guard answer == nil else { return found }
        if budget.deadlines > 0, !isLate {
            found.append(
                with {
                    $0.budget.deadlines -= 1
                    $0.isLate = true
                })
        }
        if budget.stops > 0, !isStopping {
            found.append(
                with {
                    $0.budget.stops -= 1
                    $0.isStopping = true
                })
        }
        steps(&found)
        return found
    }

    /// The states after actions of other writers while the lock is free.
    private var others: [LargeWorld] {
        guard !isLocked else { return [] }
        var found: [LargeWorld] = []
        for (kind, left) in [
            (Kind.harmless, \Budget.harmless), (.conflicting, \.conflicting), (.special, \.special),
        ] where budget[keyPath: left] > 0 {
            found.append(
                with {
                    $0.budget[keyPath: left] -= 1
                    $0.append(kind)
                })
        }
        if budget.rolledBack > 0, let last = log.last, last.kind != .own {
            found.append(
                with {
                    $0.budget.rolledBack -= 1
                    $0.log.removeLast()
                    $0.append(.harmless)
                })
        }
        return found
    }

    private func steps(_ found: inout [LargeWorld]) {
        switch effect {
        case .follow, .followFound:
            found.append(
                with {
                    $0.namespace = $0.log
                    $0.reply(.followed)
                })
            failures(ofWrite: effect == .follow, &found)
        case .lockHead:
            found.append(
                with {
                    $0.isLocked = true
                    $0.reply(.locked(head: Int64(log.count), ends))
                })
            failures(ofWrite: true, &found)
        case .takeIn(let seq):
            found.append(with { $0.takeIn(after: Int(seq)) })
            failures(ofWrite: true, &found)
        case .judge:
            found.append(with { $0.reply(.judged(isAllowed: true)) })
            if budget.refusals > 0 {
                found.append(
                    with {
                        $0.budget.refusals -= 1
                        $0.reply(.judged(isAllowed: false))
                    })
            }
        case .commit: commits(&found)
        case .search:
            // The search waits for the lock, which the write's transaction holds until it ends.
            if transaction != .inFlight {
                found.append(
                    with { $0.reply(.searched(isFound: $0.log.contains { $0.kind == .own })) })
            }
            failures(ofWrite: false, &found)
        case .dropConnection: found.append(with { $0.reply(.done) })
        case .pause:
            found.append(with { $0.reply(.waited(now: isLate ? 2 : 0, isStopping: isStopping)) })
        case .publish, .notify, .prepareAgain, .giveUp, .outcomeUnknown: break
        }
    }

    private mutating func takeIn(after seq: Int) {
        if !isLocked { violated("reads without the lock") }
        guard seq < log.count else { return violated("reads behind the head") }
        // The database returns the history of the entry after which reading continues.
        let page = log[seq...].prefix(2)
        for known in [namespace, write] where known.count <= seq + page.count && known.last != log[..<known.count].last
        {
            return reply(.tookIn(nil))
        }
        guard !page.contains(where: { $0.kind == .special }) else { return reply(.tookIn(nil)) }
        for (index, entry) in page.enumerated() where seq + index >= namespace.count { namespace.append(entry) }
        for (index, entry) in page.enumerated() where seq + index >= write.count {
            guard entry.kind == .harmless else { return reply(.tookIn(nil)) }
            write.append(entry)
        }
        reply(.tookIn(ends))
    }

    private func commits(_ found: inout [LargeWorld]) {
        // The database compares the batch at its head with the expected one.
        guard log.count == namespace.count, log.last == namespace.last else {
            found.append(
                with {
                    $0.endTransaction()
                    $0.fail(isConnectionLost: false)
                })
            return
        }
        found.append(
            with {
                $0.wasSent = true
                $0.land()
                $0.reply(.committed)
            })
        if budget.follows > 0 {
            found.append(
                with {
                    $0.budget.follows -= 1
                    $0.endTransaction()
                    $0.reply(.refused)
                })
        }
        if budget.losses > 0 {
            for lands in [true, false] {
                found.append(
                    with {
                        $0.wasSent = true
                        if lands { $0.land() } else { $0.transaction = .inFlight }
                        $0.lose(endsTransaction: false)
                    })
            }
        }
        if budget.errors > 0 {
            found.append(
                with {
                    $0.budget.errors -= 1
                    $0.endTransaction()
                    $0.fail(isConnectionLost: false)
                })
        }
    }

    private func failures(ofWrite: Bool, _ found: inout [LargeWorld]) {
        if budget.losses > 0 { found.append(with { $0.lose(endsTransaction: ofWrite) }) }
        if budget.errors > 0 {
            found.append(
                with {
                    $0.budget.errors -= 1
                    if ofWrite { $0.endTransaction() }
                    $0.fail(isConnectionLost: false)
                })
        }
    }

    private mutating func lose(endsTransaction: Bool) {
        budget.losses -= 1
        if endsTransaction { endTransaction() }
        fail(isConnectionLost: true)
    }

    private mutating func fail(isConnectionLost: Bool) {
        reply(.failed(isConnectionLost: isConnectionLost, now: isLate ? 1 : 0, isStopping: isStopping))
    }

    // MARK: The database

    private mutating func land() {
        if !isLocked { violated("commits without the lock") }
        if write != log { violated("commits on another tree than the newest") }
        log.append(Entry(kind: .own, batch: 0))
        transaction = .committed
        isLocked = false
    }

    private mutating func endTransaction() {
        transaction = .ended
        isLocked = false
    }

    private var ends: LargeCommitMachine.Ends {
        LargeCommitMachine.Ends(namespace: Self.end(namespace), write: Self.end(write))
    }

    private static func end(_ entries: [Entry]) -> LogPosition {
        LogPosition(seq: Int64(entries.count), batch: entries.last.map { [$0.batch] })
    }

    // MARK: Checks

    private mutating func reply(_ event: LargeCommitMachine.Event) {
        effect = machine.handle(event)
        switch effect {
        case .publish:
            if namespace + [Entry(kind: .own, batch: 0)] != log { violated("publishes what does not follow") }
            if transaction != .committed { violated("publishes what is not committed") }
            answer = .done
        case .notify:
            if !namespace.contains(where: { $0.kind == .own }) { violated("told before the data") }
            answer = .done
        case .prepareAgain:
            // The large writer ends the transaction.
            if transaction == .inFlight { violated("begins anew while it may be written") }
            if transaction == .open { endTransaction() }
            answer = .again
        case .giveUp:
            if transaction == .inFlight { violated("gives up while it may be written") }
            if transaction == .open { endTransaction() }
            answer = .failed
        case .outcomeUnknown:
            if !wasSent { violated("an unknown outcome where nothing was sent") }
            if !isLate, !isStopping { violated("gives up before its time") }
            answer = .unknown
        default: break
        }
    }

    /// The violations found at the end, when nothing is in flight.
    var finalViolations: [String] {
        let count = log.count { $0.kind == .own }
        return switch answer {
        case .done where count != 1: ["done, and \(count) times in the log"]
        case .again where count != 0, .failed where count != 0: ["\(effect), and in the log"]
        case .unknown where count > 1: ["unknown, and \(count) times in the log"]
        case nil: ["never ended"]
        default: []
        }
    }
}
