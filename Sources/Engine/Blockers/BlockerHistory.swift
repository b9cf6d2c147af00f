import LogStore
import Runtime

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
