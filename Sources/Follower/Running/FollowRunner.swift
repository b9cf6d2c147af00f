import ClientCore
import Crypto
import LogStore
import Runtime
import Synchronization
import Tree
import Wire

/// Follows one upstream into one namespace under one claim: the thread that runs a `FollowMachine`.
///
///     transport's thread -- events --> FollowInbox --> run(): machine --> connection, FollowTarget
///     committers        -- outcomes -->      ^
///     FollowRequests    -- tokens, rules ----+
///     FollowSupervisor  -- position ---------+         board: status, requests to the supervisor
final class FollowRunner: Sendable {
    /// The status that the supervisor stores, and the runner's requests to it.
    struct Board: Sendable {
        var status: FollowStatus
        /// Whether the supervisor has to read the position.
        var wantsPosition = false
        var isOver = false
    }

    let setup: FollowSetup
    let board: Mutex<Board>
    private let inbox = FollowInbox()
    private let requests: FollowRequests
    private let threads: Mutex<[Thread]>

    init(_ setup: FollowSetup) {
        self.setup = setup
        board = Mutex(Board(status: setup.status))
        requests = FollowRequests(setup, inbox)
        threads = Mutex([])
    }

    /// Starts the threads.
    func begin() {
        threads.withLock { threads in
            threads = [
                Thread(name: "follow") { [self] in
                    var loop = FollowLoop(setup, inbox, requests, board: self)
                    loop.run()
                },
                Thread(name: "follow-requests") { [requests] in requests.run() },
            ]
        }
    }

    /// Ends the connection and the threads. Submitted writes may still be committed.
    ///
    /// - Parameter waits: whether to return only when the threads have ended. A thread may compute the hash of a large tree
    ///   for some seconds, in which the supervisor has to write the heartbeats of other followers.
    func end(waits: Bool) {
        inbox.stop()
        requests.stop()
        for thread in threads.withLock({ $0 }) { if waits { thread.join() } else { thread.detach() } }
    }

    func positionFound(_ position: Int64) {
        board.withLock { $0.wantsPosition = false }
        inbox.add(.position(position))
    }
}

/// The loop of a follower's thread.
struct FollowLoop {
    private let setup: FollowSetup
    private let inbox: FollowInbox
    private let requests: FollowRequests
    private let board: FollowRunner
    private var machine: FollowMachine
    private var channel: (any RealtimeChannel)?
    private var status: FollowStatus
    /// Events that were taken and can't be handled yet.
    private var held: ArraySlice<(event: TransportEvent, number: ConnectionNumber)> = []
    /// The time at which a living connection's token is requested again, after a failure.
    private var tokenRetryAt: Milliseconds?
    /// The day since 1970 (UTC) of the last counted bytes.
    private var countedDay: Int64 = 0
    private var isRootAsked = false
    private var rootRetryAt: Milliseconds?
    private var isEstimating = false
    /// Whether the machine follows, or waits for another day.
    private var hasBegun = false
    /// The time of the next estimate, after one that exceeded the daily limit.
    private var estimateAt: Milliseconds?
    private var adoption: RulesAdoption
    /// Bytes of a message that is not complete yet.
    private var unfinishedBytes = 0
    /// The credential that the upstream knows. No text of the upstream's may repeat it.
    private var credential: Secret<String>?
    private let logger: Logger
    /// Counts of earlier followers.
    private let before: FollowStatus

    init(_ setup: FollowSetup, _ inbox: FollowInbox, _ requests: FollowRequests, board: FollowRunner) {
        self.setup = setup
        self.inbox = inbox
        self.requests = requests
        self.board = board
        status = setup.status
        before = setup.status
        adoption = RulesAdoption(isUsed: !setup.keepsRules, hasAdopted: setup.status.rulesDigest != nil)
        logger = setup.logger.adding([("namespace", setup.namespace)])
        machine = FollowMachine(
            FollowSettings(setup.upstream, setup.tools.times),
            plan: setup.status.parts.flatMap { FollowPlan(stored: $0) } ?? FollowPlan(),
            seed: UInt64.random(in: 0...UInt64.max))
    }

