@testable import Engine

/// The possible results of each effect of a machine.
extension CommitWorld {
    func steps(of index: Int, _ found: inout [CommitWorld]) {
        let committer = committers[index]
        switch committer.effect {
        case .connect:
            found.append(
                with {
                    $0.committers[index].attempts = min(committer.attempts + 1, 3)
                    if committer.connection == .broken { $0.violated("goes on with a broken connection") }
                    $0.committers[index].connection = .open
                    $0.reply(index, .connected)
                })
            if committer.connection == .none { losses(index, &found) }
        case .search(let lost): searches(index, lost: lost, &found)
        case .follow: follows(index, &found)
        case .lockHead: locks(index, &found)
        case .unlockHead:
            found.append(
                with {
                    $0.expectsLock(index, "gives a lock back that it doesn't have")
                    $0.lock = nil
                    $0.reply(index, .done)
                })
        case .evaluate(let isRepeated): evaluations(index, isRepeated: isRepeated, &found)
        case .checkHead:
            found.append(
                with {
                    let isNewest = $0.log.count == committer.snapshot
                    if isNewest { $0.committers[index].confirmed = committer.snapshot }
                    $0.reply(index, .headChecked(isNewest: isNewest))
                })
            failures(index, &found)
        case .forgetClaims:
            found.append(
                with {
                    if committer.evaluation?.hasRecords != false { $0.violated("forgets claims of what was accepted") }
                    if isClaim { $0.isClaimed = true }
                    $0.reply(index, .done)
                })
            failures(index, &found)
        case .send(let isLocked): sends(index, isLocked: isLocked, &found)
        case .keepLost:
            found.append(
                with {
                    if let evaluation = committer.evaluation { $0.committers[index].lost.append(evaluation) }
                    $0.reply(index, .done)
                })
        case .dropConnection, .reportFailure, .pause:
            found.append(
                with {
                    if committer.effect == .pause { $0.checkRetry(of: index) }
                    if committer.effect == .dropConnection { $0.committers[index].connection = .none }
                    $0.reply(index, .done)
                })
        case .publish, .answer, .answerClaimed, .fail: break
        }
    }

    func searches(_ index: Int, lost: Int, _ found: inout [CommitWorld]) {
        let committer = committers[index]
        if lock == nil {
            found.append(
                with {
                    $0.expectsConnection(index)
                    guard committer.lost.indices.contains(lost) else { return $0.violated("searches for nothing") }
                    let one = committer.lost[lost]
                    let isThere = one.base < log.count && log[one.base] == one.batch
                    $0.reply(index, .searched(isFound: isThere, hasMoved: committer.snapshot != one.base))
                })
        }
        failures(index, &found, isLockWaitedFor: true)
    }

    func follows(_ index: Int, _ found: inout [CommitWorld]) {
        let committer = committers[index]
        found.append(
            with {
                $0.expectsConnection(index)
                $0.reply(index, .followed($0.applyAll(index), isComplete: true))
            })
        failures(index, &found)
        if budget.jumps > 0, committer.snapshot < log.count {
            found.append(
                with {
                    $0.budget.jumps -= 1
                    _ = $0.applyAll(index)
                    $0.reply(index, .followed([], isComplete: false))
                })
        }
        // Or the connection is lost after some of the entries have been applied.
        for seq in committer.snapshot..<max(committer.snapshot, log.count) where budget.losses > 0 {
            found.append(
                with {
                    $0.committers[index].snapshot = seq + 1
                    $0.lose(index)
                })
        }
    }

    func locks(_ index: Int, _ found: inout [CommitWorld]) {
        if lock == nil {
            found.append(
                with {
                    $0.expectsConnection(index)
                    $0.lock = .committer(index)
                    let batches = $0.applyAll(index)
                    $0.committers[index].confirmed = $0.log.count
                    $0.reply(index, .locked(isHeld: true, batches))
                })
            if budget.unheldLocks > 0, committers[index].snapshot < log.count {
                found.append(
                    with {
                        $0.budget.unheldLocks -= 1
                        $0.reply(index, .locked(isHeld: false, $0.applyAll(index)))
                    })
                if budget.jumps > 0 {
                    found.append(
                        with {
                            $0.budget.unheldLocks -= 1
                            $0.budget.jumps -= 1
                            _ = $0.applyAll(index)
                            $0.reply(index, .locked(isHeld: false, []))
                        })
                }
            }
        }
        failures(index, &found, isLockWaitedFor: true)
    }

