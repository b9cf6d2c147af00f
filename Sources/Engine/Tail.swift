import LogStore
import Postgres
import Runtime

/// Follows the announcements of commits: one thread, one connection that listens. A lost announcement does no harm, as
/// the heads are looked at every so often, too; the same look tells whether the database is there.
final class Tail {
    private let core: EngineCore
    private let wake: WakeHandle

    init(_ core: EngineCore, _ wake: WakeHandle) {
        self.core = core
        self.wake = wake
    }

    func run() {
        var pause: Int64 = 50
        while !core.stopsNow {
            do throws(LogStoreError) {
                let session = try core.connect("tail")
                defer { session.close() }
                // First listen, then look: what is committed in between is seen by both.
                try session.checkSchema()
                try session.listen()
                core.databaseAnswered()
                pause = 50
                try follow(session)
            } catch {
                core.databaseFailed(error)
                core.pause(milliseconds: pause)
                pause = min(pause * 2, 1_000)
            }
        }
    }

    private func follow(_ session: LogSession) throws(LogStoreError) {
        var nextLook: Int64 = 0
        while !core.stopsNow {
            let now = Clock.monotonicMilliseconds
            if now >= nextLook {
                for (id, head) in try session.heads(core.namespaces.all.map(\.id)) {
                    core.namespaces.live(id: id)?.headSeen(head)
                }
                // Whoever failed to connect meanwhile is contradicted.
                core.databaseAnswered()
                nextLook = now + Int64(core.settings.pollMilliseconds)
            }
            let wait = max(1, Int(nextLook - now))
            for announcement in try session.waitForAnnouncements(milliseconds: wait, wake: wake) {
                switch announcement {
                case .commit(let id, let head):
                    core.metrics.notifications.add()
                    core.namespaces.live(id: id)?.headSeen(head)
                case .message(let message): core.mailbox.received(message)
                }
            }
        }
    }
}
