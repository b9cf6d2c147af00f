import LogStore
import Runtime

/// What the dispatcher's thread has: the feeds that are worked here, and requests that wait until one is. Belongs to that thread.
final class FeedDesk {
    private let core: FeedCore
    private let readers: FeedReaders
    private let writer: FeedWriter
    private let board: FeedBoard
    private let troubles: FeedTroubles
    private let post: @Sendable (FeedCommand) -> Void
    private let clock: () -> FeedMachine.Moment
    private var runs: [FeedName: FeedRun] = [:]
    private var names: [FeedClaim: FeedName] = [:]
    private var routes: [FeedName: FeedRoute] = [:]
    /// What was out of feeds that are not worked any more, mostly as they begin anew under another generation.
    private var ended: [FeedName: FeedInheritance] = [:]
    /// Sinks of runs that have ended, while deliveries of theirs are in flight.
    private var retired: [FeedClaim: RetiredSink] = [:]
    private var ownerless = OwnerlessRequests()
    private var routesTold = 0
    /// The pulls that wait, for messages or for an owner, by namespace and feed.
    private var pullSeats: FairLedger<String, String>
    /// The settlements that wait for an owner. They have seats of their own, so that pulls never shut them out.
    private var settlementSeats: FairLedger<String, String>
    /// Feeds to look at in this turn, those of which something is to be written down, and when others have something due.
    private var touched: [FeedRun] = []
    private var unwritten: [FeedRun] = []
    private var schedule = TimerHeap<FeedClaim>()
    private var lookedAtAll: Int64 = 0
    private var couldHandOut = false
    private var reportedAt: Int64 = 0

