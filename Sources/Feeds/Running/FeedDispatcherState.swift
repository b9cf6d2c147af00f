import LogStore
import Runtime

/// The feeds that run on this gateway, and the requests that wait for an owner. Belongs to the dispatcher's thread.
final class FeedDispatcherState {
    private let core: FeedCore
    private let readers: FeedReaders
    private let writer: FeedWriter
    private let board: FeedStatuses
    private let troubles: FeedFailures
    private let post: @Sendable (FeedCommand) -> Void
    private let clock: () -> FeedMachine.Moment
    private var runs: [FeedName: FeedRun] = [:]
    private var names: [FeedClaim: FeedName] = [:]
    private var routes: [FeedName: FeedRoute] = [:]
    /// The deliveries of runs that have ended. Most of these feeds restart under a new generation.
    private var ended: [FeedName: FeedInheritance] = [:]
    /// The sinks of ended runs that still have deliveries in flight.
    private var retired: [FeedClaim: RetiredSink] = [:]
    private var ownerless = OwnerlessRequests()
    private var routesReported = 0
    /// The seats of pulls that wait for messages or for an owner, by namespace and feed. A seat is the permission to wait.
    private var pullSeats: FairLedger<String, String>
    /// The seats of settlements that wait for an owner. They are separate, so that pulls never use them up.
    private var settlementSeats: FairLedger<String, String>
    /// The feeds to process in this turn, the feeds with progress to record, and the times at which feeds have something due.
    private var touched: [FeedRun] = []
    private var unwritten: [FeedRun] = []
    private var schedule = TimerHeap<FeedClaim>()
    private var lookedAtAll: Int64 = 0
    private var couldHandOut = false
    private var reportedAt: Int64 = 0

    /// - Parameter post: Posts a command to the dispatcher from any thread.
    init(
        _ core: FeedCore, _ readers: FeedReaders, _ writer: FeedWriter, _ board: FeedStatuses,
        _ troubles: FeedFailures, clock: @escaping () -> FeedMachine.Moment = { .current },
        _ post: @escaping @Sendable (FeedCommand) -> Void
    ) {
        self.core = core
        self.readers = readers
        self.writer = writer
        self.board = board
        self.troubles = troubles
        self.post = post
        self.clock = clock
        pullSeats = FairLedger(capacity: core.settings.maxWaitingPulls)
        settlementSeats = FairLedger(capacity: core.settings.maxWaitingPulls)
    }

    /// Returns how long the thread may wait for commands, in milliseconds.
    func millisecondsToNext(_ now: Int64) -> Milliseconds {
        var due = schedule.earliest ?? .max
        if let deadline = ownerless.nextDeadline { due = min(due, deadline) }
        return min(1_000, max(1, due == .max ? 1_000 : due - now))
    }

    /// Handles commands, then processes the feeds that they concern and the feeds that have something due.
    func handle(_ commands: [FeedCommand]) {
        let now = clock()
        for command in commands { handle(command, clock()) }
        expireOwnerless(now.monotonic)
        let mayHandOut = core.lease.isFresh(at: Clock.monotonicMilliseconds)
        while let (time, claim) = schedule.take(by: now.monotonic) {
            guard let run = run(claim), run.scheduledAt == time else { continue }
            run.scheduledAt = .max
        }
        // No command reports that the lease is fresh again. Checking all feeds each second also limits the delay that a
        // missed wake-up can cause.
        if mayHandOut != couldHandOut || now.monotonic - lookedAtAll >= 1_000 {
            runs.values.forEach(touch)
            lookedAtAll = now.monotonic
            couldHandOut = mayHandOut
        }
        for run in touched {
            run.isTouched = false
            // The run may have ended in this turn.
            guard runs[run.name] === run else { continue }
            look(at: run, mayHandOut: mayHandOut)
        }
        touched.removeAll(keepingCapacity: true)
        write(now.monotonic)
        report(now.monotonic)
    }