    /// Adds the possible evaluations. On the same tree, at the same instant, an evaluation gives the same result;
    /// otherwise any result is possible.
    func evaluations(_ index: Int, isRepeated: Bool, _ found: inout [CommitWorld]) {
        let committer = committers[index]
        let batch = UInt8(index) << Self.bits | UInt8(committer.lost.count)
        let known = isRepeated ? committer.lost.first { $0.base == committer.snapshot } : nil
        var results = known.map { [$0.hasRecords] } ?? (budget.refusals > 0 ? [true, false] : [true])
        // The periodic check may have found that the namespace follows, before a batch was refused.
        let isRefused = committer.isRefused || (isFollowing && !hasMessages)
        if isRefused { results = committer.isRefused ? [false] : [true, false] }
        for hasRecords in results {
            found.append(
                with {
                    if !hasRecords, !isRefused { $0.budget.refusals -= 1 }
                    $0.committers[index].evaluation = Evaluation(
                        batch: batch, base: committer.snapshot, hasRecords: hasRecords)
                    $0.reply(index, .evaluated(batch: [batch], hasRecords: hasRecords))
                })
        }
    }

    func sends(_ index: Int, isLocked: Bool, _ found: inout [CommitWorld]) {
        let committer = committers[index]
        guard let evaluation = committer.evaluation else { return }
        if !isLocked, isContended || committer.attempts > 2 {
            found.append(with { $0.violated("guesses where it should lock") })
            return
        }
        let isMine = lock == .committer(index)
        if isLocked && !isMine {
            found.append(with { $0.violated("sends under a lock that it doesn't have") })
            return
        }
        if isMine || lock == nil {
            // The batch arrives, and so does the answer; or the answer is lost.
            found.append(
                with {
                    $0.expectsConnection(index)
                    let outcome = $0.write(evaluation)
                    $0.lock = nil
                    $0.reply(index, outcome)
                })
            if budget.losses > 0 {
                found.append(
                    with {
                        _ = $0.write(evaluation)
                        $0.lock = nil
                        $0.committers[index].hasLost = true
                        $0.lose(index)
                    })
            }
        }
        if budget.losses > 0 {
            // The batch is still on its way, and may also be lost there.
            found.append(
                with {
                    let one = InFlight(owner: index, evaluation: evaluation, holdsLock: isMine)
                    $0.inFlight.insert(one)
                    if isMine { $0.lock = .inFlight(one) }
                    $0.committers[index].hasLost = true
                    $0.lose(index)
                })
        }
        errors(index, &found, isLockWaitedFor: !isMine)
        sharedTransactionTries(index, isLocked: isLocked, &found)
    }

    /// Adds the results of a batch that is sent with batches of other namespaces, one of which causes a rollback of the
    /// transaction. (The other results of such a transaction are those of a single batch.)
    func sharedTransactionTries(_ index: Int, isLocked: Bool, _ found: inout [CommitWorld]) {
        guard budget.shared > 0, !isLocked, committers[index].lost.isEmpty, committers[index].attempts == 1 else {
            return
        }
        found.append(
            with {
                $0.budget.shared -= 1
                let now = CommitMachine.Circumstances(now: 0, isDatabaseUp: true, isStopping: false)
                guard case .alone = SharedTransactionOutcome.cameToNothing.continuation(now) else {
                    return $0.violated("goes on with what was rolled back")
                }
                var machine = CommitMachine(deadline: 1, isContended: isContended)
                $0.committers[index].effect = machine.start()
                $0.committers[index].machine = machine
                $0.committers[index].evaluation = nil
                $0.committers[index].attempts = 0
                // After the restart the machine may get an old connection once more.
                $0.committers[index].hasReconnected = false
            })
    }

    // MARK: Faults

    func failures(_ index: Int, _ found: inout [CommitWorld], isLockWaitedFor: Bool = false) {
        losses(index, &found)
        errors(index, &found, isLockWaitedFor: isLockWaitedFor)
    }

    func losses(_ index: Int, _ found: inout [CommitWorld]) {
        guard budget.losses > 0 else { return }
        found.append(with { $0.lose(index) })
    }

    func errors(_ index: Int, _ found: inout [CommitWorld], isLockWaitedFor: Bool) {
        if budget.errors > 0 {
            found.append(
                with {
                    $0.budget.errors -= 1
                    $0.fail(index, .other)
                })
        }
        if isLockWaitedFor, budget.lockConflicts > 0 {
            found.append(
                with {
                    $0.budget.lockConflicts -= 1
                    $0.fail(index, .lockConflict)
                })
        }
    }

    mutating func lose(_ index: Int) {
        budget.losses -= 1
        committers[index].connection = .broken
        fail(index, .connectionLost)
    }

    mutating func fail(_ index: Int, _ failure: CommitMachine.Failure) {
        // A statement that fails ends its transaction.
        if lock == .committer(index) { lock = nil }
        committers[index].failure = failure
        let now: Int64 = committers[index].isLate ? 1 : 0
        committers[index].failedLate = committers[index].isLate
        reply(index, .failed(failure, .init(now: now, isDatabaseUp: isDatabaseUp, isStopping: false)))
    }
}
