import LogStore

/// What a commit of a feed's progress holds.
struct FeedCommit: Sendable {
    let namespace: String
    /// Counts the machine's commits, from 1, and which of them is the last before it. Where nothing more is to be known of one that is under
    /// way, it may follow that one or the one before.
    let number: Int64
    let follows: Int64
    let recorded: CheckedProgress
    var letters: [FeedPosition: FeedMachine.LetterChange]
    var counters: FeedMachine.Counters

    var progress: FeedProgress { recorded.progress }
}

/// What is written down of a feed.
extension FeedMachine {
    /// What is to be written down now. The machine goes on meanwhile.
    ///
    /// - Parameter isLast: nothing will be handed out behind it.
    /// - Returns: nil where nothing may be recorded, as something does not hold: see `fault`.
    func takeProgress(isLast: Bool = false) -> FeedCommit? {
        guard fault == nil else { return nil }
        let recorded: CheckedProgress
        do throws(FeedInvariantError) {
            let handedTo = isLast ? max(places.seq, lastHeldSeq) : wantedHandedTo
            recorded = try places.progress(handedTo: handedTo, held: slots.count - retryCount)
        } catch {
            stop(error)
            return nil
        }
        isDirty = false
        isStale = false
        // Whether what is under way arrives, nobody will be there to know.
        if isLast { letters.merge(lettersUnderWay) { $0.keepingMessage(of: $1) } }
        lettersUnderWay = letters
        beingBuried += buried
        buried = []
        defer {
            letters.removeAll()
            counters = Counters()
        }
        commitCount += 1
        return FeedCommit(
            namespace: settings.namespace, number: commitCount, follows: max(0, commitCount - (isLast ? 2 : 1)),
            recorded: recorded, letters: letters, counters: counters)
    }

    /// So much is durable.
    func committed(_ commit: FeedCommit) {
        lettersUnderWay.removeAll()
        for key in beingBuried { key.unrecordedDeaths -= 1 }
        for key in beingBuried { settle(key) }
        beingBuried = []
        if let number = rereadsAfterCommit, commit.number >= number {
            rereadsAfterCommit = nil
            rereadsRetries = true
        }
        guard commit.progress.handedTo > handedTo else { return }
        handedTo = commit.progress.handedTo
        while let slot = gated.first, slot.position.seq <= handedTo {
            _ = gated.popFirst()
            if !blockedKeys.isEmpty, blockedKeys.contains(orderingKey(slot.message)) {
                setAside(slot)
            } else {
                enqueue(slot)
            }
        }
    }

    private var wantedHandedTo: Int64 {
        lastPushedSeq + handedAhead / 2 > handedTo ? max(handedTo, lastPushedSeq + handedAhead) : handedTo
    }

    /// How far ahead it is written down.
    var handedAhead: Int64 { min(settings.mostHandedAhead, pace.entries / 2) }

    /// The last entry of which somebody may have a message.
    private var lastHeldSeq: Int64 {
        // What a former owner has handed out may not even have been read yet.
        if readTo.seq < adoptedThrough { return max(adoptedThrough, lastPushedSeq) }
        return slots.values.reduce(0) { $1.isHeld || $1.mayBeOut ? max($0, $1.position.seq) : $0 }
    }
}

/// How fast entries come. Pure.
struct FeedPace: Sendable {
    /// How many came in the last tenth of a second.
    private(set) var entries: Int64 = 0
    /// Where and when the present tenth began.
    private var seq: Int64 = 0
    private var time: Int64 = 0

    /// - Parameter now: in monotonic milliseconds.
    mutating func measure(_ last: Int64, at now: Int64) {
        guard now - time >= 100 else { return }
        // After a pause the pace is not known; then the first messages wait until they are written down.
        entries = now - time < 400 ? (last - seq) * 100 / (now - time) : 0
        seq = last
        time = now
    }
}
