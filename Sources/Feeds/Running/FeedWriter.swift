import LogStore
import Runtime
import Synchronization

/// The thread that writes down how far feeds have come: all that has happened meanwhile, in one transaction.
final class FeedWriter: Sendable {
    private struct State: Sendable {
        var commits: [(FeedClaim, FeedCommit)] = []
        var isBusy = false
        /// Feeds whose letters have been changed by somebody else.
        var loads: [FeedRetryRequest] = []
        var stops = false
    }

    private let core: FeedCore
    private let lost: @Sendable (Set<FeedClaim>) -> Void
    private let state = Condition(State())

    /// - Parameter lost: is told of claims under which the database takes nothing any more.
    init(_ core: FeedCore, lost: @escaping @Sendable (Set<FeedClaim>) -> Void) {
        self.core = core
        self.lost = lost
    }

    /// Whether something is being written: what comes meanwhile is written together, behind it.
    var isBusy: Bool { state.withLock { $0.isBusy } }

    func write(_ commits: [(FeedClaim, FeedCommit)]) {
        state.signal { state in
            state.commits = commits
            state.isBusy = true
        }
    }

    /// Has letters of a feed read that are to be delivered once more, behind what is being written, and the dispatcher told of them.
    func load(_ request: FeedRetryRequest) { state.signal { $0.loads.append(request) } }

    func stop() { state.broadcast { $0.stops = true } }

    /// Runs until `stop`.
    func run(_ dispatcher: FeedDispatcher) {
        var connection: LogConnection?
        var backoff = Backoff(firstMilliseconds: 50, longestMilliseconds: 1_000)
        while let job = next() {
            var isAgain = false
            while true {
                do {
                    let open = try connection ?? core.connect("feed writer")
                    connection = open
                    // What the attempt before has written is found, and told: then the standbys must have it, too.
                    if isAgain { try open.waitForStandbys() }
                    try job.run(open, dispatcher, lost) { state.withLock { $0.isBusy = false } }
                    backoff.reset()
                    break
                } catch {
                    if let lost = connection { lost.close() }
                    connection = nil
                    isAgain = true
                    // Done once more, it says the same.
                    guard !core.stopsNow else { return }
                    core.logger.warning("feeds can't write down their progress", [("error", "\(error)")])
                    core.pause(milliseconds: backoff.nextMilliseconds())
                }
            }
        }
        if let connection { connection.close() }
    }

    private enum Job {
        case write([(FeedClaim, FeedCommit)])
        case load(FeedRetryRequest)

        func run(
            _ connection: LogConnection, _ dispatcher: FeedDispatcher, _ lose: (Set<FeedClaim>) -> Void,
            written: () -> Void
        ) throws {
            switch self {
            case .write(let commits):
                let lost = try connection.moveFeeds(commits.map(FeedWriter.move))
                written()
                dispatcher.post(.committed(commits, lost: lost))
                lose(lost)
            case .load(let request):
                let claim = request.claim
                let page = try FeedRetryPage(
                    claim.namespace, claim.feed, after: request.after, stopsKeys: request.stopsKeys, connection)
                dispatcher.post(.letters(claim, page))
            }
        }
    }

    private func next() -> Job? {
        let job = state.wait { state -> Job?? in
            if !state.commits.isEmpty {
                defer { state.commits = [] }
                return .write(state.commits)
            }
            if !state.loads.isEmpty { return .load(state.loads.removeFirst()) }
            return state.stops ? .some(nil) : nil
        }
        return job ?? nil
    }

    /// Writes by a connection of its own; whether it succeeds or not, that was the last.
    func writeLast(_ commits: [(FeedClaim, FeedCommit)]) {
        guard !commits.isEmpty else { return }
        do {
            let connection = try core.connect("feed writer")
            defer { connection.close() }
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
            claim: commit.claim, number: commit.commit.number, follows: commit.commit.follows,
            progress: FeedProgressRecord(commit.commit.progress), delivered: counters.delivered,
            acknowledged: counters.acknowledged, redelivered: counters.redelivered, letters: letters, removed: removed)
    }
}
