import LogStore

/// The state that a run leaves to the next run of its feed on the same gateway: the current deliveries, and their
/// outcomes since the run ended.
///
/// It applies only if nothing changed between the runs except one change of the definition, and if messages keep their positions.
/// Deliveries then end under the definition with which they began, and the new definition applies from the next attempt on.
struct FeedInheritance {
    /// The claims of the runs that began the deliveries.
    var claims: Set<FeedClaim>
    private let claim: FeedClaim
    private let definition: FeedDefinition
    /// The positions of the messages that consumers or the sink hold, or nil if an earlier owner may have delivered others.
    let positions: Set<FeedPosition>?
    /// The messages that are delivered again. The outcomes of later messages of their keys do not count.
    let overtaken: OvertakingNotes
    /// The known numbers of the current deliveries.
    let deliveries: [FeedPosition: UInt64]
    /// The known keys of the messages in `positions`.
    let keys: Set<FeedKey>
    /// The time by which the last of the deliveries has ended, in monotonic milliseconds.
    let until: Int64
    /// The outcomes of ended deliveries.
    var outcomes: [FeedPosition: SinkOutcome]

    init(_ run: FeedRun, at now: Int64) {
        claim = run.claim
        claims = run.claims
        definition = run.definition
        let machine = run.machine
        outcomes = run.inherited
        // Messages that have arrived at the sink must not be sent again, even if that is not recorded yet.
        let arrived = run.arrived.union(run.arrivedBeingWritten)
        for position in arrived { outcomes[position] = .delivered }
        let isKnown = machine.adoptedPositions != nil || machine.adoptedThrough == 0 || machine.adoptedUntil <= now
        positions = isKnown ? machine.heldPositions.union(machine.adoptedPositions ?? []).union(outcomes.keys) : nil
        overtaken = machine.overtaken
        var deliveries = machine.heldDeliveries
        for position in arrived { deliveries[position] = .max }
        self.deliveries = deliveries
        keys = machine.heldKeys.union(machine.adoptedKeys)
        let sinkEnd = run.sink.map { now + $0.timeoutMilliseconds + 1_000 } ?? now
        until = max(sinkEnd, machine.adoptedUntil)
    }

    /// Returns whether a run follows the ended run with another definition, and nothing else could have moved its messages.
    ///
    /// The change of the definition and the claim each increment the generation. A seek increments it, too, but leaves
    /// the definition unchanged.
    func suits(_ start: FeedRunStart) -> Bool {
        claim.feed == start.claim.feed && claim.worker == start.claim.worker
            && claim.generation + 2 == start.claim.generation && definition != start.definition
            && start.definition.numbersMessagesLike(definition)
    }
}

/// The sink of an ended run, until its last delivery has ended.
struct RetiredSink {
    let feed: FeedName
    let sink: any Sink
    var deliveriesInFlight: Int
}

/// Outcomes of deliveries.
extension FeedRun {
    static let sinkName = "sink"

    /// Applies the outcome of a delivery of this run.
    func settle(_ position: FeedPosition, _ outcome: SinkOutcome, _ now: FeedMachine.Moment) {
        switch outcome {
        case .delivered:
            if machine.acknowledge(position, by: Self.sinkName) == .done { arrived.insert(position) }
            trouble = nil
        case .failed(let reason, let delay):
            _ = machine.reject(position, by: Self.sinkName, after: delay, reason: reason, now: now)
            trouble = reason
        case .refused(let reason):
            _ = machine.reject(position, by: Self.sinkName, after: nil, reason: reason, isFinal: true, now: now)
            trouble = reason
        case .notSent: machine.giveBack([position], of: Self.sinkName)
        case .unavailable(let reason):
            machine.giveBack([position], of: Self.sinkName)
            trouble = reason
        }
    }

    /// Applies the outcome of a delivery that an earlier run began: at once, or when the reader has brought the message.
    func settleInherited(_ position: FeedPosition, _ outcome: SinkOutcome, _ now: FeedMachine.Moment) {
        guard machine.isAdopted(position) else {
            if machine.adoptedPositions?.contains(position) == true { inherited[position] = outcome }
            return
        }
        switch outcome {
        case .delivered: break
        // Deliveries before this run have not been counted as attempts yet.
        case .failed, .refused: machine.countAttempt(position)
        case .notSent, .unavailable: return machine.giveBackAdopted(position)
        }
        settle(position, outcome, now)
    }

    /// Applies the inherited outcome of a message that has arrived from the reader or from the stored retries.
    func applyInherited(_ position: FeedPosition, _ now: FeedMachine.Moment) {
        guard !inherited.isEmpty, let outcome = inherited.removeValue(forKey: position) else { return }
        settleInherited(position, outcome, now)
    }
}
