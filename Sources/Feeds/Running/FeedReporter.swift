public import LogStore
import Runtime

/// Tells the database how the feeds of this gateway fare, and has the board told what only the database knows of them.
struct FeedReporter {
    private let administrator: FeedAdministrator
    private var reportedAt: Milliseconds?
    private var askedAt: Milliseconds?
    private static let reportMilliseconds: Milliseconds = 2_000
    private static let askMilliseconds: Milliseconds = 5_000
    /// Where the figures take long, as somebody's snapshot is held open, they are asked for less often: this many times as long passes
    /// between two times.
    private static let restFactor: Milliseconds = 50
    /// Feeds of which figures are shown.
    private static let mostFeeds = 1_000

    /// - Parameter administrator: reads figures, which may take long where somebody's snapshot is held open.
    init(_ administrator: FeedAdministrator) { self.administrator = administrator }

    /// - Parameters:
    ///   - claims: what is worked here, by the feeds' ids.
    ///   - feeds: those that are this gateway's, also where they are broken.
    mutating func report(
        _ board: FeedBoard, _ claims: [Int64: FeedClaim], _ feeds: [FeedRecord], _ connection: LogConnection
    ) throws {
        let now = Clock.monotonicMilliseconds
        if reportedAt.map({ now - $0 >= Self.reportMilliseconds }) ?? true {
            reportedAt = now
            let rows = board.all.compactMap {
                report -> (claim: FeedClaim, state: String, message: String?, pending: Int64, held: Int64)? in
                guard let id = report.feedID, let claim = claims[id] else { return nil }
                return (claim, report.state, report.message, Int64(report.pending), Int64(report.held))
            }
            if !rows.isEmpty { try connection.reportFeeds(rows) }
        }
        let pause = max(Self.askMilliseconds, Self.restFactor * board.readingMilliseconds)
        guard askedAt.map({ now - $0 >= pause }) ?? true else { return }
        askedAt = now
        let shown = Array(feeds.prefix(Self.mostFeeds))
        guard !shown.isEmpty else { return board.set([]) }
        // It may take long: requests that are looked at by someone do not wait for it.
        _ = administrator.add(.trees, of: FeedName(namespace: "", name: "")) { result in
            let begun = Clock.monotonicMilliseconds
            guard let statuses = try? result.get().statuses(of: shown) else { return .done }
            board.set(statuses, readIn: Clock.monotonicMilliseconds - begun)
            return .done
        }
    }
}

/// How the feeds fare that this gateway works; any thread may look.
final class FeedBoard: Sendable {
    private let reports = MutexBox<[FeedName: FeedReport]>([:])

    private let statuses = MutexBox<[(feed: FeedName, status: FeedStatusRecord)]>([])
    private let reading = MutexBox<Milliseconds>(0)

    func set(_ new: [FeedName: FeedReport]) { reports.withLock { $0 = new } }

    /// What the database knows of this gateway's feeds.
    ///
    /// - Parameter milliseconds: how long it took to read.
    func set(_ new: [(feed: FeedName, status: FeedStatusRecord)], readIn milliseconds: Milliseconds = 0) {
        statuses.withLock { $0 = new }
        reading.withLock { $0 = milliseconds }
    }

    /// How long it took to read that last.
    var readingMilliseconds: Milliseconds { reading.withLock { $0 } }

    var figures: [FeedFigures] {
        let known = reports.withLock { $0 }
        return statuses.withLock { $0 }.map { FeedFigures(feed: $0.feed, status: $0.status, report: known[$0.feed]) }
    }

    var all: [FeedReport] {
        reports.withLock { Array($0.values) }.sorted { "\($0.feed)" < "\($1.feed)" }
    }
}

/// How a feed of this gateway fares, as metrics tell it.
public struct FeedFigures: Sendable, Equatable {
    public let feed: FeedName
    /// What the database knew some seconds ago.
    public let status: FeedStatusRecord
    /// What is known here; nil where the feed is broken.
    public let report: FeedReport?
}
