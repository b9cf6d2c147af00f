import LogStore
import Postgres
import Runtime

/// Follows the announcements of commits: one thread, one connection that listens. A lost announcement does no harm, as
/// the heads are looked at every so often, too; the same look tells whether the database is there, and whether it still
/// has what this gateway has.
final class Tail {
    private let core: EngineCore
    private let wake: WakeHandle
    /// When the question was asked that waits for an answer.
    private var askedAt: Int64 = 0

    init(_ core: EngineCore, _ wake: WakeHandle) {
        self.core = core
        self.wake = wake
    }

    func run() {
        var pause: Int64 = 50
        while !core.stopsNow {
            do throws(LogStoreError) {
                askedAt = Clock.monotonicMilliseconds
                let connection = try core.connect("tail")
                defer { connection.close() }
                connection.postgres.statementTimeoutMilliseconds = core.lookMilliseconds
                // First listen, then look: what is committed in between is seen by both.
                try connection.checkSchema()
                try connection.listen()
                // Before anybody is told that the database is there: it may be another one than before.
                try look(connection, isNew: true)
                pause = 50
                try follow(connection)
            } catch {
                failed(error)
                core.pause(milliseconds: pause)
                pause = min(pause * 2, 1_000)
            }
        }
    }

    private func failed(_ error: LogStoreError) {
        if error.isSilence {
            core.databaseIsSilent(since: askedAt, error)
        } else {
            core.databaseFailed(error)
        }
    }

    private func follow(_ connection: LogConnection) throws(LogStoreError) {
        var nextLook = Clock.monotonicMilliseconds + Int64(core.settings.pollMilliseconds)
        while !core.stopsNow {
            let now = Clock.monotonicMilliseconds
            if now >= nextLook {
                try look(connection, isNew: false)
                nextLook = now + Int64(core.settings.pollMilliseconds)
            }
            let wait = max(1, Int(nextLook - now))
            for announcement in try connection.waitForAnnouncements(milliseconds: wait, wake: wake) {
                switch announcement {
                case .commit(let id, let head):
                    core.metrics.notifications.add()
                    core.namespaces.live(id: id)?.headSeen(head)
                case .message(let message): core.peers.received(message)
                }
            }
        }
    }

    private func look(_ connection: LogConnection, isNew: Bool) throws(LogStoreError) {
        askedAt = Clock.monotonicMilliseconds
        try core.look(connection, isNew: isNew)
    }
}
