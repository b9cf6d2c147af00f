@testable import Engine

/// A world without PostgreSQL in which commit machines work: a log, its head's lock, other writers, connections that break,
/// batches that arrive late or never, and a clock that may reach the deadline. A value: from every state, `next` gives all states
/// that can follow.
///
/// What must always hold is checked by `next` (`violations`) and, where nothing can happen any more, by `finalViolations`.
struct CommitWorld: Hashable {
    /// How much of what can go wrong goes wrong at most.
    struct Budget: Hashable {
        /// Connections that are lost.
        var losses = 0
        /// Entries of somebody who has no machine.
        var foreign = 0
        /// Statements that fail while the connection goes on.
        var errors = 0
        /// Statements that fail on somebody else's lock.
        var lockConflicts = 0
        /// Locks that are given back as the log can't be followed under them.
        var unheldLocks = 0
        /// Times that the snapshot is loaded anew instead of followed: nobody tells which batches it is made of.
        var jumps = 0
        /// Evaluations in which all writes are refused.
        var refusals = 0
        /// Transactions with batches of other namespaces that come to nothing.
        var joint = 0
        /// Whether the deadline can pass.
        var deadlines = 0
    }

    enum Answer: Hashable {
        case committed(batch: UInt8)
        case refused
        case claimed
        case failed
        case unknown
    }

    struct Evaluation: Hashable {
        let batch: UInt8
        let base: Int
        let hasRecords: Bool
    }

    struct Committer: Hashable {
        var machine: CommitMachine
        var effect: CommitMachine.Effect
        /// How many entries of the log its snapshot has.
        var snapshot = 0
        var connection = Connection.none
        var evaluation: Evaluation?
        var lost: [Evaluation] = []
        /// How long the log was when the machine last made sure that its snapshot is the newest state.
        var confirmed: Int?
        /// A batch of its was sent, and the answer was lost.
        var hasLost = false
        var isLate = false
        /// How many attempts it has begun; three stand for more.
        var attempts = 0
        /// It was given another connection although nothing was sent.
        var hasReconnected = false
        /// What its last failure was, and whether the deadline had passed then.
        var failure: CommitMachine.Failure?
        var failedLate = false
        var answer: Answer?
    }

    enum Connection: Hashable {
        case none, open, broken
    }

    /// A transaction of which the gateway hears nothing any more.
    struct InFlight: Hashable {
        let owner: Int
        let evaluation: Evaluation
        /// It was sent under the head's lock, which it has.
        let holdsLock: Bool
    }

    enum Holder: Hashable {
        case committer(Int)
        case inFlight(InFlight)
    }

    static let foreigner: UInt8 = 255
    /// Bits of a batch's id that say which of its committer's batches it is.
    static let bits: UInt8 = 4

    var log: [UInt8] = []
    var lock: Holder?
    var inFlight: Set<InFlight> = []
    var committers: [Committer]
    var budget: Budget
    /// All committers execute the operations of one session, which has to be done once.
    let isClaim: Bool
    var isClaimed = false
    let isContended: Bool
    /// What everybody thinks of the database when something has failed.
    let isDatabaseUp: Bool
    /// What was found to be wrong on the way here.
    var violations: [String] = []

    init(_ count: Int, contended: Bool = false, claim: Bool = false, isDatabaseUp: Bool = true, _ budget: Budget) {
        committers = (0..<count).map { _ in
            var machine = CommitMachine(deadline: 1, isContended: contended)
            let effect = machine.start()
            return Committer(machine: machine, effect: effect)
        }
        self.budget = budget
        isClaim = claim
        isContended = contended
        self.isDatabaseUp = isDatabaseUp
    }

    static func owner(of batch: UInt8) -> Int? { batch == foreigner ? nil : Int(batch >> bits) }

    // MARK: What can happen

    /// Every state that can follow this one.
    var next: [CommitWorld] {
        var found: [CommitWorld] = []
        for index in committers.indices where committers[index].answer == nil { steps(of: index, &found) }
        for one in inFlight {
            if one.holdsLock || lock == nil { found.append(with { $0.land(one) }) }
            found.append(with { $0.die(one) })
        }
        if budget.foreign > 0, lock == nil {
            found.append(
                with {
                    $0.budget.foreign -= 1
                    $0.log.append(Self.foreigner)
                })
        }
        if budget.deadlines > 0 {
            for index in committers.indices where committers[index].answer == nil && !committers[index].isLate {
                found.append(
                    with {
                        $0.budget.deadlines -= 1
                        $0.committers[index].isLate = true
                    })
            }
        }
        return found
    }

    /// This state with something changed.
    func with(_ change: (inout CommitWorld) -> Void) -> CommitWorld {
        var copy = self
        change(&copy)
        return copy
    }

    mutating func violated(_ what: String) { violations.append(what) }
}
