import LogStore
import Runtime

/// What the dispatcher's thread has: the feeds that are worked here, and requests that wait until one is. Belongs to that thread.
final class FeedDesk {
    private struct Homeless {
        let command: FeedCommand
        let deadline: Int64
        /// How often the routes had been told by then.
        let routesTold: Int
    }

    private let core: FeedCore
    private let readers: FeedReaders
    private let writer: FeedWriter
    private let board: FeedBoard
    private let post: @Sendable (FeedCommand) -> Void
    private var runs: [FeedName: FeedRun] = [:]
    private var names: [FeedClaim: FeedName] = [:]
    private var routes: [FeedName: FeedRoute] = [:]
    /// What was out of feeds that are not worked any more, mostly as they begin anew under another generation.
    private var ended: [FeedName: (claim: FeedClaim, places: Set<FeedPosition>)] = [:]
    private var homeless: [Homeless] = []
    private var routesTold = 0
    /// Of all feeds, counted anew in each turn.
    private var waitingPulls = 0
    /// Feeds to look at in this turn, those of which something is to be written down, and when others have something due.
    private var touched: [FeedRun] = []
    private var unwritten: [FeedRun] = []
    private var schedule = TimerHeap<FeedClaim>()
    private var lookedAtAll: Int64 = 0
    private var couldHandOut = false
    private var reportedAt: Int64 = 0

    init(
        _ core: FeedCore, _ readers: FeedReaders, _ writer: FeedWriter, _ board: FeedBoard,
        _ post: @escaping @Sendable (FeedCommand) -> Void
    ) {
        self.core = core
        self.readers = readers
        self.writer = writer
        self.board = board
        self.post = post
    }

    /// How long there is nothing to do unless somebody says something.
    func millisecondsToNext(_ now: Int64) -> Milliseconds {
        var due = schedule.earliest ?? .max
        for one in homeless { due = min(due, one.deadline) }
        return min(1_000, max(1, due == .max ? 1_000 : due - now))
    }

