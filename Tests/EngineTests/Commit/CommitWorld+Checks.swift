@testable import Engine

/// The world's database, and its invariants.
extension CommitWorld {
    // MARK: The database

    mutating func write(_ evaluation: Evaluation) -> CommitMachine.Event {
        // The transaction obtains the right to write a message first.
        if hasMessages {
            guard Self.owner(of: evaluation.batch) == fence, position == 0 else { return .superseded }
        }
        guard log.count == evaluation.base else { return .headMoved }
        if isFollowing, !hasMessages { return .following }
        if isClaim {
            guard !isClaimed else { return .alreadyClaimed }
            isClaimed = true
        }
        log.append(evaluation.batch)
        if hasMessages { position = 1 }
        return .committed
    }

    mutating func land(_ one: InFlight) {
        _ = write(one.evaluation)
        die(one)
    }

    mutating func die(_ one: InFlight) {
        inFlight.remove(one)
        if lock == .inFlight(one) { lock = nil }
    }

    mutating func applyAll(_ index: Int) -> [[UInt8]] {
        let known = committers[index].snapshot
        committers[index].snapshot = log.count
        return log[known...].map { [$0] }
    }

    // MARK: Checks

    mutating func expectsConnection(_ index: Int) {
        if committers[index].connection != .open { violated("uses a connection that it doesn't have") }
    }

    mutating func expectsLock(_ index: Int, _ what: String) {
        if lock != .committer(index) { violated(what) }
    }

    /// Checks that a committer that waits before a retry has a reason for the retry.
    mutating func checkRetry(of index: Int) {
        let committer = committers[index]
        if committer.failedLate { violated("tries again behind the deadline") }
        guard !committer.hasLost else { return }
        switch committer.failure {
        case .lockConflict: break
        case .connectionLost where isDatabaseUp && !committer.hasReconnected: committers[index].hasReconnected = true
        default: violated("tries again what is no use")
        }
    }

    /// Passes an event to the machine, and records its answer to the writes if it gives one.
    mutating func reply(_ index: Int, _ event: CommitMachine.Event) {
        if event == .following || event == .superseded { committers[index].isRefused = true }
        if event == .superseded { committers[index].isSuperseded = true }
        let effect = committers[index].machine.handle(event)
        committers[index].effect = effect
        let committer = committers[index]
        switch effect {
        case .publish(let sent):
            guard let one = evaluation(sent, of: index) else { return violated("publishes nothing") }
            if one.base != committer.snapshot { violated("publishes what does not follow the snapshot") }
            committers[index].snapshot += 1
            answered(index, .committed(batch: one.batch))
        case .answer(let sent):
            guard let one = evaluation(sent, of: index) else { return violated("answers by nothing") }
            if one.hasRecords, committer.snapshot <= one.base { violated("answers before the data") }
            answered(index, one.hasRecords ? .committed(batch: one.batch) : .refused)
        case .answerClaimed: answered(index, .claimed)
        case .fail(.asReported): answered(index, .failed)
        case .fail(.outcomeUnknown): answered(index, .unknown)
        case .pause, .connect:
            if lock == .committer(index) { violated("keeps the lock while it does nothing") }
        default: break
        }
    }

    func evaluation(_ sent: CommitMachine.Sent, of index: Int) -> Evaluation? {
        switch sent {
        case .current: committers[index].evaluation
        case .lost(let number): committers[index].lost.indices.contains(number) ? committers[index].lost[number] : nil
        }
    }

    mutating func answered(_ index: Int, _ answer: Answer) {
        committers[index].answer = answer
        if lock == .committer(index) { violated("ends with the lock") }
        switch answer {
        case .committed(let batch):
            if !log.contains(batch) { violated("acknowledged before it is in the log") }
        case .refused:
            // A follower reads the position before it submits a superseded message again.
            if !committers[index].isSuperseded, log.contains(where: { Self.owner(of: $0) == index }) {
                violated("refused what is in the log")
            }
            if committers[index].confirmed != committers[index].evaluation?.base {
                violated("refused on a state that is not known to be the newest")
            }
        case .claimed:
            if !isClaimed { violated("told that it was claimed and nobody has") }
        case .failed:
            if committers[index].hasLost { violated("an error where the outcome is unknown") }
        case .unknown:
            if !committers[index].hasLost { violated("an unknown outcome where nothing was sent") }
            if !committers[index].isLate { violated("gives up before the deadline") }
        }
    }

    /// The violations found at the end, when nothing is in flight.
    var finalViolations: [String] {
        var found: [String] = []
        for (index, committer) in committers.enumerated() {
            let count = log.count { Self.owner(of: $0) == index }
            switch committer.answer {
            case .committed where count != 1: found.append("committer \(index): acknowledged, and \(count) times there")
            case .refused where count != 0 && !(committer.isSuperseded && count == 1):
                found.append("committer \(index): refused, and \(count) times there")
            case .failed where count != 0: found.append("committer \(index): failed, and \(count) times there")
            case .claimed where count != 0: found.append("committer \(index): another's, and \(count) times there")
            case .unknown where count > 1: found.append("committer \(index): unknown, and \(count) times there")
            case nil: found.append("committer \(index): never answered")
            default: break
            }
        }
        if isClaim, log.count(where: { $0 != Self.foreigner }) > 1 { found.append("a session's operations twice") }
        return found
    }
}
