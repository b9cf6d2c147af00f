public import LogStore
import Runtime

/// Reports the state of this gateway's feeds to the database, and reads the figures that only the database knows for the board.
struct FeedReporter {
    private let administrator: FeedAdministrator
    private var reportedAt: Milliseconds?
    private var askedAt: Milliseconds?
    private static let reportMilliseconds: Milliseconds = 2_000
    private static let askMilliseconds: Milliseconds = 5_000
    /// Reading the figures takes long while another session holds a snapshot open. They are then read less often: the interval is
    /// at least this multiple of the time that the last read took.
    private static let restFactor: Milliseconds = 50
    /// The maximum number of feeds with figures.
    private static let mostFeeds = 1_000

    /// - Parameter administrator: Reads the figures, which may take long while another session holds a snapshot open.
    init(_ administrator: FeedAdministrator) { self.administrator = administrator }

    /// - Parameters:
    ///   - claims: The feeds that run on this gateway, by feed id.
    ///   - feeds: The feeds of this gateway, including broken ones.
    mutating func report(
        _ board: FeedStatuses, _ claims: [Int64: FeedClaim], _ feeds: [FeedRecord], _ connection: LogConnection
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
        // The read may take long. It uses the thread for trees, so that interactive requests do not wait for it.
        _ = administrator.add(.trees, of: FeedName(namespace: "", name: "")) { result in
            let begun = Clock.monotonicMilliseconds
            guard let statuses = try? result.get().statuses(of: shown) else { return .done }
            board.set(statuses, readIn: Clock.monotonicMilliseconds - begun)
            return .done
        }
    }
}

/// The state of the feeds that run on this gateway. Usable on any thread.
final class FeedStatuses: Sendable {
    private let reports = MutexBox<[FeedName: FeedReport]>([:])

    private let statuses = MutexBox<[(feed: FeedName, status: FeedStatusRecord)]>([])
    private let reading = MutexBox<Milliseconds>(0)

    func set(_ new: [FeedName: FeedReport]) { reports.withLock { $0 = new } }

    /// Sets the figures that the database has of this gateway's feeds.
    ///
    /// - Parameter milliseconds: How long reading them took.
    func set(_ new: [(feed: FeedName, status: FeedStatusRecord)], readIn milliseconds: Milliseconds = 0) {
        statuses.withLock { $0 = new }
        reading.withLock { $0 = milliseconds }
    }

    /// How long the last read of the figures took.
    var readingMilliseconds: Milliseconds { reading.withLock { $0 } }

    var figures: [FeedFigures] {
        let known = reports.withLock { $0 }
        return statuses.withLock { $0 }.map { FeedFigures(feed: $0.feed, status: $0.status, report: known[$0.feed]) }
    }

    var all: [FeedReport] {
        reports.withLock { Array($0.values) }.sorted { "\($0.feed)" < "\($1.feed)" }
    }
}

/// The state of one of this gateway's feeds, for metrics.
public struct FeedFigures: Sendable, Equatable {
    public let feed: FeedName
    /// The figures of the database, some seconds old.
    public let status: FeedStatusRecord
    /// The state on this gateway, or nil if the feed is broken.
    public let report: FeedReport?
}
