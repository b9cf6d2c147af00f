import ClientCore
import Tree
import Wire

/// Decides what a follower sends to its upstream and submits to its namespace. Pure: it has no socket, no clock and no
/// thread. Times are in milliseconds of a monotonic clock.
///
///     each part:   waiting --- root known, listen sent ---> synchronizing --- answered, difference submitted ---> live
///                     ^                                          |                                                 |
///                     +---------------- connection lost, listen refused -------------------------------------------+
///
/// A part that synchronizes collects the upstream's data on a copy of its tree, which shares all equal nodes. When the
/// upstream has answered the listen, the difference between the namespace and the copy becomes one entry `resync`. Each
/// later message becomes one entry `upstream`.
///
/// Hashes and differences refer to the committed tree. So the machine asks for the tree (`wantsRoot`) when no submitted
/// write is unanswered, and takes no event of the transport before (`isBlocked`).
///
/// After a failed write, the machine waits for the outcomes of all submitted writes, asks for the position of the last
/// committed one, and submits the later ones again. The database rejects a write that does not follow that position.
struct FollowMachine: Sendable {
    let settings: FollowSettings
    var connection: ConnectionMachine
    var effects: [FollowEffect] = []
    var plan: FollowPlan
    var state = FollowState.connecting
    /// The last problem that was logged since the follower followed. Attempts to connect repeat it.
    private var lastProblem: FollowState?

    /// The parts' progress on the present connection.
    var parts: [FollowPart: Progress] = [:]
    var tags: [ListenTag: FollowPart] = [:]
    var lastTag: Int64 = 0
    /// Listens that wait for the tree.
    var listens: [ListenRequest] = []
    /// Parts with a difference to be submitted.
    var differing: [FollowPart] = []
    /// Parts that the upstream refused because they are too large.
    var oversized: [FollowPart] = []
    /// The part whose keys the upstream is being asked for.
    var asked: FollowPart?

    var lastNumber: Int64 = 0
    /// Submitted writes without a committed outcome, in order.
    var unanswered: [FollowWrite] = []
    /// Writes after a refused one, which are not submitted again. Their outcomes are still awaited.
    var abandoned: [FollowWrite] = []
    /// The number of submitted writes whose outcome has not arrived, and their bytes.
    var inFlight = 0
    var bytesInFlight = 0
    /// The number of unanswered differences. The namespace may commit later writes before a large difference, so nothing is
    /// submitted after one until it is answered.
    var resyncsInFlight = 0
    /// Rules that wait for that.
    var waitingRules: [UInt8]?
    private var hasStarted = false
    var isRecovering = false
    var isReadingPosition = false

    /// The time at which a suspended follower connects again.
    var resumesAt: Int64?
    /// The parts whose listens were refused, and the times at which they are sent again. The connection has forgotten them.
    var relistens: [FollowPart: Int64] = [:]
    /// The reason of the last refusal.
    var refusal: FollowState?
    /// Whether this machine itself is ending the connection.
    var isSuspending = false
    /// The part at whose data consecutive connections ended with a complaint about sizes, and their number.
    var payloadFailures: (part: FollowPart, count: Int)?
    var hasPayloadError = false
    var counts = FollowCounts()

    enum Progress: Sendable {
        case waiting
        /// The value at the part's path, with the upstream's data so far.
        case synchronizing(Node)
        /// The upstream has answered; the difference to this value is still to be submitted.
        case answered(Node)
        case live
        /// The upstream has replaced a range as a whole; the difference to this value is still to be submitted.
        case replaced(Node)
    }

    init(_ settings: FollowSettings, plan: FollowPlan = FollowPlan(), seed: UInt64) {
        self.settings = settings
        self.plan = plan
        connection = ConnectionMachine(settings.connection, seed: seed)
        for part in plan.parts { parts[part] = .waiting }
    }

    /// Takes the effects since the last call, in order.
    mutating func takeEffects() -> [FollowEffect] {
        defer { effects = [] }
        return effects
    }

    var hasEffects: Bool { !effects.isEmpty }

    /// Whether the owner must pass `rootFound` as soon as no write is in flight.
    var wantsRoot: Bool {
        !isRecovering && asked == nil && !(listens.isEmpty && differing.isEmpty && oversized.isEmpty)
    }

    /// Whether events of the transport must wait: the tree is needed, a difference or too many writes are in flight, or a
    /// write failed.
    var isBlocked: Bool {
        isRecovering || wantsRoot || asked != nil || resyncsInFlight > 0 || inFlight >= settings.maxInFlight
            || bytesInFlight >= settings.maxBytesInFlight
    }

    /// Whether the outcome of a rules document is awaited.
    var hasRulesInFlight: Bool { waitingRules != nil || unanswered.contains { $0.operation == .rules } }

    // MARK: Connecting

    /// Begins to follow, or continues after a suspension without an end.
    mutating func start(now: Int64) {
        resumesAt = nil
        enter(.connecting)
        listenToAll(now: now)
        connection.goOnline(now: now)
        drain(now: now)
    }

    private mutating func listenToAll(now: Int64) {
        guard !hasStarted else { return }
        hasStarted = true
        for part in plan.parts { listen(part, now: now) }
    }