    /// Runs until the inbox says to stop.
    mutating func run() {
        status.connectedSince = nil
        if setup.maxBytesPerDay != nil, !hasLoaded {
            isEstimating = true
            requests.add(.estimate)
        } else {
            begin()
        }
        while true {
            execute()
            watchRules()
            publish()
            let content = inbox.take(milliseconds: wait, withEvents: held.isEmpty && !machine.isBlocked)
            if content.isStopping { break }
            handle(content)
        }
        machine.stop(now: Clock.monotonicMilliseconds)
        execute()
        channel?.close()
    }

    private mutating func begin() {
        guard !hasBegun, !isEstimating, estimateAt == nil, !adoption.isAwaited else { return }
        hasBegun = true
        let now = Clock.monotonicMilliseconds
        if let reason = budgetReason(adding: 0) { stopForToday(reason, now: now) } else { machine.start(now: now) }
    }

    /// Whether the upstream's tree was loaded once. Later loads receive only differences.
    private var hasLoaded: Bool { status.lastResyncSeq != nil || machine.counts.lastResyncSeq != nil }

    /// Stops until the next day. A first load is estimated again then, because it may not fit into any day.
    private mutating func stopForToday(_ reason: String, now: Int64) {
        requests.setPolling(false)
        if hasLoaded {
            machine.exceedBudget(reason, until: now + untilTomorrow, now: now)
        } else {
            machine.exceedBudget(reason, until: nil, now: now)
        }
        estimateAt = now + untilTomorrow
    }

    /// Continues on a new day.
    private mutating func beginDay() {
        estimateAt = nil
        requests.setPolling(true)
        guard !hasLoaded else { return }
        hasBegun = false
        isEstimating = true
        requests.add(.estimate)
    }

    /// The time until the next deadline; nil for none. A blocked loop wakes to keep its connection alive.
    private var wait: Milliseconds? {
        let now = Clock.monotonicMilliseconds
        if !held.isEmpty, !machine.isBlocked { return 0 }
        var next = machine.deadline
        if machine.isBlocked { next = min(next ?? .max, now + 5_000) }
        for time in [rootRetryAt, tokenRetryAt, estimateAt, adoption.retryAt] {
            if let time { next = min(next ?? .max, time) }
        }
        return next.map { max(0, $0 - now) }
    }

    private mutating func handle(_ content: FollowInbox.Content) {
        let now = Clock.monotonicMilliseconds
        for (number, outcome) in content.outcomes { machine.answered(number, outcome, now: now) }
        for result in content.results { handle(result, now: now) }
        if !content.events.isEmpty { held = content.events[...] }
        while !machine.isBlocked, let next = held.popFirst() {
            handle(next.event, next.number)
            execute()
        }
        if machine.isBlocked, let next = held.first { machine.heldBack(next.number, now: now) }
        machine.timePassed(now: now)
        if let time = estimateAt, now >= time { beginDay() }
        if let time = adoption.retryAt, now >= time { reconcileRules() }
        if let time = tokenRetryAt, now >= time {
            tokenRetryAt = nil
            requests.add(.token(isForced: true))
        }
    }

    private mutating func handle(_ event: TransportEvent, _ number: ConnectionNumber) {
        let now = Clock.monotonicMilliseconds
        switch event {
        case .received(let text):
            unfinishedBytes = 0
            count(text.count)
            status.lastMessageAt = Clock.unixMilliseconds
            defer { channel?.processed(text.count) }
            if let reason = budgetReason(adding: 0) { return stopForToday(reason, now: now) }
        case .progress(let unfinished):
            unfinishedBytes = unfinished
            if let reason = budgetReason(adding: Int64(unfinished)) { return stopForToday(reason, now: now) }
        case .closed:
            count(unfinishedBytes)
            unfinishedBytes = 0
        case .opened: break
        }
        machine.transport(event, of: number, now: now)
    }

