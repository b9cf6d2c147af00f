import LogStore
import Postgres
import Runtime

/// Announces this gateway's commits and follows announcements: one thread, and the program's only connection to this
/// database that listens. A lost announcement is harmless because the heads are also checked periodically.
/// The same check shows whether the database is available, and whether it still has the entries that this gateway has.
///
///     committers -- tellOfCommit --> CommitAnnouncer -- announce --> NOTIFY: the newest head of each namespace
///
///     NOTIFY -- listen --+-- commit ----> LiveNamespace.headAnnounced: a committer follows the log
///                        +-- message ---> PeerMailbox
///                        +-- placement -> a check, if this engine keeps the placements or the service accounts
///                        +-- any kind --> Announcements: mirrors, feeds and readers of the log
///
///     every `pollMilliseconds` -- look --> heads in the database compared with the snapshots in memory
///                                            head is ahead -----------> a committer follows the log
///                                            head is missing, older
///                                            or of another batch -----> suspect: a committer looks for another history
///
/// `AnnouncementLoop` calls `connect`, `look` and `listen` in this order, and repeats `look` and `listen` until the
/// connection is lost. LISTEN comes before the first check, so a commit between the two is seen by both.
/// The tail announces at most once per `announceMilliseconds`, and once more when the engine stops. Heads of a
/// namespace that are committed in between replace one another in `CommitAnnouncer`.
final class Tail: AnnouncementListener {
    private let core: EngineCore
    private let wake: WakeHandle
    /// The newer schema version for which the last warning was logged.
    private var newerSchema = 0
    /// Whether a warning that commits cannot be announced was already logged.
    private var isUnheard = false
    private static let lookWhenDownMilliseconds: Milliseconds = 500
    /// The monotonic time of this gateway's last announcement.
    private var announcedAt: Int64 = 0

    /// - Parameter wake: ends a wait for announcements early.
    init(_ core: EngineCore, wake: WakeHandle) {
        self.core = core
        self.wake = wake
    }

    /// Listens until the engine stops.
    func run() {
        let machine = ListeningMachine(
            pollMilliseconds: Milliseconds(core.settings.pollMilliseconds),
            backoff: Backoff(firstMilliseconds: 50, longestMilliseconds: 1_000))
        var loop = AnnouncementLoop(machine)
        core.news.wakes(wake)
        loop.run(self)
    }

    var stopsNow: Bool { core.stopsNow }

    func connect() throws -> LogConnection {
        // Each gateway always has exactly one such connection: `GatewayFacts` counts them.
        let program = core.settings.program
        let connection = try core.connect(program.isEmpty ? "tail" : "tail \(program)")
        do {
            connection.statementTimeoutMilliseconds = core.lookMilliseconds
            try checkSchema(connection)
            try connection.listen(to: Announcement.Kind.allCases)
            core.peers.use(try connection.peerSignature())
            core.announcements.notifyOfGap()
            return connection
        } catch {
            connection.close()
            throw error
        }
    }

    /// Checks the schema. A schema newer than this program was migrated while the gateway was running, because the
    /// gateway does not start on one. The gateway continues on new connections as on the older ones until an
    /// administrator replaces it.
    private func checkSchema(_ connection: LogConnection) throws {
        do {
            try connection.checkSchema()
        } catch LogStoreError.schemaTooNew(let found, let known) {
            guard found != newerSchema else { return }
            newerSchema = found
            core.logger.warning(
                "the database has been migrated by a newer version: update this gateway soon, because it will not start again",
                [("schema", "\(found)"), ("known", "\(known)")])
        }
    }

    /// Compares the heads. On a new connection, the database is not marked as available before that, because it may be
    /// another one than before.
    func look(_ connection: LogConnection, isNew: Bool) throws {
        // The check may wait long for its answers.
        if announcementDelay == 0 { try announce(connection) }
        try core.placement?.look(connection, isNew: isNew)
        try core.accounts?.look(connection, isNew: isNew)
        try core.look(connection, isNew: isNew)
    }

    func listen(_ connection: LogConnection, milliseconds: Milliseconds) throws -> Bool {
        let delay = announcementDelay
        if delay == 0 { try announce(connection) }
        // If another connection could not be opened, this one may soon show that the database is available
        // nevertheless.
        let isDown = !core.health.isUp
        let usual = isDown ? min(milliseconds, Self.lookWhenDownMilliseconds) : milliseconds
        let wait = delay > 0 ? min(usual, delay) : usual
        let heard = try connection.waitForAnnouncements(milliseconds: wait, wake: wake)
        var wantsLook = isDown && heard.isEmpty && wait == usual && !core.health.isUp
        for announcement in heard {
            switch announcement {
            case .commit(let id, let head):
                core.metrics.notifications.add()
                core.namespaces.announced(id, head: head)?.headAnnounced(head)
            case .message(let message): core.peers.received(message)
            case .placement: wantsLook = wantsLook || core.placement != nil || core.accounts != nil
            case .mirrors, .feeds: break
            }
            core.announcements.notify(announcement)
        }
        return wantsLook
    }

    /// The time that pending heads wait for further ones. A commit right after an announcement goes into the next
    /// announcement, as each costs about half as much as a small commit. The tail receives others' announcements
    /// meanwhile.
    private var announcementDelay: Milliseconds {
        guard !core.news.isEmpty else { return 0 }
        return max(0, announcedAt + core.settings.announceMilliseconds - Clock.monotonicMilliseconds)
    }

    /// Announces this gateway's commits. If the database is available but rejects the announcement, because another
    /// program's announcement is in the way or the queue is full, that is no outage: the tail tries again, and other
    /// gateways check the heads.
    private func announce(_ connection: LogConnection) throws {
        let news = core.news.take()
        guard !news.isEmpty else { return }
        do {
            try connection.announce(news)
            announcedAt = Clock.monotonicMilliseconds
            isUnheard = false
        } catch {
            core.news.putBack(news)
            guard connection.isOpen else { throw error }
            guard !isUnheard else { return }
            isUnheard = true
            core.logger.warning(
                "commits can't be announced: other gateways find them by polling the heads", [("error", "\(error)")])
        }
    }

    func failed(_ error: any Error, askedAt: Int64) {
        // Mirrors, feeds and readers of the log find out by themselves whether they have lost the database, too.
        core.announcements.notifyOfGap()
        let error = LogStoreError(error)
        if error.isSilence {
            core.databaseIsSilent(since: askedAt, error)
        } else {
            core.databaseFailed(error)
        }
    }

    func close(_ connection: LogConnection) {
        // When the engine stops, the last commits are announced here. Otherwise the next connection announces them, as
        // this one may not answer.
        if core.stopsNow, connection.isOpen { try? announce(connection) }
        connection.close()
    }

    func pause(milliseconds: Milliseconds) { core.pause(milliseconds: milliseconds) }
}
