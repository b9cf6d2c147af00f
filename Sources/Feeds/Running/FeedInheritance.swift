import LogStore

/// What a run leaves to the next run of its feed on the same gateway: which messages are out, and what became of them since.
///
/// It holds only where the definition was changed once in between, nothing else, and messages keep their places. Deliveries then end with
/// the definition they began with, and the new one applies from the next attempt on.
struct FeedInheritance {
    /// The runs that began the deliveries.
    var claims: Set<FeedClaim>
    private let claim: FeedClaim
    private let definition: FeedDefinition
    /// The messages that consumers or the sink have; nil where an earlier owner may have handed out others.
    let places: Set<FeedPosition>?
    /// The messages that are delivered again: the outcomes of later ones of their keys do not count.
    let overtaken: OvertakingNotes
    /// The numbers of deliveries that are out, as far as they are known.
    let deliveries: [FeedPosition: UInt64]
    /// The keys of these messages, as far as they are known.
    let keys: Set<FeedKey>
    /// When the last of the deliveries has ended, in monotonic milliseconds.
    let until: Int64
    /// What became of messages whose delivery has ended.
    var outcomes: [FeedPosition: SinkOutcome]

    init(_ run: FeedRun, at now: Int64) {
        claim = run.claim
        claims = run.claims
        definition = run.definition
        let machine = run.machine
        outcomes = run.inherited
        // What the sink has, though it is not written down, is not to be sent again.
        let arrived = run.arrived.union(run.arrivedBeingWritten)
        for position in arrived { outcomes[position] = .delivered }
        let isKnown = machine.adoptedPlaces != nil || machine.adoptedThrough == 0 || machine.adoptedUntil <= now
        places = isKnown ? machine.heldPlaces.union(machine.adoptedPlaces ?? []).union(outcomes.keys) : nil
        overtaken = machine.overtaken
        var deliveries = machine.heldDeliveries
        for position in arrived { deliveries[position] = .max }
        self.deliveries = deliveries
        keys = machine.heldKeys.union(machine.adoptedKeys)
        let sinkEnd = run.sink.map { now + $0.timeoutMilliseconds + 1_000 } ?? now
        until = max(sinkEnd, machine.adoptedUntil)
    }

    /// Whether a run follows the one that has ended, with another definition and nothing else that could have moved its messages.
    ///
    /// The change of the definition and the claim each count the generation up. A seek counts it up, too, but leaves the definition.
    func suits(_ start: FeedRunStart) -> Bool {
        claim.feed == start.claim.feed && claim.worker == start.claim.worker
            && claim.generation + 2 == start.claim.generation && definition != start.definition
            && start.definition.numbersMessagesLike(definition)
    }
}

/// A sink whose run has ended, until its last delivery has.
struct RetiredSink {
    let feed: FeedName
    let sink: any Sink
    var deliveriesUnderWay: Int
}

/// What becomes of deliveries.
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

    /// Applies the outcome of a delivery that an earlier run began, at once or when the reader has brought the message.
    func settleInherited(_ position: FeedPosition, _ outcome: SinkOutcome, _ now: FeedMachine.Moment) {
        guard machine.isAdopted(position) else {
            if machine.adoptedPlaces?.contains(position) == true { inherited[position] = outcome }
            return
        }
        switch outcome {
        case .delivered: break
        // What was handed out before this run is not counted yet.
        case .failed, .refused: machine.countAttempt(position)
        case .notSent, .unavailable: return machine.giveBackAdopted(position)
        }
        settle(position, outcome, now)
    }

    /// A message has come from the reader, or from the letters.
    func applyInherited(_ position: FeedPosition, _ now: FeedMachine.Moment) {
        guard !inherited.isEmpty, let outcome = inherited.removeValue(forKey: position) else { return }
        settleInherited(position, outcome, now)
    }
}