    private mutating func handle(_ result: FollowInbox.Result, now: Int64) {
        switch result {
        case .token(let credential):
            tokenRetryAt = nil
            self.credential = credential?.text
            machine.tokenFound(credential.map { AuthRequest($0) }, now: now)
        case .tokenFailed(let reason):
            machine.tokenFailed(reason, now: now)
            // The connection continues with its present token until the upstream ends it.
            tokenRetryAt = machine.connection.isConnected ? now + setup.tools.times.longestRetry : nil
        case .rules(let source):
            adoption.found(source)
            reconcileRules()
        case .stateForRules(let result): reconcileRules(with: result, now: now)
        case .rulesFailed(let reason):
            let problem = "The upstream's rules can't be read: \(reason)"
            if adoption.problem != problem { note(rules: problem) }
        case .keys(let part, let keys): machine.keysFound(part, keys, now: now)
        case .keysFailed(let part, let reason): machine.keysFailed(part, reason, now: now)
        case .estimate(let bytes):
            isEstimating = false
            if let reason = budgetReason(adding: bytes ?? 0) {
                stopForToday("The first load is estimated at \(bytes ?? 0) bytes. \(reason)", now: now)
            } else {
                begin()
            }
        case .root(.success(let state)):
            isRootAsked = false
            machine.rootFound(state.root, now: now)
        case .root(.failure(let error)):
            isRootAsked = false
            rootRetryAt = now + 500
            logger.debug("the namespace's tree is not available", [("reason", error.reason)])
        case .position(let position): machine.positionFound(position, now: now)
        case .received(let bytes): count(Int(bytes))
        }
    }

    // MARK: Rules

    /// Compares the rules again once submitted ones have ended, or the namespace has the upstream's tree.
    private mutating func watchRules() {
        if machine.state == .following, adoption.synchronized() { reconcileRules() }
        if adoption.ended(machine.counts.rulesEnded) { reconcileRules() }
    }

    /// Compares the namespace's rules with the upstream's.
    private mutating func reconcileRules() {
        guard adoption.asks() else { return }
        setup.target.withState { [inbox] result in inbox.add(.stateForRules(result)) }
    }

    private mutating func reconcileRules(with result: Result<FollowedState, FollowTargetError>, now: Int64) {
        switch result {
        case .failure(let error):
            adoption.failed(retryAt: now + 500)
            logger.debug("the namespace's rules are not available", [("reason", error.reason)])
        case .success(let state):
            let problem = adoption.problem
            let target = setup.target
            if let rules = adoption.rulesToSubmit(
                for: state, isInFlight: machine.hasRulesInFlight, problem: { target.problem(ofRules: $0) })
            {
                machine.adopt(rules: rules, now: now)
            }
            if let new = adoption.problem, new != problem { note(rules: new) }
            begin()
        }
    }

    private mutating func note(rules problem: String) {
        adoption.problem = problem
        logger.warning("the upstream's rules were not adopted", [("reason", clean(problem))])
    }

    // MARK: Effects

    private mutating func execute() {
        for effect in machine.takeEffects() {
            switch effect {
            case .connection(let effect): execute(effect)
            case .submit(let write):
                setup.target.submit(write, fence: setup.fence) { [inbox] outcome in
                    inbox.answered(write.number, outcome)
                }
            case .readPosition: board.board.withLock { $0.wantsPosition = true }
            case .findKeys(let part): requests.add(.keys(part))
            case .planChanged: status.parts = machine.plan.isWhole ? nil : machine.plan.stored
            case .log(let notice): log(notice)
            }
        }
        let now = Clock.monotonicMilliseconds
        guard machine.wantsRoot, machine.inFlight == 0, !isRootAsked, rootRetryAt.map({ $0 <= now }) ?? true else {
            return
        }
        isRootAsked = true
        rootRetryAt = nil
        setup.target.withState { [inbox] result in inbox.add(.root(result)) }
    }

