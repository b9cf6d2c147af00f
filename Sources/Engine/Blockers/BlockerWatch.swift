import LogStore
import Runtime

/// Keeps committers from waiting for ever: where one has been in the database for a while, this looks whom it waits for, and
/// stops those that will not go on by themselves. One thread, one connection, which it opens when it is needed first.
final class BlockerWatch: Sendable {
    private let core: EngineCore

    init(_ core: EngineCore) { self.core = core }

    private static let lookEvery: Milliseconds = 250
    /// Nobody who has been waiting for less is helped.
    private static let tooLong: Milliseconds = 300

    func run() {
        var connection: LogConnection?
        var history = BlockerHistory(core.settings.blockerPatience)
        var lastLook: Milliseconds = 0
        while core.blockers.pause(milliseconds: Self.lookEvery) {
            let now = Clock.monotonicMilliseconds
            let waiting = core.blockers.pids(longerThan: Self.tooLong)
            // While the database is away nobody waits for anybody in it.
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
            // Where it has written its rows and waits for the head's lock, behind those whom it holds up, there is nothing to cancel.
            try connection.stop(blocker, endingSession: blocker.waitsForClient)
        case .end(let blocker):
            core.metrics.endedBlockers.add()
            core.logger.warning(
                "a connection held a namespace's writers up and heard nothing of its client; it was ended",
                [("pid", "\(blocker.pid)"), ("application", blocker.application), ("client", blocker.client)])
            try connection.stop(blocker, endingSession: true)
        }
    }
}
