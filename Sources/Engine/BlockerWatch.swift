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

/// Decides which of the database connections that committers wait for is to be stopped. Pure: its caller says what it saw, and when.
///
/// A connection is only ended when it waits for its own client and has done nothing at all for so long: its gateway is frozen,
/// cut off or gone, and PostgreSQL, which waits for the rest of a message, would keep its locks for ever.
struct BlockerHistory {
    typealias Patience = BlockerPatience

    enum Verdict: Equatable {
        /// A large write that holds rows of others is to begin anew.
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

    /// What is to be done about those that are waited for now. Forgets all others.
    ///
    /// - Parameter now: monotonic milliseconds. After a gap between two looks (this gateway was frozen itself) the time
    ///   counts from the later one.
    mutating func judge(_ blockers: [Blocker], now: Milliseconds, sinceLastLook: Milliseconds) -> [Verdict] {
        var verdicts: [Verdict] = []
        var next: [Int32: Seen] = [:]
        for blocker in blockers {
            var one =
                seen[blocker.pid].flatMap { $0.blocker == blocker ? $0 : nil } ?? Seen(blocker: blocker, since: now)
            if sinceLastLook > 2_000 { one.since = now }
            if blocker.application == BackendName.largeWrite, !blocker.waitsForLock {
                // Small writes don't wait for a large one that holds rows of theirs; it begins anew.
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