    private mutating func execute(_ effect: ConnectionEffect) {
        switch effect {
        case .open(let address, let number):
            channel = setup.tools.transport.connect(to: address) { [inbox] event in inbox.received(event, number) }
        case .send(let text): channel?.send(text)
        case .close:
            channel?.close()
            channel = nil
            count(unfinishedBytes)
            unfinishedBytes = 0
        case .askForToken(let isForced): requests.add(.token(isForced: isForced))
        case .askForAppCheckToken, .sendListen, .report: break
        }
    }

    private mutating func log(_ notice: FollowNotice) {
        switch notice {
        case .connected:
            status.connectedSince = Clock.unixMilliseconds
            logger.notice("the follower is connected", [("upstream", setup.upstream.description)])
        case .disconnected(let reason):
            status.connectedSince = nil
            logger.notice("the follower's connection ended", [("reason", clean(reason))])
        case .synchronized(let entries): logger.notice("a part is synchronized", [("entries", "\(entries)")])
        case .split(let part, let pieces):
            logger.warning(
                "a part was too large for one listen, and was split", [("part", "\(part)"), ("pieces", "\(pieces)")])
        case .tokenRenewed: logger.info("the follower renewed its login")
        case .tokenMissing(let reason): logger.warning("the follower has no credential", [("reason", clean(reason))])
        case .problem(let state):
            logger.warning(
                "the follower has a problem", [("state", state.name), ("reason", clean(state.message ?? ""))])
        case .note(let text): logger.info("the upstream behaved irregularly", [("detail", clean(text))])
        }
    }

    private func clean(_ text: String) -> String { UpstreamText.clean(text, without: credential) }

    // MARK: Counting

    private mutating func count(_ bytes: Int) {
        let day = Clock.unixMilliseconds / 86_400_000
        if day != countedDay {
            countedDay = day
            let today = Self.today
            if status.receivedOn != today {
                status.receivedOn = today
                status.receivedToday = 0
            }
        }
        status.receivedToday = Self.sum(status.receivedToday, Int64(bytes))
        status.received = Self.sum(status.received, Int64(bytes))
    }

    /// The sum, at most the largest number. The stored counts are an administrator's to change.
    private static func sum(_ count: Int64, _ more: Int64) -> Int64 {
        let (sum, isOver) = count.addingReportingOverflow(more)
        return isOver ? .max : sum
    }

    /// The reason why no more bytes may be received today; nil if they may.
    private func budgetReason(adding bytes: Int64) -> String? {
        guard let most = setup.maxBytesPerDay else { return nil }
        let today = status.receivedOn == Self.today ? status.receivedToday : 0
        guard today > most - min(bytes, most) || bytes > most else { return nil }
        return "\(today) bytes were received today, and the limit is \(most)"
    }

    private static var today: String { String(Timestamp.iso8601(unixMilliseconds: Clock.unixMilliseconds).prefix(10)) }

    private var untilTomorrow: Int64 {
        let day: Int64 = 86_400_000
        return day - Clock.unixMilliseconds % day + 1_000
    }

    private mutating func publish() {
        let counts = machine.counts
        status.entries = Self.sum(before.entries, counts.entries)
        status.resyncs = Self.sum(before.resyncs, counts.resyncs)
        status.lastResyncSeq = counts.lastResyncSeq ?? before.lastResyncSeq
        status.lagMilliseconds = counts.lagMilliseconds
        status.rulesDigest = adoption.digest ?? status.rulesDigest
        let state = isEstimating ? FollowState.connecting : machine.state
        status.state = state.name
        status.message = (state.message ?? adoption.problem).map { UpstreamText.clean($0, without: credential) }
        let status = status
        board.board.withLock { $0.status = status }
    }
}