    /// - Parameter post: gives the desk a command from any thread.
    init(
        _ core: FeedCore, _ readers: FeedReaders, _ writer: FeedWriter, _ board: FeedBoard,
        _ troubles: FeedTroubles, clock: @escaping () -> FeedMachine.Moment = { .current },
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

    /// How long there is nothing to do unless somebody says something.
    func millisecondsToNext(_ now: Int64) -> Milliseconds {
        var due = schedule.earliest ?? .max
        if let deadline = ownerless.nextDeadline { due = min(due, deadline) }
        return min(1_000, max(1, due == .max ? 1_000 : due - now))
    }

    /// Does what was said, what is due, and what follows.
    func handle(_ commands: [FeedCommand]) {
        let now = clock()
        for command in commands { handle(command, clock()) }
        expireOwnerless(now.monotonic)
        let mayHandOut = core.lease.isFresh(at: Clock.monotonicMilliseconds)
        while let (time, claim) = schedule.take(by: now.monotonic) {
            guard let run = run(claim), run.scheduledAt == time else { continue }
            run.scheduledAt = .max
        }
        // Nobody says that the lease is fresh again; and a second's delay is the most that a mistake here can cost.
        if mayHandOut != couldHandOut || now.monotonic - lookedAtAll >= 1_000 {
            runs.values.forEach(touch)
            lookedAtAll = now.monotonic
            couldHandOut = mayHandOut
        }
        for run in touched {
            run.isTouched = false
            // It may have ended in this turn.
            guard runs[run.name] === run else { continue }
            look(at: run, mayHandOut: mayHandOut)
        }
        touched.removeAll(keepingCapacity: true)
        write(now.monotonic)
        report(now.monotonic)
    }

    /// Does what is due for a feed, and what has become possible.
    private func look(at run: FeedRun, mayHandOut: Bool) {
        // What came before in this turn may have taken a while: deadlines begin when messages are handed out.
        let now = clock()
        if let due = run.machine.nextDue, due <= now.monotonic { run.machine.advance(to: now) }
        if let fault = run.machine.fault { return stop(run, fault) }
        if mayHandOut {
            leave(run.serve(now), run.name)
            push(run, now)
        }
        leave(run.expire(now.monotonic), run.name)
        if let request = run.retriesWanted() { writer.load(request) }
        if run.readerMayGoOn() { readers.hasRoom(run.claim.namespace) }
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
            // It may have begun anew by now.
            if let run = run(name), run.claim.feed == feed, run.claim.generation < generation { end(run.claim) }
        case .endAll:
            for claim in Array(names.keys) { end(claim) }
            // Others work the feeds now.
            ended = [:]
            closeRetired { _ in true }
        case .found(let findings):
            for finding in findings { run(finding.claim)?.take(finding, now) }
        case .routes(let new):
            routes = new
            routesTold += 1
            for name in Array(ended.keys) {
                switch new[name] {
                case .here, .nobody: break
                case .elsewhere, nil:
                    ended[name] = nil
                    closeRetired { $0 == name }
                }
            }
            for feed in ownerless.feeds { settleOwnerless(feed, now) }
        case .letters(let claim, let page): run(claim)?.take(page, now)
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

    /// The feed that is worked by this claim; it is looked at in this turn.
    private func run(_ claim: FeedClaim) -> FeedRun? { names[claim].flatMap { run($0) } }

    private func run(_ name: FeedName) -> FeedRun? {
        guard let run = runs[name] else { return nil }
        touch(run)
        return run
    }

    // MARK: Feeds come and go

    private func begin(_ start: FeedRunStart) {
        if let old = runs[start.name] { end(old.claim) }
        // Where only this gateway has worked it, what is out is known.
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
        routes[name] = .nobody
        readers.remove(claim)
        guard let run = runs.removeValue(forKey: name) else { return }
        // Who waits for messages may be served by the next owner, or by this one under another generation.
        for one in run.waiting.removeAll() {
            if one.hasSeat { pullSeats.release(by: name.name, of: name.namespace) }
            waitForOwner(
                .pull(one.pull, one.completion), name, clock().monotonic, keepsSeat: one.hasSeat)
        }
        ended[name] = FeedInheritance(run, at: clock().monotonic)
        run.end()
        guard let sink = run.sink else { return }
        guard run.deliveriesUnderWay > 0 else { return close(sink) }
        retired[claim] = RetiredSink(feed: name, sink: sink, deliveriesUnderWay: run.deliveriesUnderWay)
    }

    private func close(_ sink: any Sink) {
        // One that can't reach its server may take long to stop: the other feeds don't wait for that.
        if !core.closers.submit({ sink.stop() }) { sink.stop() }
    }

    /// Ends the deliveries of runs that have ended.
    private func closeRetired(of isMeant: (FeedName) -> Bool) {
        for (claim, one) in retired where isMeant(one.feed) {
            retired[claim] = nil
            close(one.sink)
        }
    }

    /// Ends a feed of which something does not hold that has to: the supervisor claims it again, and it starts from what was recorded last.
    private func stop(_ run: FeedRun, _ fault: FeedInvariantError) {
        troubles.add([run.claim], FeedTrouble(fault))
        end(run.claim)
    }

    /// The gateway stops: what was done is written down, so that the next owner need not wait.
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

    /// Why a feed's requests can't be served here now; nil where they can, or may be soon.
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
            // Only waiting is refused: what is there is given all the same.
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

    /// No one waits for a pull any more.
    private func cancel(_ name: FeedName, _ id: UInt64) {
        if let request = ownerless.remove(pull: id) { return leave(request) }
        guard let run = run(name), run.cancel(id) else { return }
        pullSeats.release(by: name.name, of: name.namespace)
    }

    /// Some pulls of a feed that had seats do not wait any more.
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
            // What was not written down is not done: somebody else has the feed, or it was put elsewhere.
            completion(.success(isWritten ? results : results.map { $0 == "done" ? "expired" : $0 }))
        }
    }

    /// Keeps a request until a gateway works its feed.
    ///
    /// - Parameter keepsSeat: Whether it is a pull that had a seat until now, and so needs no permission for one.
    private func waitForOwner(_ command: FeedCommand, _ name: FeedName, _ now: Int64, keepsSeat: Bool = false) {
        if let refusal = refusal(of: name) { return refuse(command, refusal) }
        if keepsSeat {
            pullSeats.charge(1, to: name.name, of: name.namespace)
        } else if !takeSeat(command, name) {
            return refuse(command, .tooManyWaiting)
        }
        ownerless.add(
            OwnerlessRequests.Request(
                command: command, deadline: now + core.settings.ownerWaitMilliseconds, routesTold: routesTold))
    }

