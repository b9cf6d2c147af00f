import LogStore
import Postgres
import Rules
import Runtime

/// Keeps this gateway's right to run feeds, claims feeds without an owner, and reports to the dispatcher which gateway runs each
/// feed. The listener of an announcement loop; belongs to its thread.
final class FeedSupervisor: AnnouncementListener {
    /// The public key of this gateway's certificate that is registered for other gateways.
    private var registeredPin: [UInt8]?

    private struct Mine {
        let claim: FeedClaim
        var revision: Int64
        let stopsKeys: Bool
    }

    private let core: FeedCore
    private let dispatcher: FeedDispatcher
    private let readers: FeedReaders
    private let writer: FeedWriter
    private let troubles: FeedFailures
    private let sinks: SinkMaker
    private let announcements: AnnouncementSubscription
    private var watch: HeartbeatWatch
    private var mine: [Int64: Mine] = [:]
    /// Claims whose feeds were not started, so that nothing was delivered under them, and the last entry of which a message may
    /// have been delivered before.
    private var unbegun: [Int64: (claim: FeedClaim, handedTo: Int64)] = [:]
    /// The times at which feeds that could not be started are retried.
    private var retries: [Int64: (at: Int64, backoff: Backoff)] = [:]
    private var reporter: FeedReporter

    init(
        _ core: FeedCore, _ dispatcher: FeedDispatcher, _ readers: FeedReaders, _ writer: FeedWriter,
        _ troubles: FeedFailures, _ administrator: FeedAdministrator, _ sinks: SinkMaker,
        _ announcements: AnnouncementSubscription
    ) {
        reporter = FeedReporter(administrator)
        self.core = core
        self.dispatcher = dispatcher
        self.readers = readers
        self.writer = writer
        self.troubles = troubles
        self.sinks = sinks
        self.announcements = announcements
        watch = HeartbeatWatch(
            leaseExpiryMilliseconds: core.settings.expiryMilliseconds,
            heartbeatMilliseconds: core.settings.heartbeatMilliseconds)
    }

    /// Runs until the service stops.
    func run() {
        let machine = ListeningMachine(
            pollMilliseconds: core.settings.heartbeatMilliseconds,
            backoff: Backoff(
                firstMilliseconds: core.settings.firstRetryMilliseconds,
                longestMilliseconds: core.settings.heartbeatMilliseconds))
        var loop = AnnouncementLoop(machine)
        loop.run(self)
    }

    // MARK: AnnouncementListener

    var stopsNow: Bool { core.stopsNow }

    func connect() throws -> LogConnection {
        let connection = try core.connect("feeds")
        connection.statementTimeoutMilliseconds = core.settings.expiryMilliseconds
        return connection
    }

    func listen(_ connection: LogConnection, milliseconds: Milliseconds) -> Bool {
        let heard = announcements.wait(milliseconds: milliseconds)
        for namespace in heard.heads.keys { readers.headSeen(namespace) }
        return heard.wantsLook
    }

    func failed(_ error: any Error, askedAt: Int64) {
        watch.forget()
        guard !core.stopsNow else { return }
        core.logger.debug("feeds have lost the connection to the database", [("error", "\(error)")])
    }

    func close(_ connection: LogConnection) { connection.close() }

    func pause(milliseconds: Milliseconds) { core.pause(milliseconds: milliseconds) }

    func look(_ connection: LogConnection, isNew: Bool) throws {
        guard let worker = try heartbeat(connection) else { return }
        try endDead(worker, connection)
        let feeds = try connection.feeds(definitions: false)
        try dropBroken(feeds, connection)
        dropLost()
        try keep(feeds, connection)
        try claim(feeds, worker, connection)
        reportRoutes(feeds)
        let namespaces = Set(mine.values.map(\.claim.namespace))
        announcements.follow(namespaces)
        // Announcements may have been lost.
        for namespace in namespaces { readers.headSeen(namespace) }
        let claims = mine.mapValues(\.claim)
        try reporter.report(dispatcher.board, claims, feeds.filter { $0.worker == worker }, connection)
    }

