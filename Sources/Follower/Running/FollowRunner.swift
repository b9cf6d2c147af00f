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
    /// Whether the upstream's rules have never been adopted. Its data is not loaded before that: until then the rules of other
    /// namespaces would decide who reads it.
    private var awaitsRules: Bool
    private var rulesProblem: String?
    /// The digest of the rules that were submitted last.
    private var submittedRules: String?
    private var rulesSubmitted: Int64 = 0
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
        awaitsRules = !setup.keepsRules && setup.status.rulesDigest == nil
        logger = setup.logger.adding([("namespace", setup.namespace)])
        machine = FollowMachine(
            FollowSettings(setup.upstream, setup.tools.times),
            plan: setup.status.parts.flatMap { FollowPlan(stored: $0) } ?? FollowPlan(),
            seed: UInt64.random(in: 0...UInt64.max))
    }

    /// Runs until the inbox says to stop.
    mutating func run() {
        status.connectedSince = nil
        if setup.maxBytesPerDay != nil, setup.status.entries == 0 {
            isEstimating = true
            requests.add(.estimate)
        } else {
            begin()
        }
        while true {
            execute()
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
        guard !isEstimating, !awaitsRules else { return }
        let now = Clock.monotonicMilliseconds
        if let reason = budgetReason(adding: 0) {
            machine.exceedBudget(reason, until: now + untilTomorrow, now: now)
        } else {
            machine.start(now: now)
        }
    }

    /// The time until the next deadline; nil for none. A blocked loop wakes to keep its connection alive.
    private var wait: Milliseconds? {
        let now = Clock.monotonicMilliseconds
        if !held.isEmpty, !machine.isBlocked { return 0 }
        var next = machine.deadline
        if machine.isBlocked { next = min(next ?? .max, now + 5_000) }
        for time in [rootRetryAt, tokenRetryAt] { if let time { next = min(next ?? .max, time) } }
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
        if let time = tokenRetryAt, now >= time {
            tokenRetryAt = nil
            requests.add(.token(isForced: true))
        }
    }

    private mutating func handle(_ event: TransportEvent, _ number: ConnectionNumber) {
        let now = Clock.monotonicMilliseconds
        if case .received(let text) = event {
            count(text.count)
            status.lastMessageAt = Clock.unixMilliseconds
            defer { channel?.processed(text.count) }
            if let reason = budgetReason(adding: 0) {
                return machine.exceedBudget(reason, until: now + untilTomorrow, now: now)
            }
            machine.transport(event, of: number, now: now)
        } else {
            machine.transport(event, of: number, now: now)
        }
    }

    private mutating func handle(_ result: FollowInbox.Result, now: Int64) {
        switch result {
        case .token(let credential):
            tokenRetryAt = nil
            machine.tokenFound(credential.map { AuthRequest($0) }, now: now)
        case .tokenFailed(let reason):
            machine.tokenFailed(reason, now: now)
            // The connection continues with its present token until the upstream ends it.
            tokenRetryAt = machine.connection.isConnected ? now + setup.tools.times.longestRetry : nil
        case .rules(let source): adopt(source, now: now)
        case .rulesFailed(let reason): note(rules: "The upstream's rules can't be read: \(reason)")
        case .keys(let part, let keys): machine.keysFound(part, keys, now: now)
        case .keysFailed(let part, let reason): machine.keysFailed(part, reason, now: now)
        case .estimate(let bytes):
            isEstimating = false
            if let reason = budgetReason(adding: bytes ?? 0) {
                machine.exceedBudget(
                    "The first load is estimated at \(bytes ?? 0) bytes. \(reason)", until: now + untilTomorrow,
                    now: now)
            } else {
                begin()
            }
        case .root(.success(let root)):
            isRootAsked = false
            machine.rootFound(root, now: now)
        case .root(.failure(let error)):
            isRootAsked = false
            rootRetryAt = now + 500
            logger.debug("the namespace's tree is not available", [("reason", error.reason)])
        case .position(let position): machine.positionFound(position, now: now)
        case .received(let bytes): count(Int(bytes))
        }
    }

    // MARK: Rules

    private mutating func adopt(_ source: [UInt8], now: Int64) {
        let problem = setup.target.problem(ofRules: source)?.split(whereSeparator: \.isNewline).joined(separator: " ")
        if let problem {
            note(
                rules: "The upstream's rules can't be evaluated here, so only administrators can read (\(problem)). "
                    + "Change them, or run follow rm and follow add with --keep-rules and --replace, and set rules of your own."
            )
        } else {
            rulesProblem = nil
        }
        let digest = String(decoding: Base64.encode(Digest.sha1(source)), as: UTF8.self)
        guard digest != (submittedRules ?? status.rulesDigest) else { return }
        submittedRules = digest
        rulesSubmitted += 1
        // Rules that can't be evaluated must not let anyone read more than the upstream does.
        machine.adopt(
            rules: problem == nil ? source : Array(#"{"rules": {".read": false, ".write": false}}"#.utf8), now: now)
        if awaitsRules {
            awaitsRules = false
            begin()
        }
    }

    private mutating func note(rules problem: String) {
        guard rulesProblem != problem else { return }
        rulesProblem = problem
        logger.warning("the upstream's rules were not adopted", [("reason", problem)])
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
        setup.target.withRoot { [inbox] result in inbox.add(.root(result)) }
    }

    private mutating func execute(_ effect: ConnectionEffect) {
        switch effect {
        case .open(let address, let number):
            channel = setup.tools.transport.connect(to: address) { [inbox] event in inbox.received(event, number) }
        case .send(let text): channel?.send(text)
        case .close:
            channel?.close()
            channel = nil
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
            logger.notice("the follower's connection ended", [("reason", reason)])
        case .synchronized(let entries): logger.notice("a part is synchronized", [("entries", "\(entries)")])
        case .split(let part, let pieces):
            logger.warning(
                "a part was too large for one listen, and was split", [("part", "\(part)"), ("pieces", "\(pieces)")])
        case .tokenRenewed: logger.info("the follower renewed its login")
        case .tokenMissing(let reason): logger.warning("the follower has no credential", [("reason", reason)])
        case .problem(let state):
            logger.warning("the follower has a problem", [("state", state.name), ("reason", state.message ?? "")])
        case .note(let text): logger.info("the upstream behaved irregularly", [("detail", text)])
        }
    }

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
        status.receivedToday += Int64(bytes)
        status.received += Int64(bytes)
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
        status.entries = before.entries + counts.entries
        status.resyncs = before.resyncs + counts.resyncs
        status.lastResyncSeq = counts.lastResyncSeq ?? before.lastResyncSeq
        status.lagMilliseconds = counts.lagMilliseconds
        if let submittedRules, counts.rules >= rulesSubmitted { status.rulesDigest = submittedRules }
        let state = isEstimating ? FollowState.connecting : machine.state
        status.state = state.name
        status.message = state.message ?? rulesProblem
        let status = status
        board.board.withLock { $0.status = status }
    }
}
