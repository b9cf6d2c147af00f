import LogStore
import Runtime
import Synchronization

/// The thread that writes down how far feeds have come: all that has happened meanwhile, in one transaction.
final class FeedWriter: Sendable {
    private struct State: Sendable {
        var commits: [(FeedClaim, FeedCommit)] = []
        var isBusy = false
        var stops = false
    }

    private let core: FeedCore
    private let state = Condition(State())

    init(_ core: FeedCore) { self.core = core }

    /// Whether something is being written: what comes meanwhile is written together, behind it.
    var isBusy: Bool { state.withLock { $0.isBusy } }

    func write(_ commits: [(FeedClaim, FeedCommit)]) {
        state.signal { state in
            state.commits = commits
            state.isBusy = true
        }
    }

    func stop() { state.broadcast { $0.stops = true } }

    /// Runs until `stop`.
    func run(_ dispatcher: FeedDispatcher) {
        var connection: LogConnection?
        var backoff = Backoff(firstMilliseconds: 50, longestMilliseconds: 1_000)
        while let commits = next() {
            while true {
                do {
                    let open = try connection ?? core.connect("feed writer")
                    connection = open
                    let lost = try open.moveFeeds(commits.map(Self.move))
                    backoff.reset()
                    state.withLock { $0.isBusy = false }
                    dispatcher.post(.committed(commits, lost: lost))
                    break
                } catch {
                    if let lost = connection { core.close(lost) }
                    connection = nil
                    // Written once more, it says the same.
                    guard !core.stopsNow else { return }
                    core.logger.warning("feeds can't write down their progress", [("error", "\(error)")])
                    core.pause(milliseconds: backoff.nextMilliseconds())
                }
            }
        }
        if let connection { core.close(connection) }
    }

    private func next() -> [(FeedClaim, FeedCommit)]? {
        enum Job {
            case write([(FeedClaim, FeedCommit)])
            case stop
        }
        let job = state.wait { state -> Job? in
            if !state.commits.isEmpty {
                defer { state.commits = [] }
                return .write(state.commits)
            }
            return state.stops ? .stop : nil
        }
        guard case .write(let commits) = job else { return nil }
        return commits
    }

    /// Writes by a connection of its own; whether it succeeds or not, that was the last.
    func writeLast(_ commits: [(FeedClaim, FeedCommit)]) {
        guard !commits.isEmpty else { return }
        do {
            let connection = try core.connect("feed writer")
            defer { core.close(connection) }
            connection.statementTimeoutMilliseconds = 2_000
            _ = try connection.moveFeeds(commits.map(Self.move))
        } catch {
            core.logger.warning("the last progress of feeds was not written down", [("error", "\(error)")])
        }
    }

    private static func move(_ commit: (claim: FeedClaim, commit: FeedCommit)) -> FeedMove {
        var letters: [FeedLetterRecord] = []
        var removed: [(seq: Int64, index: Int64, isSnapshot: Bool)] = []
        for (position, change) in commit.commit.letters {
            switch change {
            case .put(let letter): letters.append(FeedLetterRecord(letter, namespace: commit.commit.namespace))
            case .remove: removed.append((position.seq, position.index, position.isSnapshot))
            }
        }
        let counters = commit.commit.counters
        return FeedMove(
            claim: commit.claim, progress: FeedProgressRecord(commit.commit.progress), delivered: counters.delivered,
            acknowledged: counters.acknowledged, redelivered: counters.redelivered, letters: letters, removed: removed)
    }
}