    /// Expires deadlines of a feed, delivers its messages, and requests the reading and recording that it needs.
    private func look(at run: FeedRun, mayHandOut: Bool) {
        // Earlier work in this turn may have taken a while: deadlines start at the time of delivery.
        let now = clock()
        if let due = run.machine.nextDue, due <= now.monotonic { run.machine.advance(to: now) }
        if let fault = run.machine.fault { return stop(run, fault) }
        if mayHandOut {
            leave(run.serve(now), run.name)
            push(run, now)
        }
        leave(run.expire(now.monotonic), run.name)
        if let request = run.retriesWanted() { writer.load(request) }
        if run.readerMayContinue() { readers.hasRoom(run.claim.namespace) }
        if run.machine.isStale, run.staleSince == nil { run.staleSince = now.monotonic }
        if run.machine.isDirty || run.machine.isStale, !run.isUnwritten {
            run.isUnwritten = true
            unwritten.append(run)
        }
        let due = run.nextDue
        guard due < run.scheduledAt else { return }
        run.scheduledAt = due
        schedule.add(run.claim, at: due)
    }

    private func touch(_ run: FeedRun) {
        guard !run.isTouched else { return }
        run.isTouched = true
        touched.append(run)
    }

    private func handle(_ command: FeedCommand, _ now: FeedMachine.Moment) {
        switch command {
        case .begin(let start): begin(start)
        case .end(let claim): end(claim)
        case .moved(let name, let feed, let generation):
            // The feed may already have restarted under the newer generation.
            if let run = run(name), run.claim.feed == feed, run.claim.generation < generation { end(run.claim) }
        case .endAll:
            for claim in Array(names.keys) { end(claim) }
            // Other gateways run the feeds now.
            ended = [:]
            closeRetired { _ in true }
        case .found(let findings):
            for finding in findings { run(finding.claim)?.take(finding, now) }
        case .routes(let new):
            routes = new
            routesReported += 1
            for name in Array(ended.keys) {
                switch new[name] {
                case .here, .unowned: break
                case .elsewhere, nil:
                    ended[name] = nil
                    closeRetired { $0 == name }
                }
            }
            for feed in ownerless.feeds { settleOwnerless(feed, now) }
        case .failedMessages(let claim, let page): run(claim)?.take(page, now)
        case .pull(let pull, let completion): self.pull(pull, completion, command, now)
        case .cancel(let name, let id): cancel(name, id)
        case .unsent(let name, let deliveries):
            guard let run = run(name) else { return }
            for (position, delivery) in deliveries { run.machine.unsent(position, delivery: delivery) }
        case .release(let name, let consumer, let opening, let access):
            guard let run = run(name), run.isOpen(to: access) else { return }
            run.machine.release(consumer, opening)
        case .settle(let name, let positions, let consumer, let settlement, let access, let completion):
            settle(name, positions, consumer, settlement, access, completion, command, now)
        case .committed(let commits, let lost): committed(commits, lost)
        case .delivered(let claim, let positions, let outcomes): delivered(claim, positions, outcomes, now)
        case .report(let name, let access, let completion):
            guard runs[name]?.isOpen(to: access) ?? true else { return completion(nil, .notAdmitted) }
            completion(runs[name]?.report(namesConsumers: true), refusal(of: name))
        }
    }

    /// Returns the run of a claim and schedules it for this turn.
    private func run(_ claim: FeedClaim) -> FeedRun? { names[claim].flatMap { run($0) } }

    private func run(_ name: FeedName) -> FeedRun? {
        guard let run = runs[name] else { return nil }
        touch(run)
        return run
    }

    // MARK: Starting and ending runs

    private func begin(_ start: FeedRunStart) {
        if let old = runs[start.name] { end(old.claim) }
        // If no other gateway ran the feed in between, the current deliveries are known.
        let inheritance = ended.removeValue(forKey: start.name).flatMap { $0.suits(start) ? $0 : nil }
        if inheritance == nil { closeRetired { $0 == start.name } }
        let now = clock()
        let run = FeedRun(start, inheritance, now)
        runs[start.name] = run
        names[start.claim] = start.name
        touch(run)
        routes[start.name] = .here
        settleOwnerless(start.name, now)
    }

    private func end(_ claim: FeedClaim) {
        guard let name = names.removeValue(forKey: claim) else { return }
        routes[name] = .unowned
        readers.remove(claim)
        guard let run = runs.removeValue(forKey: name) else { return }
        // The next owner may serve the waiting pulls, or this gateway under another generation.
        for one in run.waiting.removeAll() {
            if one.hasSeat { pullSeats.release(by: name.name, of: name.namespace) }
            waitForOwner(
                .pull(one.pull, one.completion), name, clock().monotonic, keepsSeat: one.hasSeat)
        }
        ended[name] = FeedInheritance(run, at: clock().monotonic)
        run.end()
        guard let sink = run.sink else { return }
        guard run.deliveriesInFlight > 0 else { return close(sink) }
        retired[claim] = RetiredSink(feed: name, sink: sink, deliveriesInFlight: run.deliveriesInFlight)
    }

