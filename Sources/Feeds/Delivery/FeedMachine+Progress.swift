import LogStore

/// A commit of a feed's progress.
struct FeedCommit: Sendable {
    let namespace: String
    /// The number of this commit among the machine's commits, from 1, and the number of the commit that must precede it. The last
    /// commit may also follow the commit after that one, whose outcome is then still unknown.
    let number: Int64
    let follows: Int64
    let recorded: CheckedProgress
    var failedMessages: [FeedPosition: FeedMachine.FailedMessageChange]
    var counters: FeedMachine.Counters

    var progress: FeedProgress { recorded.progress }
}

/// Recording of a feed's progress.
extension FeedMachine {
    /// Returns the progress to record now. The machine may continue in the meantime.
    ///
    /// - Parameter isLast: Whether the machine delivers no messages after this.
    /// - Returns: Nil if an invariant is violated and nothing may be recorded; see `fault`.
    func takeProgress(isLast: Bool = false) -> FeedCommit? {
        guard fault == nil else { return nil }
        let recorded: CheckedProgress
        do throws(FeedInvariantError) {
            let handedTo = isLast ? max(positions.seq, lastHeldSeq) : wantedHandedTo
            recorded = try positions.progress(handedTo: handedTo, held: slots.count - retryCount)
        } catch {
            stop(error)
            return nil
        }
        isDirty = false
        isStale = false
        // The machine will not learn whether the commit in flight succeeds.
        if isLast { failedMessages.merge(failedMessagesInFlight) { $0.keepingMessage(of: $1) } }
        failedMessagesInFlight = failedMessages
        beingBuried += buried
        buried = []
        defer {
            failedMessages.removeAll()
            counters = Counters()
        }
        commitCount += 1
        return FeedCommit(
            namespace: settings.namespace, number: commitCount, follows: max(0, commitCount - (isLast ? 2 : 1)),
            recorded: recorded, failedMessages: failedMessages, counters: counters)
    }

    /// Records that a commit is durable.
    func committed(_ commit: FeedCommit) {
        failedMessagesInFlight.removeAll()
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

    /// The number of entries by which `handedTo` is recorded ahead of the last message.
    var handedAhead: Int64 { min(settings.mostHandedAhead, pace.entries / 2) }

    /// The last entry of which a consumer may hold a message.
    private var lastHeldSeq: Int64 {
        // Messages that a previous owner has delivered may not have been read yet.
        if readTo.seq < adoptedThrough { return max(adoptedThrough, lastPushedSeq) }
        return slots.values.reduce(0) { $1.isHeld || $1.mayBeOut ? max($0, $1.position.seq) : $0 }
    }
}

/// Measures the rate at which entries arrive. Pure.
struct FeedPace: Sendable {
    /// The number of entries that arrived in the last tenth of a second.
    private(set) var entries: Int64 = 0
    /// The position and time at which the current measurement began.
    private var seq: Int64 = 0
    private var time: Int64 = 0

    /// - Parameter now: The time in monotonic milliseconds.
    mutating func measure(_ last: Int64, at now: Int64) {
        guard now - time >= 100 else { return }
        // After a pause the rate is unknown. The first messages then wait until `handedTo` is recorded.
        entries = now - time < 400 ? (last - seq) * 100 / (now - time) : 0
        seq = last
        time = now
    }
}