    // MARK: Worker

    /// Writes the heartbeat and returns the worker's id, or nil if the service stops before the gateway is registered.
    private func heartbeat(_ connection: LogConnection) throws -> [UInt8]? {
        if let worker = core.lease.worker {
            let asked = Clock.monotonicMilliseconds
            if try connection.heartbeatFeedWorker(worker) {
                core.lease.confirmed(worker, until: asked + core.settings.freshMilliseconds)
                try renewPin(of: worker, connection)
                return worker
            }
            core.logger.warning("other gateways have taken over this gateway's feeds because its heartbeats stopped")
            core.lease.lost()
            dispatcher.post(.endAll)
            mine = [:]
        }
        // A gateway claims no feeds until other gateways can reach it.
        guard let reach = core.reach(from: try connection.clientHost()) else { return nil }
        let asked = Clock.monotonicMilliseconds
        let worker = Batch.makeID()
        try connection.beginFeedWorker(worker, reach)
        registeredPin = reach.pin
        core.lease.confirmed(worker, until: asked + core.settings.freshMilliseconds)
        return worker
    }

    /// Registers the public key of the current certificate if it has changed.
    private func renewPin(of worker: [UInt8], _ connection: LogConnection) throws {
        let pin = core.pin(insteadOf: registeredPin)
        guard pin != registeredPin else { return }
        try connection.setFeedWorkerPin(worker, pin)
        registeredPin = pin
    }

    private func endDead(_ worker: [UInt8], _ connection: LogConnection) throws {
        let asked = Clock.monotonicMilliseconds
        let heartbeats = try connection.feedHeartbeats(otherThan: worker)
        for dead in watch.look(heartbeats, asked: asked, answered: Clock.monotonicMilliseconds) {
            if try connection.endFeedWorker(dead) {
                core.logger.warning(
                    "a gateway has stopped its heartbeats: its feeds are taken over", [("worker", dead.gateway)])
            }
        }
    }

    // MARK: Feeds

    /// Ends the runs of feeds that this gateway has lost, and reloads the retries of feeds with changed stored messages.
    private func keep(_ feeds: [FeedRecord], _ connection: LogConnection) throws {
        let records = Dictionary(uniqueKeysWithValues: feeds.map { ($0.id, $0) })
        for (id, own) in mine {
            guard let record = records[id], record.worker == own.claim.worker, record.generation == own.claim.generation
            else {
                dispatcher.post(.end(own.claim))
                mine[id] = nil
                continue
            }
            guard record.revision != own.revision else { continue }
            mine[id]?.revision = record.revision
            // The writer reads the retries, so that messages it is just removing do not appear as new.
            writer.load(FeedRetryRequest(claim: own.claim, after: nil, stopsKeys: own.stopsKeys))
        }
        retries = retries.filter { records[$0.key] != nil }
        unbegun = unbegun.filter { records[$0.key] != nil }
    }

    private func claim(_ feeds: [FeedRecord], _ worker: [UInt8], _ connection: LogConnection) throws {
        let now = Clock.monotonicMilliseconds
        for record in feeds where mine[record.id] == nil {
            // The heartbeat must be written before the remaining feeds are claimed, however long claiming takes.
            guard !core.stopsNow, Clock.monotonicMilliseconds - now < core.settings.heartbeatMilliseconds else {
                return
            }
            if record.isWorkerAlive, record.worker != worker { continue }
            if let retry = retries[record.id], retry.at > now { continue }
            guard let claimed = try connection.claimFeed(record.namespaceID, record.id, by: worker) else { continue }
            let handedTo = mayBeOut(claimed.handedTo, claimed.claim)
            unbegun[record.id] = (claimed.claim, handedTo)
            do {
                guard let start = try prepare(record, claimed.claim, claimed.progress, handedTo, connection)
                else { continue }
                begin(start, record)
                unbegun[record.id] = nil
            } catch {
                guard connection.isOpen else {
                    core.logger.warning(
                        "a feed was not started because the connection to the database was lost: the gateway claims the feed again",
                        [("namespace", record.namespace), ("feed", record.name), ("error", "\(error)")])
                    throw error
                }
                broken(record, claimed.claim, FeedFailureReason("\(error)"))
                try connection.reportFeeds([(claimed.claim, "broken", "\(error)", 0, 0)])
            }
        }
    }

