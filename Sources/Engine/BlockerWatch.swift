import LogStore
import Runtime

/// Keeps committers from waiting forever: if a committer has waited for the database for a while, this thread finds the
/// connections that block it, and stops those that will not continue by themselves. One thread and one connection,
/// which is opened when it is first needed.
final class BlockerWatch: Sendable {
    private let core: EngineCore

    init(_ core: EngineCore) { self.core = core }

    private static let lookEvery: Milliseconds = 250
    /// Committers that have waited for less than this get no help.
    private static let tooLong: Milliseconds = 300

    func run() {
        var connection: LogConnection?
        var history = BlockerHistory(core.settings.blockerPatience)
        var lastLook: Milliseconds = 0
        while core.blockers.pause(milliseconds: Self.lookEvery) {
            let now = Clock.monotonicMilliseconds
            let waiting = core.blockers.pids(longerThan: Self.tooLong)
            // While the database is away, committers do not wait for locks in it.
            guard !waiting.isEmpty, core.health.isUp else { continue }
            do throws(LogStoreError) {
                if connection?.isOpen != true { connection = try core.connect("watch") }
                guard let connection else { continue }
                let blockers = try connection.blockers(of: waiting)
                for verdict in history.judge(blockers, now: now, sinceLastLook: now - lastLook) {
                    try execute(verdict, connection)
                }
                lastLook = now
            } catch {
                if error.isConnectionLost { connection = nil }
            }
        }
        connection?.close()
    }

    private func execute(_ verdict: BlockerHistory.Verdict, _ connection: LogConnection) throws(LogStoreError) {
        switch verdict {
        case .makeWay(let blocker):
            // A large write that has written its rows waits for its turn after the writers that it blocks. It has no
            // running statement to cancel, so its session is ended.
            try connection.stop(blocker, endingSession: blocker.waitsForClient)
        case .end(let blocker):
            core.metrics.endedBlockers.add()
            core.logger.warning(
                "a connection that blocked a namespace's writers and waited for its client was ended",
                [("pid", "\(blocker.pid)"), ("application", blocker.application), ("client", blocker.client)])
            try connection.stop(blocker, endingSession: true)
        }
    }
}

/// Decides which of the connections that block committers is stopped. Pure: the caller passes its observations and the
/// time.
///
/// A connection is ended only if it has been waiting for its own client and has done nothing for the whole time. Its
/// gateway is frozen, unreachable or dead, and PostgreSQL, which waits for the rest of a message, would keep its locks
/// forever.
struct BlockerHistory {
    typealias Patience = BlockerPatience

    enum Verdict: Equatable {
        /// A large write that holds rows of others has to start again.
        case makeWay(Blocker)
        case end(Blocker)
    }

    private struct Seen {
        var blocker: Blocker
        var since: Milliseconds
    }

    private let patience: Patience
    private var seen: [Int32: Seen] = [:]

    init(_ patience: Patience) { self.patience = patience }

    /// Returns the verdicts on the current blockers, and forgets all others.
    ///
    /// - Parameter now: monotonic milliseconds. After a gap between two checks (this gateway itself was frozen), the
    ///   time counts from the later check.
    mutating func judge(_ blockers: [Blocker], now: Milliseconds, sinceLastLook: Milliseconds) -> [Verdict] {
        var verdicts: [Verdict] = []
        var next: [Int32: Seen] = [:]
        for blocker in blockers {
            var one =
                seen[blocker.pid].flatMap { $0.blocker == blocker ? $0 : nil } ?? Seen(blocker: blocker, since: now)
            if sinceLastLook > 2_000 { one.since = now }
            if blocker.application == BackendName.largeWrite, !blocker.waitsForLock {
                // Small writes do not wait for a large write that holds rows of theirs; the large write starts again.
                verdicts.append(.makeWay(blocker))
            } else if blocker.waitsForClient, let most = limit(blocker), now - one.since >= most {
                verdicts.append(.end(blocker))
            }
            next[blocker.pid] = one
        }
        seen = next
        return verdicts
    }

    private func limit(_ blocker: Blocker) -> Milliseconds? {
        guard blocker.application.hasPrefix("pathmirror") else { return nil }
        let isGateway = [BackendName.committer, BackendName.largeWrite].contains { blocker.application.hasPrefix($0) }
        return isGateway ? patience.gatewayMilliseconds : patience.otherMilliseconds
    }
}