    private func close(_ sink: any Sink) {
        // A sink that cannot reach its server may take long to stop. Other feeds must not wait for it.
        if !core.closers.submit({ sink.stop() }) { sink.stop() }
    }

    /// Closes the sinks of ended runs, which ends their deliveries.
    private func closeRetired(of isMeant: (FeedName) -> Bool) {
        for (claim, one) in retired where isMeant(one.feed) {
            retired[claim] = nil
            close(one.sink)
        }
    }

    /// Ends a run that has violated an invariant. The supervisor claims the feed again, and it resumes from the last recorded progress.
    private func stop(_ run: FeedRun, _ fault: FeedInvariantError) {
        troubles.add([run.claim], FeedFailureReason(fault))
        end(run.claim)
    }

    /// Ends all runs when the gateway stops. Progress is recorded so that the next owner need not wait for deadlines.
    func end() {
        for run in runs.values { run.sink?.stop() }
        for one in retired.values { one.sink.stop() }
        let moves = runs.values.compactMap { run in
            run.machine.takeProgress(isLast: true).map { (run.claim, $0) }
        }
        writer.writeLast(moves)
        for run in runs.values {
            for one in run.waiting.removeAll() { one.completion(.failure(FeedRefusalError(.stopping))) }
            run.end()
        }
        for one in ownerless.removeAll() { refuse(one.command, .stopping) }
    }

    // MARK: Requests

    /// Returns the reason why this gateway cannot serve a feed's requests, or nil if it can or may soon be able to.
    private func refusal(of name: FeedName) -> FeedRefusal? {
        switch routes[name] {
        case .elsewhere(let peer): .elsewhere(peer)
        default: nil
        }
    }

    private func pull(
        _ pull: FeedPull, _ completion: @escaping @Sendable (Result<[FeedDelivery], FeedRefusalError>) -> Void,
        _ command: FeedCommand, _ now: FeedMachine.Moment, keepsSeat: Bool = false
    ) {
        guard let run = run(pull.feed) else { return waitForOwner(command, pull.feed, now.monotonic) }
        guard run.isOpen(to: pull.access) else { return completion(.failure(FeedRefusalError(.notAdmitted))) }
        guard run.sink == nil else { return completion(.failure(FeedRefusalError(.isPushed))) }
        var pull = pull
        if let opens = pull.opens {
            run.machine.open(pull.consumer, pull.opening, after: opens.after)
            pull.opens = nil
        }
        guard pull.most > 0 else { return completion(.success([])) }
        var hasSeat = false
        if pull.deadline > now.monotonic {
            // Only waiting is refused. Available messages are delivered in any case.
            hasSeat = keepsSeat || pullSeats.allows(for: pull.feed.name, of: pull.feed.namespace)
            if hasSeat {
                pullSeats.charge(1, to: pull.feed.name, of: pull.feed.namespace)
            } else {
                guard run.machine.hasReady else { return completion(.failure(FeedRefusalError(.tooManyWaiting))) }
                pull.deadline = now.monotonic
            }
        }
        run.waiting.add(.init(pull: pull, hasSeat: hasSeat, completion: completion))
    }

    /// Removes a pull that has been cancelled.
    private func cancel(_ name: FeedName, _ id: UInt64) {
        if let request = ownerless.remove(pull: id) { return leave(request) }
        guard let run = run(name), run.cancel(id) else { return }
        pullSeats.release(by: name.name, of: name.namespace)
    }

    /// Releases the seats of pulls that no longer wait.
    private func leave(_ seats: Int, _ name: FeedName) {
        pullSeats.release(seats, by: name.name, of: name.namespace)
    }

