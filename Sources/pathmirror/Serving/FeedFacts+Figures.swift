import Feeds
import Gateway
import LogStore
import Runtime

extension FeedFacts {
    /// The figures of a feed in the units of the metrics.
    init(_ figures: FeedFigures) {
        let status = figures.status
        let report = figures.report
        self.init(
            namespace: figures.feed.namespace, name: figures.feed.name, isUp: report != nil,
            lagMilliseconds: Milliseconds(status.lagSeconds * 1_000), heldMessages: report.map { Int64($0.held) } ?? 0,
            acknowledged: status.acknowledged, redelivered: status.redelivered, deadLetters: status.deadLetters,
            holdsBackMilliseconds: Milliseconds(status.holdsBackSeconds * 1_000))
    }
}