    /// Ends the connection. Submitted writes are still answered.
    mutating func stop(now: Int64) {
        resumesAt = nil
        isSuspending = true
        connection.goOffline(now: now)
        drain(now: now)
    }

    /// Ends the connection, and connects again at a time; nil for never.
    mutating func suspend(_ state: FollowState, until time: Int64?, now: Int64) {
        isSuspending = true
        connection.goOffline(now: now)
        drain(now: now)
        isSuspending = false
        resumesAt = time
        enter(state)
    }

    /// Suspends the follower because the daily limit of bytes is reached: until a time, or until `start`.
    mutating func exceedBudget(_ reason: String, until time: Int64?, now: Int64) {
        listenToAll(now: now)
        suspend(.overBudget(reason: reason), until: time, now: now)
    }

    /// Handles an event of the transport. Must not be called while `isBlocked`.
    mutating func transport(_ event: TransportEvent, of number: ConnectionNumber, now: Int64) {
        connection.transport(event, of: number, now: now)
        drain(now: now)
    }

    /// Keeps a connection alive whose messages wait here: the upstream's silence is then no sign of its death.
    mutating func heldBack(_ number: ConnectionNumber, now: Int64) {
        connection.transport(.progress(unfinished: 0), of: number, now: now)
    }

    /// Answers `askForToken`.
    mutating func tokenFound(_ credential: AuthRequest?, now: Int64) {
        connection.tokenProvided(credential, now: now)
        drain(now: now)
    }

    /// Answers `askForToken` without a token.
    mutating func tokenFailed(_ reason: String, now: Int64) {
        connection.tokenFailed(reason: reason, now: now)
        drain(now: now)
    }

    /// The time at which `timePassed` has to be called; nil for never.
    var deadline: Int64? {
        ([connection.deadline, resumesAt] + relistens.values.map(Optional.some)).compactMap(\.self).min()
    }

    mutating func timePassed(now: Int64) {
        if let time = resumesAt, now >= time {
            resumesAt = nil
            enter(.connecting)
            connection.goOnline(now: now)
        }
        for (part, time) in relistens where now >= time {
            relistens[part] = nil
            listen(part, now: now)
        }
        connection.timePassed(now: now)
        drain(now: now)
    }

    // MARK: Listening

    mutating func listen(_ part: FollowPart, now: Int64) {
        parts[part] = .waiting
        connection.listen(part.spec, tag: tag(of: part), now: now)
    }

    private mutating func tag(of part: FollowPart) -> ListenTag? {
        guard part.isRange, !part.spec.loadsAllData else { return nil }
        if let known = tags.first(where: { $0.value == part }) { return known.key }
        lastTag += 1
        let tag = ListenTag(rawValue: lastTag)
        tags[tag] = part
        return tag
    }

    /// Executes the connection's effects, and handles its reports.
    mutating func drain(now: Int64) {
        while true {
            let new = connection.takeEffects()
            if new.isEmpty { return }
            for effect in new {
                switch effect {
                case .sendListen(let request): listens.append(request)
                case .report(let report): handle(report, now: now)
                default: effects.append(.connection(effect))
                }
            }
        }
    }

    mutating func enter(_ new: FollowState) {
        guard new != state else { return }
        state = new
        if new == .following { lastProblem = nil }
        guard new.message != nil, new != lastProblem else { return }
        lastProblem = new
        effects.append(.log(.problem(new)))
    }

    /// Sends a refused part's listen again after a pause. The other parts continue.
    mutating func refuse(_ part: FollowPart, _ state: FollowState, after pause: Int64, now: Int64) {
        relistens[part] = now + pause
        refusal = state
        enter(state)
    }

    /// Updates the state of an open connection from its parts.
    mutating func updateState() {
        guard !isRecovering else { return }
        if resyncsInFlight == 0, parts.values.allSatisfy({ if case .live = $0 { true } else { false } }) {
            refusal = nil
            enter(.following)
        } else if let refusal, !relistens.isEmpty {
            enter(refusal)
        } else {
            enter(.synchronizing)
        }
    }
}

/// The limits of a follower. Times are in milliseconds.
struct FollowSettings: Sendable {
    var connection: ConnectionSettings
    /// Maximum number and bytes of writes that are submitted and not committed.
    var maxInFlight = 1_000
    var maxBytesInFlight = 16 << 20
    /// See `FollowTimes`.
    var violationPause: Int64 = 600_000
    var refusalPause: Int64 = 30_000
    /// The number of connections that may end over a payload before a part is split.
    var maxPayloadFailures = 2

    init(_ connection: ConnectionSettings) { self.connection = connection }
}

/// The work of a follower since it started.
struct FollowCounts: Sendable, Equatable {
    var entries: Int64 = 0
    var resyncs: Int64 = 0
    var lastResyncSeq: Int64?
    /// The number of submitted rules documents that were committed, or will not be.
    var rulesEnded: Int64 = 0
    /// Milliseconds from the arrival of the last committed message to its commit.
    var lagMilliseconds: Int64?

    init() {}
}
