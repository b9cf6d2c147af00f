public import Runtime

/// How feeds are worked; every field has its default.
public struct FeedSettings: Sendable {
    /// How often the worker gives a sign of life, looks at the others, and looks for feeds that nobody works.
    public var beatMilliseconds: Milliseconds = 1_000
    /// How long a worker's signs of life must have stood still until others take its feeds over.
    public var expiryMilliseconds: Milliseconds = 5_000
    /// The first and the longest pause before something broken is tried again.
    public var firstRetryMilliseconds: Milliseconds = 200
    public var maxRetryMilliseconds: Milliseconds = 30_000
    /// Threads that read the log for feeds, each with a connection.
    public var readers = 2
    /// Entries read at once.
    public var pageEntries = 1_000
    /// After so many entries the tree is kept as a snapshot, so that a feed can be taken over without the whole log: or after as many as
    /// the tree has rows, where those are more.
    public var entriesBetweenTrees: Int64 = 200_000
    /// How long after its last step a lane keeps its trees although memory is short and its feeds have no room.
    public var idleLaneMilliseconds: Milliseconds = 5_000
    /// A lane whose tree was made again keeps it for at least so many times as long as that took, so that feeds whose messages are taken
    /// slowly spend a small part of the time on trees.
    public var keepingFactor: Milliseconds = 16
    /// How long one step makes trees again before the namespace's other lanes have their turn.
    public var wakingMilliseconds: Milliseconds = 200
    /// Messages of a feed that are out or wait, at most, and about how many bytes they may cost in memory.
    public var windowMessages = 10_000
    public var windowBytes = 64 << 20
    /// About how many bytes the messages of all feeds of a gateway may cost together.
    public var allWindowsBytes: Int { max(512 << 20, 4 * windowBytes) }
    /// Whether a feed for a namespace that is not there makes it. Not in a database where only those are that were placed there.
    public var createsNamespaces = true
    /// The most messages that one pull is given.
    public var maxPull = 1_000
    /// How long a request waits until a gateway works the feed.
    public var ownerWaitMilliseconds: Milliseconds = 5_000
    /// Requests that wait for messages, of all feeds together. Namespaces share them, then the feeds of each namespace: a feed alone has a quarter.
    public var maxWaitingPulls = 20_000
    /// Where other gateways reach this one, such as `http://10.0.0.5:9000`; empty: where this one's connection to the database comes
    /// from, at the port that it listens on.
    public var address = ""

    public init() {}

    /// For so long after it asked for its last sign of life a worker may hand out messages: less than others wait.
    var freshMilliseconds: Milliseconds { expiryMilliseconds * 3 / 5 }
}
