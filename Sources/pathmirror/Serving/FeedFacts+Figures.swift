import Feeds
import Gateway
import LogStore
import Runtime

extension FeedFacts {
    /// - Parameter now: in milliseconds since 1970.
    init(_ figures: FeedFigures, now: Milliseconds) {
        let status = figures.status
        let report = figures.report
        self.init(
            namespace: figures.feed.namespace, name: figures.feed.name, isUp: report != nil,
            lagEntries: status.lagEntries, lagMilliseconds: Milliseconds(status.lagSeconds * 1_000),
            pendingMessages: report.map { Int64($0.pending) } ?? 0, heldMessages: report.map { Int64($0.held) } ?? 0,
            delivered: status.delivered, acknowledged: status.acknowledged, redelivered: status.redelivered,
            deadLetters: status.deadLetters,
            oldestMilliseconds: report?.oldestAt.map { max(0, now - $0) } ?? 0,
            holdsBackMilliseconds: Milliseconds(status.holdsBackSeconds * 1_000))
    }
}