    /// Returns the last entry of which a message may have been delivered. Each claim raises the value in the database, even if
    /// its feed is not started.
    private func mayBeOut(_ handedTo: Int64, _ claim: FeedClaim) -> Int64 {
        guard let former = unbegun[claim.feed], former.claim.worker == claim.worker,
            former.claim.generation + 1 == claim.generation
        else { return handedTo }
        return min(handedTo, former.handedTo)
    }

    /// The input that the dispatcher and the readers need to run a feed.
    private struct Start {
        let run: FeedRunStart
        let reading: FeedStart
    }

    /// Does everything that can fail before a feed starts, without side effects. Returns nil if the feed was
    /// removed after it was claimed.
    private func prepare(
        _ record: FeedRecord, _ claim: FeedClaim, _ stored: FeedProgressRecord, _ handedTo: Int64,
        _ connection: LogConnection
    ) throws -> Start? {
        guard let text = try connection.feedDefinition(record.namespaceID, record.id) else { return nil }
        let definition = try FeedDefinition.read(stored: text, name: record.name)
        let matcher = FeedMatcher(definition)
        guard var progress = FeedProgress(stored) else {
            throw LogStoreError.corrupt("the progress of feed \(record.name) can't be read")
        }
        progress = try checked(progress, record, connection)
        let failedMessages = try connection.failedMessages(record.namespaceID, record.id, states: ["failing"])
            .compactMap { FailedMessage($0.failedMessage) }
        let retried = try FeedRetryPage(
            record.namespaceID, record.id, after: nil, stopsKeys: definition.deadPolicy == .stop, connection)
        // The sink comes last, because nothing would stop it if a later step failed.
        let sink = try sinks.make(definition, in: record.namespace)
        let settings = machineSettings(definition, record.namespace, sink)
        let patience = sink?.timeoutMilliseconds ?? definition.ackDeadlineMilliseconds
        let failing = Dictionary(failedMessages.map { ($0.position, $0) }, uniquingKeysWith: { $1 })
        let name = FeedName(namespace: record.namespace, name: record.name)
        let window = FeedWindow(
            room: settings.windowMessages - retried.failedMessages.count, bytes: settings.windowBytes,
            account: .init(memory: core.memory, claim: claim, namespace: record.namespace))
        return Start(
            run: FeedRunStart(
                name: name, uid: record.uid, createdAt: record.createdAt, claim: claim, definition: definition,
                settings: settings, progress: progress,
                adoptedThrough: handedTo > progress.seq ? handedTo : 0,
                adoptedUntil: Clock.monotonicMilliseconds + patience, window: window, sink: sink,
                retried: retried),
            reading: FeedStart(
                feed: SharedReaderFeed(claim: claim, matcher: matcher, window: window, failedMessages: failing),
                name: name,
                progress: progress))
    }

    /// Starts to run a feed. Nothing here can fail, so the gateway keeps the feed from now on.
    private func begin(_ start: Start, _ record: FeedRecord) {
        mine[record.id] = Mine(
            claim: start.run.claim, revision: record.revision, stopsKeys: start.run.settings.stopsKeys)
        dispatcher.post(.begin(start.run))
        readers.add(start.reading)
    }