    private func settle(
        _ name: FeedName, _ positions: [FeedPosition?], _ consumer: String?, _ settlement: FeedSettlement,
        _ access: FeedAccess, _ completion: @escaping @Sendable (Result<[String], FeedRefusalError>) -> Void,
        _ command: FeedCommand,
        _ now: FeedMachine.Moment
    ) {
        guard let run = run(name) else { return waitForOwner(command, name, now.monotonic) }
        guard run.isOpen(to: access) else { return completion(.failure(FeedRefusalError(.notAdmitted))) }
        let results = positions.map { position -> String in
            guard let position else { return FeedMachine.Result.unknown.rawValue }
            let result: FeedMachine.Result
            switch settlement {
            case .acknowledge: result = run.machine.acknowledge(position, by: consumer)
            case .reject(let delay, let reason):
                result = run.machine.reject(position, by: consumer, after: delay, reason: reason, now: now)
            case .extend(let milliseconds):
                result = run.machine.extend(position, by: consumer, to: milliseconds, now: now)
            }
            return result.rawValue
        }
        guard run.machine.isDirty || run.isBeingWritten, results.contains("done") else {
            return completion(.success(results))
        }
        run.settled.append { isWritten in
            // If the progress was not recorded, the messages are not done: another gateway has the feed, or the feed was moved.
            completion(.success(isWritten ? results : results.map { $0 == "done" ? "expired" : $0 }))
        }
    }

    /// Keeps a request until a gateway runs its feed.
    ///
    /// - Parameter keepsSeat: Whether the request is a pull that had a seat and therefore keeps one.
    private func waitForOwner(_ command: FeedCommand, _ name: FeedName, _ now: Int64, keepsSeat: Bool = false) {
        if let refusal = refusal(of: name) { return refuse(command, refusal) }
        if keepsSeat {
            pullSeats.charge(1, to: name.name, of: name.namespace)
        } else if !takeSeat(command, name) {
            return refuse(command, .tooManyWaiting)
        }
        ownerless.add(
            OwnerlessRequests.Request(
                command: command, deadline: now + core.settings.ownerWaitMilliseconds, routesReported: routesReported))
    }

    /// Takes a seat for a request that waits for an owner.
    private func takeSeat(_ command: FeedCommand, _ name: FeedName) -> Bool {
        if case .pull = command { return pullSeats.take(for: name.name, of: name.namespace) }
        return settlementSeats.take(for: name.name, of: name.namespace)
    }

    /// Releases the seat of a request that no longer waits for an owner.
    private func leave(_ request: OwnerlessRequests.Request) {
        guard let name = request.command.feed else { return }
        if case .pull = request.command {
            pullSeats.release(by: name.name, of: name.namespace)
        } else {
            settlementSeats.release(by: name.name, of: name.namespace)
        }
    }

    /// Serves or refuses the requests that wait for a feed's owner, if the owner is known by now.
    private func settleOwnerless(_ name: FeedName, _ now: FeedMachine.Moment) {
        while let oldest = ownerless.first(of: name) {
            var refusal = refusal(of: name)
            if runs[name] == nil, refusal == nil {
                // After two reports, the latest look at the database began after the request arrived, and it found no such feed.
                guard routes[name] == nil, routesReported - oldest.routesReported >= 2 else { return }
                refusal = .unknownFeed
            }
            guard let request = ownerless.takeFirst(of: name) else { return }
            leave(request)
            if runs[name] != nil {
                if case .pull(let pull, let completion) = request.command {
                    self.pull(pull, completion, request.command, now, keepsSeat: true)
                } else {
                    handle(request.command, now)
                }
            } else if let refusal {
                refuse(request.command, refusal)
            }
        }
    }

    private func expireOwnerless(_ now: Int64) {
        for request in ownerless.expire(at: now) {
            leave(request)
            let isKnown = request.command.feed.map { routes[$0] != nil } ?? false
            refuse(request.command, isKnown ? .noOwner : .unknownFeed)
        }
    }

    private func refuse(_ command: FeedCommand, _ refusal: FeedRefusal) {
        switch command {
        case .pull(_, let completion): completion(.failure(FeedRefusalError(refusal)))
        case .settle(_, _, _, _, _, let completion): completion(.failure(FeedRefusalError(refusal)))
        default: break
        }
    }

    // MARK: Sinks

    private func push(_ run: FeedRun, _ now: FeedMachine.Moment) {
        guard let sink = run.sink else { return }
        guard now.monotonic >= run.sinkWaitsUntil else { return }
        while run.deliveriesInFlight < sink.concurrency, run.machine.hasReady {
            if case .wait(let until) = run.breaker.mayDeliver(at: now.monotonic) {
                run.sinkRestsUntil = until
                return
            }
            let deliveries = run.machine.pull(
                sink.batchSize, mostBytes: FeedRun.answerBytes, by: FeedRun.sinkName, now: now)
            guard !deliveries.isEmpty else { return }
            run.deliveriesInFlight += 1
            let messages = deliveries.map { SinkMessage($0, of: run.name) }
            let positions = deliveries.map(\.message.position)
            sink.deliver(messages) { [post, claim = run.claim] in post(.delivered(claim, positions, $0)) }
        }
    }

