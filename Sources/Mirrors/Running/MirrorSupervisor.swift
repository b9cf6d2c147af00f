import LogStore
import Postgres
import Runtime

/// Follows announcements of commits and of changed mirrors, and sees that each group of mirrors has its runner.
final class MirrorSupervisor: AnnouncementListener {
    private let core: MirrorCore
    private var runners: [MirrorGroup: (runner: GroupRunner, thread: Thread)] = [:]

    init(_ core: MirrorCore) { self.core = core }

    /// Runs the mirrors until the service stops.
    func run(_ wake: WakeHandle) {
        let machine = ListeningMachine(
            pollMilliseconds: core.settings.pollMilliseconds,
            backoff: Backoff(
                firstMilliseconds: core.settings.firstRetryMilliseconds,
                longestMilliseconds: core.settings.maxRetryMilliseconds))
        var loop = AnnouncementLoop(machine, wake: wake)
        loop.run(self)
        for (runner, thread) in runners.values {
            runner.stop()
            thread.join()
        }
    }

    var stopsNow: Bool { core.stopsNow }

    func connect() throws -> LogConnection {
        let log = try core.source("mirrors")
        do {
            log.statementTimeoutMilliseconds = MirrorCore.lookMilliseconds
            try log.listen(to: [.commits, .mirrors])
            return log
        } catch {
            core.close(log)
            throw error
        }
    }

    func heard(_ announcement: Announcement) -> Bool {
        switch announcement {
        case .mirrors: return true
        case .commit(let namespace, let head): headSeen(namespace, head)
        case .message, .feeds, .placement: break
        }
        return false
    }

    func failed(_ error: any Error, askedAt: Int64) {
        guard !core.stopsNow else { return }
        let error = MirrorError(error)
        if error.isSilence { core.abandonSilent(since: askedAt) }
        core.logger.debug("mirrors have lost the database", [("error", "\(error)")])
    }

    func close(_ connection: LogConnection) { core.close(connection) }

    func pause(milliseconds: Milliseconds) { core.pause(milliseconds: milliseconds) }

    private func headSeen(_ namespace: Int64, _ head: Int64) {
        for (group, entry) in runners where group.namespaceID == namespace { entry.runner.headSeen(head) }
    }

    /// Reads which mirrors there are, and how far the logs of their namespaces reach.
    func look(_ connection: LogConnection, isNew: Bool) throws {
        let mirrors = try connection.catalogMirrors()
        let groups = Dictionary(grouping: mirrors) {
            MirrorGroup(namespaceID: $0.namespaceID, namespace: $0.namespace, target: $0.target)
        }
        for (group, mirrors) in groups {
            if let running = runners[group] {
                running.runner.mirrorsSeen(mirrors)
                continue
            }
            let runner = GroupRunner(core, group, mirrors)
            runners[group] = (runner, Thread(name: "mirror") { runner.run() })
        }
        for (group, running) in runners where groups[group] == nil {
            running.runner.stop()
            running.thread.join()
            core.board.set(group.description, nil)
            runners[group] = nil
        }
        let heads = try connection.heads(Array(Set(groups.keys.map(\.namespaceID))))
        for (namespace, head, _) in heads { headSeen(namespace, head) }
    }
}
