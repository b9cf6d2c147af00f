import LogStore
import Runtime
import Synchronization

/// The thread that records the progress of feeds. Each transaction records all progress that has accumulated.
final class FeedWriter: Sendable {
    private struct State: Sendable {
        var commits: [(FeedClaim, FeedCommit)] = []
        var isBusy = false
        /// The feeds whose retries are to be read.
        var loads: [FeedRetryRequest] = []
        var stops = false
    }

    private let core: FeedCore
    private let lost: @Sendable (Set<FeedClaim>) -> Void
    private let state = Condition(State())

    /// - Parameter lost: Receives the claims under which the database no longer accepts progress.
    init(_ core: FeedCore, lost: @escaping @Sendable (Set<FeedClaim>) -> Void) {
        self.core = core
        self.lost = lost
    }

    /// Whether a write is in progress. Progress made in the meantime is written together afterwards.
    var isBusy: Bool { state.withLock { $0.isBusy } }

    func write(_ commits: [(FeedClaim, FeedCommit)]) {
        state.signal { state in
            state.commits = commits
            state.isBusy = true
        }
    }

    /// Reads a page of a feed's retries after the write in progress, and posts it to the dispatcher.
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
                    // The previous attempt may have been committed, and its result is then reported as success. The
                    // standbys must have it first.
                    if isAgain { try open.waitForStandbys() }
                    try job.run(open, dispatcher, lost) { state.withLock { $0.isBusy = false } }
                    backoff.reset()
                    break
                } catch {
                    if let lost = connection { lost.close() }
                    connection = nil
                    isAgain = true
                    // Repeating the job is safe: it writes the same state.
                    guard !core.stopsNow else { return }
                    core.logger.warning("the progress of feeds can't be stored", [("error", "\(error)")])
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
                dispatcher.post(.failedMessages(claim, page))
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

    /// Records the last progress on a separate connection. A failure is only logged.
    func writeLast(_ commits: [(FeedClaim, FeedCommit)]) {
        guard !commits.isEmpty else { return }
        do {
            let connection = try core.connect("feed writer")
            defer { connection.close() }
            connection.statementTimeoutMilliseconds = 2_000
            _ = try connection.moveFeeds(commits.map(Self.move))
        } catch {
            core.logger.warning("the last progress of feeds was not stored", [("error", "\(error)")])
        }
    }

    private static func move(_ commit: (claim: FeedClaim, commit: FeedCommit)) -> FeedMove {
        var failedMessages: [FailedMessageRecord] = []
        var removed: [FeedPosition] = []
        for (position, change) in commit.commit.failedMessages {
            switch change {
            case .put(let failedMessage):
                failedMessages.append(FailedMessageRecord(failedMessage, namespace: commit.commit.namespace))
            case .remove: removed.append(position)
            }
        }
        let counters = commit.commit.counters
        return FeedMove(
            claim: commit.claim, number: commit.commit.number, follows: commit.commit.follows,
            progress: FeedProgressRecord(commit.commit.progress), delivered: counters.delivered,
            acknowledged: counters.acknowledged, redelivered: counters.redelivered, failedMessages: failedMessages,
            removed: removed)
    }
}
