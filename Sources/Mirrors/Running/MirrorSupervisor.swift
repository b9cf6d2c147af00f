import LogStore
import Postgres
import Runtime

/// Follows announcements of commits and of changed mirrors, and ensures that each group of mirrors has a runner.
final class MirrorSupervisor: AnnouncementListener {
    private let core: MirrorCore
    private let announcements: AnnouncementSubscription
    private var runners: [MirrorGroup: (runner: GroupRunner, thread: Thread)] = [:]

    init(_ core: MirrorCore, _ announcements: AnnouncementSubscription) {
        self.core = core
        self.announcements = announcements
    }

    /// Runs the mirrors until the service stops.
    func run() {
        let machine = ListeningMachine(
            pollMilliseconds: core.settings.pollMilliseconds,
            backoff: Backoff(
                firstMilliseconds: core.settings.firstRetryMilliseconds,
                longestMilliseconds: core.settings.maxRetryMilliseconds))
        var loop = AnnouncementLoop(machine)
        loop.run(self)
        for (runner, thread) in runners.values {
            runner.stop()
            thread.join()
        }
    }

    var stopsNow: Bool { core.stopsNow }

    func connect() throws -> LogConnection {
        let log = try core.source("mirrors")
        log.statementTimeoutMilliseconds = MirrorCore.lookMilliseconds
        return log
    }

    func listen(_ connection: LogConnection, milliseconds: Milliseconds) -> Bool {
        let heard = announcements.wait(milliseconds: milliseconds)
        for (namespace, head) in heard.heads {
            for (group, entry) in runners where group.namespaceID == namespace { entry.runner.headAnnounced(head) }
        }
        return heard.wantsLook
    }

    func failed(_ error: any Error, askedAt: Int64) {
        guard !core.stopsNow else { return }
        let error = MirrorError(error)
        if error.isSilence { core.abandonSilent(since: askedAt) }
        core.logger.log(
            error.endsConnection ? .debug : .error, "mirrors can't be read", [("error", "\(error)")])
    }

    func close(_ connection: LogConnection) { core.close(connection) }

    func pause(milliseconds: Milliseconds) { core.pause(milliseconds: milliseconds) }

    private func headSeen(_ namespace: Int64, _ head: Int64) {
        for (group, entry) in runners where group.namespaceID == namespace { entry.runner.headSeen(head) }
    }

    /// Reads the mirrors and the heads of their namespaces, and starts and stops runners.
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
        let namespaces = Set(groups.keys.map(\.namespaceID))
        announcements.follow(namespaces)
        let heads = try connection.heads(Array(namespaces))
        for (namespace, head, _) in heads { headSeen(namespace, head.seq) }
    }
}