    private func delivered(
        _ claim: FeedClaim, _ positions: [FeedPosition], _ outcomes: [SinkOutcome], _ now: FeedMachine.Moment
    ) {
        guard let run = run(claim) else { return deliveredFormerly(claim, positions, outcomes, now) }
        run.deliveriesInFlight -= 1
        run.judge(outcomes, now.monotonic)
        for (position, outcome) in zip(positions, outcomes) { run.settle(position, outcome, now) }
    }

    /// Handles the end of a delivery whose run has already ended. The current run of the feed may have inherited it.
    private func deliveredFormerly(
        _ claim: FeedClaim, _ positions: [FeedPosition], _ outcomes: [SinkOutcome], _ now: FeedMachine.Moment
    ) {
        guard var one = retired.removeValue(forKey: claim) else { return }
        one.deliveriesInFlight -= 1
        if one.deliveriesInFlight > 0 { retired[claim] = one } else { close(one.sink) }
        if let run = run(one.feed) {
            guard run.claims.contains(claim) else { return }
            for (position, outcome) in zip(positions, outcomes) { run.settleInherited(position, outcome, now) }
        } else if ended[one.feed]?.claims.contains(claim) == true {
            for (position, outcome) in zip(positions, outcomes) { ended[one.feed]?.outcomes[position] = outcome }
        }
    }

    // MARK: Recording progress

    private func write(_ now: Int64) {
        guard !writer.isBusy else { return }
        var commits: [(FeedClaim, FeedCommit)] = []
        var later: [FeedRun] = []
        for run in unwritten where runs[run.name] === run {
            let isDue = run.staleSince.map { now - $0 >= FeedRun.staleMilliseconds } ?? false
            guard !run.isBeingWritten, run.machine.isDirty || isDue else {
                later.append(run)
                continue
            }
            run.isUnwritten = false
            run.staleSince = nil
            guard let commit = run.machine.takeProgress() else {
                if let fault = run.machine.fault { stop(run, fault) }
                continue
            }
            commits.append((run.claim, commit))
            run.beingRemoved = Set(
                commit.failedMessages.compactMap { if case .remove = $0.value { $0.key } else { nil } })
            run.isBeingWritten = true
            run.arrivedBeingWritten = run.arrived
            run.arrived = []
            run.settling = run.settled
            run.settled = []
        }
        unwritten = later
        if !commits.isEmpty { writer.write(commits) }
    }

    private func committed(_ commits: [(FeedClaim, FeedCommit)], _ lost: Set<FeedClaim>) {
        for (claim, commit) in commits {
            guard let run = run(claim) else { continue }
            run.isBeingWritten = false
            run.beingRemoved = []
            if lost.contains(claim) {
                end(claim)
                continue
            }
            run.arrivedBeingWritten = []
            run.machine.committed(commit)
            for body in run.settling { body(true) }
            run.settling = []
            // Requests settled during the last write have nothing to wait for if no progress remains to be recorded.
            if !run.machine.isDirty {
                for body in run.settled { body(true) }
                run.settled = []
            }
        }
    }

    /// Logs that a feed's dead letters have reached their limit, or have room again.
    private func reportRoom(of run: FeedRun) {
        run.saysShortOfRoom = run.machine.isShortOfRoom
        let fields = [("feed", "\(run.name.namespace)/\(run.name.name)"), ("stored", "\(run.machine.stored.count)")]
        if run.saysShortOfRoom {
            core.logger.warning("a feed has reached its limit of dead letters: retry or drop some", fields)
        } else {
            core.logger.info("a feed is below its limit of dead letters again", fields)
        }
    }

    private func report(_ now: Int64) {
        guard now - reportedAt >= 200 else { return }
        reportedAt = now
        board.set(runs.mapValues { $0.report(namesConsumers: false) })
        for run in runs.values where run.machine.isShortOfRoom != run.saysShortOfRoom { reportRoom(of: run) }
    }
}