    /// Does what was said, what is due, and what follows.
    func handle(_ commands: [FeedCommand]) {
        let now = FeedMachine.Moment(monotonic: Clock.monotonicMilliseconds, unix: Clock.unixMilliseconds)
        waitingPulls = runs.values.reduce(0) { $0 + $1.waiting.count }
        for command in commands { handle(command, now) }
        expireHomeless(now.monotonic)
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
            look(at: run, mayHandOut: mayHandOut, now)
        }
        touched.removeAll(keepingCapacity: true)
        write(now.monotonic)
        report(now.monotonic)
    }

    /// Does what is due for a feed, and what has become possible.
    private func look(at run: FeedRun, mayHandOut: Bool, _ now: FeedMachine.Moment) {
        if let due = run.machine.nextDue, due <= now.monotonic { run.machine.advance(to: now) }
        if mayHandOut {
            run.serve(now)
            push(run, now)
        }
        run.expire(now.monotonic)
        if let place = run.retriesWanted() { writer.load(run.claim, after: place) }
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
        case .endAll: for claim in Array(names.keys) { end(claim) }
        case .found(let findings):
            for finding in findings { run(finding.claim)?.take(finding, now) }
        case .routes(let new):
            routes = new
            routesTold += 1
            ended = ended.filter { new[$0.key] != nil }
            settleHomeless(now)
        case .letters(let claim, let page, let blocked): run(claim)?.take(page, blocked: blocked)
        case .pull(let pull, let completion): self.pull(pull, completion, command, now)
        case .cancel(let name, let id): run(name)?.waiting.removeAll { $0.pull.id == id }
        case .unsent(let name, let consumer, let positions): run(name)?.machine.giveBack(positions, of: consumer)
        case .resume(let name, let consumer, let position, let access):
            guard let run = run(name), run.isOpen(to: access) else { return }
            run.machine.giveBack(consumer, acknowledgingThrough: position)
        case .settle(let name, let positions, let consumer, let settlement, let access, let completion):
            settle(name, positions, consumer, settlement, access, completion, command, now)
        case .committed(let commits, let lost): committed(commits, lost)
        case .delivered(let claim, let positions, let outcomes): delivered(claim, positions, outcomes, now)
        case .report(let name, let access, let completion):
            guard runs[name]?.isOpen(to: access) ?? true else { return completion(nil, .notAdmitted) }
            completion(runs[name]?.report, refusal(of: name))
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
        let run = FeedRun(start)
        if let (claim, places) = ended.removeValue(forKey: start.name), claim.worker == start.claim.worker,
            claim.generation + 2 == start.claim.generation
        {
            // Only this gateway has worked it: what is out is known.
            run.machine.adoptedPlaces = places
        }
        runs[start.name] = run
        names[start.claim] = start.name
        touch(run)
        routes[start.name] = .here
        settleHomeless(FeedMachine.Moment(monotonic: Clock.monotonicMilliseconds, unix: Clock.unixMilliseconds))
    }

    private func end(_ claim: FeedClaim) {
        guard let name = names.removeValue(forKey: claim) else { return }
        routes[name] = .nobody
        readers.remove(claim)
        guard let run = runs.removeValue(forKey: name) else { return }
        // Who waits for messages may be served by the next owner, or by this one under another generation.
        for one in run.waiting { house(.pull(one.pull, one.completion), name, Clock.monotonicMilliseconds) }
        run.waiting = []
        ended[name] = (claim, run.machine.heldPlaces)
        run.end()
        guard let sink = run.sink else { return }
        // One that can't reach its server may take long to stop: the other feeds don't wait for that.
        if !core.closers.submit({ sink.stop() }) { sink.stop() }
    }

    /// The gateway stops: what was done is written down, so that the next owner need not wait.
    func end() {
        for run in runs.values { run.sink?.stop() }
        let moves = runs.values.map { ($0.claim, $0.machine.takeProgress(isLast: true)) }
        writer.writeLast(moves)
        for run in runs.values {
            for one in run.waiting { one.completion(.failure(FeedRefusalError(.stopping))) }
            run.end()
        }
        for one in homeless { refuse(one.command, .stopping) }
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
        _ command: FeedCommand, _ now: FeedMachine.Moment
    ) {
        guard let run = run(pull.feed) else { return house(command, pull.feed, now.monotonic) }
        guard run.isOpen(to: pull.access) else { return completion(.failure(FeedRefusalError(.notAdmitted))) }
        guard run.sink == nil else { return completion(.failure(FeedRefusalError(.isPushed))) }
        guard pull.most > 0 else { return completion(.success([])) }
        var pull = pull
        if pull.deadline > now.monotonic {
            // Only waiting is refused: what is there is given all the same. One feed's consumers leave room for others'.
            let most = core.settings.maxWaitingPulls
            if waitingPulls >= most || run.waiting.count >= max(1, most / 2) {
                guard run.machine.hasReady else { return completion(.failure(FeedRefusalError(.tooManyWaiting))) }
                pull.deadline = now.monotonic
            } else {
                waitingPulls += 1
            }
        }
        run.waiting.append(.init(pull: pull, completion: completion))
    }

    private func settle(
        _ name: FeedName, _ positions: [FeedPosition?], _ consumer: String?, _ settlement: FeedSettlement,
        _ access: FeedAccess, _ completion: @escaping @Sendable (Result<[String], FeedRefusalError>) -> Void,
        _ command: FeedCommand,
        _ now: FeedMachine.Moment
    ) {
        guard let run = run(name) else { return house(command, name, now.monotonic) }
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

    /// Keeps a request until somebody works its feed.
    private func house(_ command: FeedCommand, _ name: FeedName, _ now: Int64) {
        if let refusal = refusal(of: name) { return refuse(command, refusal) }
        guard homeless.count < core.settings.maxWaitingPulls else { return refuse(command, .tooManyWaiting) }
        homeless.append(
            Homeless(
                command: command, deadline: now + core.settings.ownerWaitMilliseconds, routesTold: routesTold))
    }

    private func settleHomeless(_ now: FeedMachine.Moment) {
        let all = homeless
        homeless = []
        for one in all {
            guard let name = Self.name(one.command) else { continue }
            if runs[name] != nil {
                handle(one.command, now)
            } else if let refusal = refusal(of: name) {
                refuse(one.command, refusal)
            } else if routes[name] == nil, routesTold - one.routesTold >= 2 {
                // The second look since then has begun behind the request, and found no such feed.
                refuse(one.command, .unknownFeed)
            } else {
                homeless.append(one)
            }
        }
    }

    private func expireHomeless(_ now: Int64) {
        guard homeless.contains(where: { $0.deadline <= now }) else { return }
        let over = homeless.filter { $0.deadline <= now }
        homeless.removeAll { $0.deadline <= now }
        for one in over {
            let isKnown = Self.name(one.command).map { routes[$0] != nil } ?? false
            refuse(one.command, isKnown ? .noOwner : .unknownFeed)
        }
    }

    private static func name(_ command: FeedCommand) -> FeedName? {
        switch command {
        case .pull(let pull, _): pull.feed
        case .settle(let name, _, _, _, _, _): name
        default: nil
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
        while run.deliveriesUnderWay < sink.concurrency, run.machine.hasReady {
            if case .wait(let until) = run.breaker.mayDeliver(at: now.monotonic) {
                run.sinkRestsUntil = until
                return
            }
            let deliveries = run.machine.pull(
                sink.batchSize, mostBytes: FeedRun.answerBytes, by: Self.sinkName, now: now)
            guard !deliveries.isEmpty else { return }
            run.deliveriesUnderWay += 1
            let messages = deliveries.map { SinkMessage($0, of: run.name) }
            let positions = deliveries.map(\.message.position)
            sink.deliver(messages) { [post, claim = run.claim] in post(.delivered(claim, positions, $0)) }
        }
    }

    private static let sinkName = "sink"

    private func delivered(
        _ claim: FeedClaim, _ positions: [FeedPosition], _ outcomes: [SinkOutcome], _ now: FeedMachine.Moment
    ) {
        guard let run = run(claim) else { return }
        run.deliveriesUnderWay -= 1
        run.judge(outcomes, now.monotonic)
        for (position, outcome) in zip(positions, outcomes) {
            switch outcome {
            case .delivered:
                _ = run.machine.acknowledge(position, by: Self.sinkName)
                run.trouble = nil
            case .failed(let reason, let delay):
                _ = run.machine.reject(position, by: Self.sinkName, after: delay, reason: reason, now: now)
                run.trouble = reason
            case .refused(let reason):
                _ = run.machine.reject(
                    position, by: Self.sinkName, after: nil, reason: reason, isFinal: true, now: now)
                run.trouble = reason
            case .notSent: run.machine.giveBack([position], of: Self.sinkName)
            }
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
            let commit = run.machine.takeProgress()
            commits.append((run.claim, commit))
            run.beingRemoved = Set(
                commit.letters.compactMap { if case .remove = $0.value { $0.key } else { nil } })
            run.isBeingWritten = true
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

    private func report(_ now: Int64) {
        guard now - reportedAt >= 200 else { return }
        reportedAt = now
        board.set(runs.mapValues(\.report))
    }
}

extension SinkMessage {
    init(_ delivery: FeedMachine.Delivery, of feed: FeedName) {
        let message = delivery.message
        let facts = message.facts
        self.init(
            id: message.position.id(in: feed.namespace), namespace: feed.namespace, feed: feed.name, key: message.key,
            path: facts.path, event: facts.event, seq: message.position.seq, time: facts.time,
            attempt: delivery.attempt, json: message.json(namespace: feed.namespace, attempt: delivery.attempt))
    }
}