    private func machineSettings(
        _ definition: FeedDefinition, _ namespace: String, _ sink: (any Sink)?
    ) -> FeedMachine.Settings {
        var settings = FeedMachine.Settings()
        settings.namespace = namespace
        settings.ordersByKey = definition.order == .key
        settings.maxAttempts = definition.maxAttempts
        settings.firstBackoffMilliseconds = definition.firstBackoffMilliseconds
        settings.maxBackoffMilliseconds = definition.maxBackoffMilliseconds
        // A sink always reports an outcome, so its deadline is generous.
        settings.ackDeadlineMilliseconds =
            sink.map { 2 * $0.timeoutMilliseconds + 60_000 } ?? definition.ackDeadlineMilliseconds
        settings.stopsKeys = definition.deadPolicy == .stop
        settings.windowMessages = core.settings.windowMessages
        settings.windowBytes = core.settings.windowBytes
        return settings
    }

    /// Returns the progress from which a feed can resume. If the database has lost entries, that is at most the last remaining entry.
    private func checked(
        _ progress: FeedProgress, _ record: FeedRecord, _ connection: LogConnection
    ) throws -> FeedProgress {
        guard let history = try connection.history(record.namespaceID, at: progress.readTo.seq),
            history.relation(of: progress.readTo) == .rolledBack
        else { return progress }
        core.logger.error(
            "THE DATABASE HAS LOST ENTRIES that a feed has delivered: the feed continues with the remaining entries",
            [
                ("namespace", record.namespace), ("feed", record.name), ("read", "\(progress.readTo.seq)"),
                ("head", "\(history.head)"),
            ])
        return FeedProgress(seq: min(progress.seq, history.head))
    }

    /// Ends the runs of feeds that cannot continue. Each restarts after a pause.
    private func dropBroken(_ feeds: [FeedRecord], _ connection: LogConnection) throws {
        var reports: [(claim: FeedClaim, state: String, message: String?, pending: Int64, held: Int64)] = []
        for (claim, trouble) in troubles.take() {
            guard let record = feeds.first(where: { $0.id == claim.feed }), mine[claim.feed]?.claim == claim else {
                continue
            }
            broken(record, claim, trouble)
            reports.append((claim, "broken", trouble.reason, 0, 0))
        }
        // The report may fail, so it comes after all runs have ended: each trouble is taken only once.
        if !reports.isEmpty { try connection.reportFeeds(reports) }
    }

    /// Forgets feeds whose runs have ended because the database rejected their progress. After a restore of the database's older
    /// state, its rows may still name this gateway and the claim. The feeds are claimed again.
    private func dropLost() {
        for claim in troubles.takeLost() where mine[claim.feed]?.claim == claim { mine[claim.feed] = nil }
    }

    /// Notes that a feed could not start or continue. It is claimed again later.
    private func broken(_ record: FeedRecord, _ claim: FeedClaim, _ trouble: FeedFailureReason) {
        let now = Clock.monotonicMilliseconds
        let longest = core.settings.maxRetryMilliseconds
        // A feed that has run for long since its last trouble starts with the shortest pause.
        var backoff =
            retries[record.id].flatMap { now - $0.at < 2 * longest ? $0.backoff : nil }
            ?? Backoff(firstMilliseconds: core.settings.firstRetryMilliseconds, longestMilliseconds: longest)
        retries[record.id] = (now + backoff.nextMilliseconds(), backoff)
        mine[record.id] = nil
        dispatcher.post(.end(claim))
        core.logger.log(
            trouble.isFault ? .error : .warning, "feed is broken",
            [("namespace", record.namespace), ("feed", record.name), ("error", trouble.reason)])
    }

    private func reportRoutes(_ feeds: [FeedRecord]) {
        var routes: [FeedName: FeedRoute] = [:]
        for record in feeds {
            let name = FeedName(namespace: record.namespace, name: record.name)
            if mine[record.id] != nil {
                routes[name] = .here
            } else if record.isWorkerAlive, record.worker != core.lease.worker, let reach = record.reach,
                let peer = FeedPeer(reach)
            {
                routes[name] = .elsewhere(peer)
            } else {
                routes[name] = .unowned
            }
        }
        dispatcher.post(.routes(routes))
    }
}