    /// Takes a seat for a request that is to wait for an owner.
    private func takeSeat(_ command: FeedCommand, _ name: FeedName) -> Bool {
        if case .pull = command { return pullSeats.take(for: name.name, of: name.namespace) }
        return settlementSeats.take(for: name.name, of: name.namespace)
    }

    /// A request does not wait for an owner any more.
    private func leave(_ request: OwnerlessRequests.Request) {
        guard let name = request.command.feed else { return }
        if case .pull = request.command {
            pullSeats.release(by: name.name, of: name.namespace)
        } else {
            settlementSeats.release(by: name.name, of: name.namespace)
        }
    }

    /// Serves or refuses the requests for a feed that waited for an owner, as far as its owner is known by now.
    private func settleOwnerless(_ name: FeedName, _ now: FeedMachine.Moment) {
        while let oldest = ownerless.first(of: name) {
            var refusal = refusal(of: name)
            if runs[name] == nil, refusal == nil {
                // The second look since then has begun after the request came, and found no such feed.
                guard routes[name] == nil, routesTold - oldest.routesTold >= 2 else { return }
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
        while run.deliveriesUnderWay < sink.concurrency, run.machine.hasReady {
            if case .wait(let until) = run.breaker.mayDeliver(at: now.monotonic) {
                run.sinkRestsUntil = until
                return
            }
            let deliveries = run.machine.pull(
                sink.batchSize, mostBytes: FeedRun.answerBytes, by: FeedRun.sinkName, now: now)
            guard !deliveries.isEmpty else { return }
            run.deliveriesUnderWay += 1
            let messages = deliveries.map { SinkMessage($0, of: run.name) }
            let positions = deliveries.map(\.message.position)
            sink.deliver(messages) { [post, claim = run.claim] in post(.delivered(claim, positions, $0)) }
        }
    }

    private func delivered(
        _ claim: FeedClaim, _ positions: [FeedPosition], _ outcomes: [SinkOutcome], _ now: FeedMachine.Moment
    ) {
        guard let run = run(claim) else { return deliveredFormerly(claim, positions, outcomes, now) }
        run.deliveriesUnderWay -= 1
        run.judge(outcomes, now.monotonic)
        for (position, outcome) in zip(positions, outcomes) { run.settle(position, outcome, now) }
    }

    /// A delivery has ended whose run has ended before: the present run of the feed may have taken it over.
    private func deliveredFormerly(
        _ claim: FeedClaim, _ positions: [FeedPosition], _ outcomes: [SinkOutcome], _ now: FeedMachine.Moment
    ) {
        guard var one = retired.removeValue(forKey: claim) else { return }
        one.deliveriesUnderWay -= 1
        if one.deliveriesUnderWay > 0 { retired[claim] = one } else { close(one.sink) }
        if let run = run(one.feed) {
            guard run.claims.contains(claim) else { return }
            for (position, outcome) in zip(positions, outcomes) { run.settleInherited(position, outcome, now) }
        } else if ended[one.feed]?.claims.contains(claim) == true {
            for (position, outcome) in zip(positions, outcomes) { ended[one.feed]?.outcomes[position] = outcome }
        }
    }

    // MARK: What is written down

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
                commit.letters.compactMap { if case .remove = $0.value { $0.key } else { nil } })
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
            // What was settled while the last of it was being written has nothing to wait for.
            if !run.machine.isDirty {
                for body in run.settled { body(true) }
                run.settled = []
            }
        }
    }

    /// Tells the log that a feed's dead letters have reached their bound, or have room again.
    private func tellRoom(of run: FeedRun) {
        run.saysShortOfRoom = run.machine.isShortOfRoom
        let fields = [("feed", "\(run.name.namespace)/\(run.name.name)"), ("stored", "\(run.machine.stored.count)")]
        if run.saysShortOfRoom {
            core.logger.warning("a feed has no room for more dead letters: retry or drop some", fields)
        } else {
            core.logger.info("a feed has room for dead letters again", fields)
        }
    }

    private func report(_ now: Int64) {
        guard now - reportedAt >= 200 else { return }
        reportedAt = now
        board.set(runs.mapValues { $0.report(namesConsumers: false) })
        for run in runs.values where run.machine.isShortOfRoom != run.saysShortOfRoom { tellRoom(of: run) }
    }
}
