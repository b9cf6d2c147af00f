@testable import Engine

/// A world without PostgreSQL in which commit machines work: a log, its head's lock, other writers, connections that
/// break, batches that arrive late or never, and a clock that may reach the deadline. The world is a value: `next`
/// returns all states that can follow a state.
///
/// `next` checks the invariants (`violations`), and `finalViolations` checks them in states that nothing can follow.
struct CommitWorld: Hashable {
    /// The maximum number of faults of each kind.
    struct Budget: Hashable {
        /// Connections that are lost.
        var losses = 0
        /// Entries of a writer that has no machine.
        var foreign = 0
        /// Statements that fail while the connection stays open.
        var errors = 0
        /// Statements that fail on another writer's lock.
        var lockConflicts = 0
        /// Locks that are released because the log can't be followed while they are held.
        var unheldLocks = 0
        /// Times that the snapshot is reloaded instead of followed, so that its batches are unknown.
        var jumps = 0
        /// Evaluations in which all writes are refused.
        var refusals = 0
        /// Transactions with batches of other namespaces that are rolled back.
        var shared = 0
        /// Whether the namespace can begin to follow an upstream, so that the writes are refused.
        var follows = 0
        /// Times that another gateway becomes the follower: the next committer in order.
        var takeovers = 0
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
        /// The number of log entries that the snapshot contains.
        var snapshot = 0
        var connection = Connection.none
        var evaluation: Evaluation?
        var lost: [Evaluation] = []
        /// The length of the log when the machine last verified that its snapshot is the newest state.
        var confirmed: Int?
        /// Whether a batch was sent and its answer lost.
        var hasLost = false
        var isLate = false
        /// The number of attempts begun; 3 stands for three or more.
        var attempts = 0
        /// Whether it was given another connection although nothing was sent.
        var hasReconnected = false
        /// The last failure. `failedLate`: whether the deadline had passed then.
        var failure: CommitMachine.Failure?
        var failedLate = false
        /// Whether the next evaluation refuses the writes, because the database has refused them for the upstream's sake.
        var isRefused = false
        /// Whether the refusal leaves open if an earlier attempt was committed: `EngineError.superseded`.
        var isSuperseded = false
        var answer: Answer?
    }

    enum Connection: Hashable {
        case none, open, broken
    }

    /// A transaction from which the gateway receives nothing more.
    struct InFlight: Hashable {
        let owner: Int
        let evaluation: Evaluation
        /// Whether it was sent under the head's lock, which it still holds.
        let holdsLock: Bool
    }

    enum Holder: Hashable {
        case committer(Int)
        case inFlight(InFlight)
    }

    static let foreigner: UInt8 = 255
    /// The number of low bits of a batch's id that number the batches of one committer.
    static let bits: UInt8 = 4

    var log: [UInt8] = []
    var lock: Holder?
    var inFlight: Set<InFlight> = []
    var committers: [Committer]
    var budget: Budget
    /// Whether all committers execute the operations of one session, which must be executed once.
    let isClaim: Bool
    var isClaimed = false
    /// Whether the writes of each committer are the first upstream message under the committer's fence.
    let hasMessages: Bool
    /// Whether the namespace follows an upstream, so that writes that are no messages are refused.
    var isFollowing = false
    /// The committer whose fence is the namespace's, and the number of its last committed message.
    var fence = 0
    var position = 0
    let isContended: Bool
    /// Whether all committers consider the database available after a failure.
    let isDatabaseUp: Bool
    /// The violations found on the way to this state.
    var violations: [String] = []

    init(
        _ count: Int, contended: Bool = false, claim: Bool = false, messages: Bool = false, isDatabaseUp: Bool = true,
        _ budget: Budget
    ) {
        committers = (0..<count).map { _ in
            var machine = CommitMachine(deadline: 1, isContended: contended)
            let effect = machine.start()
            return Committer(machine: machine, effect: effect)
        }
        self.budget = budget
        isClaim = claim
        hasMessages = messages
        isContended = contended
        self.isDatabaseUp = isDatabaseUp
    }

    static func owner(of batch: UInt8) -> Int? { batch == foreigner ? nil : Int(batch >> bits) }

    // MARK: Transitions

    /// All states that can follow this one.
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
        if budget.follows > 0, lock == nil {
            found.append(
                with {
                    $0.budget.follows -= 1
                    $0.isFollowing = true
                })
        }
        if budget.takeovers > 0 {
            found.append(
                with {
                    $0.budget.takeovers -= 1
                    $0.fence += 1
                    $0.position = 0
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

    /// Returns a changed copy of this state.
    func with(_ change: (inout CommitWorld) -> Void) -> CommitWorld {
        var copy = self
        change(&copy)
        return copy
    }

    mutating func violated(_ what: String) { violations.append(what) }
}
