import LogStore
import Runtime
import Tree

/// Feeds of one namespace that have come to the same entry, and the tree there. A value without I/O.
///
/// All feeds of a lane share the lane's tree. `pass` moves the lane past one entry: it goes through the records that differ
/// between the trees before and after the entry, and finds the messages of each feed:
///
///     root (tree at entry 42) ── entry 43 ──► after (tree at entry 43)
///           └─ changed records of a feed's pattern ─► matcher ─► messages in the feed's LaneFinding
///
/// A feed does not delay the other feeds of its lane. It leaves the lane, and joins a lane at the same entry later:
///
///     lane ─┬─ pass: the entry has 1,000 changed records or more for the feed ─► lane of that feed, with both trees (`wide`)
///      ▲    └─ splitFull: the feed has no room for messages ──────────────────► lane of the feeds without room
///      │                                                                         │ memory is short       ▲ room again
///      │                                                                         └─► RestingLane, without trees
///      └── join: two lanes have come to the same entry
///
/// A wide lane looks at its records in steps (`goOn`), as far as the feed's window has room. A feed that begins with a snapshot
/// begins in such a lane. The window counts a message from the moment when the lane finds it.
struct FeedLane {
    /// An entry, or a snapshot, with more records than are taken at once.
    private struct Wide {
        let facts: EntryFacts
        let cursor: LogCursor
        let before: Node
        let after: Node
        var records: RecordEnumerator
        var index: Int64
        let isSnapshot: Bool
    }

    private(set) var feeds: [LaneFeed]
    /// The tree as of `cursor`.
    private(set) var root: Node
    private(set) var cursor: LogCursor
    private var wide: Wide?
    /// Records that are looked at, and messages that are found, before others get their turn.
    private static let mostAtOnce = 1_000

    init(_ feeds: [LaneFeed], root: Node, at cursor: LogCursor) {
        self.feeds = feeds
        self.root = root
        self.cursor = cursor
    }

    /// A lane that begins with the records of a tree.
    ///
    /// - Parameter index: the number of the first record that is wanted.
    init(_ feed: LaneFeed, snapshot root: Node, at cursor: LogCursor, from index: Int64, time: Int64) {
        self.init([feed], root: root, at: cursor)
        var records = RecordEnumerator(feed.matcher.definition.pattern, before: .null, after: root, places: nil)
        for _ in 0..<index { _ = records.nextChange() }
        wide = Wide(
            facts: EntryFacts(operation: "snapshot", committedAt: time), cursor: cursor, before: .null, after: root,
            records: records, index: index, isSnapshot: true)
    }

    /// Whether an entry, or a snapshot, is not through.
    var isWide: Bool { wide != nil }

    /// Goes on with what is not through, as far as there is room.
    mutating func goOn() -> LaneFinding? {
        guard var wide, let feed = feeds.first else { return nil }
        var finding = LaneFinding(claim: feed.claim)
        var looked = 0
        let room = feed.window.available()
        while looked < Self.mostAtOnce, finding.messages.count < room, !finding.isFull {
            guard let change = wide.records.nextChange() else {
                self.wide = nil
                cursor = wide.cursor
                root = wide.after
                finding.readTo = wide.cursor
                finding.hasReadSnapshot = wide.isSnapshot
                return finding
            }
            looked += 1
            take(
                change, feed, wide.facts, wide.cursor.seq, wide.index, wide.isSnapshot, wide.before, wide.after,
                &finding)
            wide.index += 1
        }
        self.wide = wide
        return finding.messages.isEmpty && looked == 0 ? nil : finding
    }

    private func take(
        _ change: RecordChange, _ feed: LaneFeed, _ facts: EntryFacts, _ seq: Int64, _ index: Int64, _ isSnapshot: Bool,
        _ before: Node, _ after: Node, _ finding: inout LaneFinding
    ) {
        let position = FeedPosition(seq: seq, index: index, isSnapshot: isSnapshot)
        guard let message = feed.matcher.message(change, at: position, of: facts, before: before, after: after) else {
            return
        }
        finding.messages.append(message)
        // It takes its room from now on, not only when it has arrived.
        finding.hasRoom = feed.window.bring(bytes: message.estimatedBytes)
        finding.bytes += message.estimatedBytes
        if let letter = feed.letters[position] { finding.letters[position] = letter }
    }

    /// Takes the lane past an entry.
    ///
    /// - Parameters:
    ///   - after: the tree behind it.
    ///   - places: what it wrote; nil where that is not known.
    ///   - findings: one for each feed, in order.
    /// - Returns: lanes for feeds of which the entry has more messages than are taken at once.
    mutating func pass(
        _ entry: Entry, at cursor: LogCursor, after: Node, places: [Path]?, _ findings: inout [LaneFinding]
    ) -> [FeedLane] {
        let facts = EntryFacts(operation: entry.operation.rawValue, committedAt: entry.committedAt)
        var left: [FeedLane] = []
        var leaving: [Int] = []
        let isUnchanged = root.isIdentical(to: after)
        for (index, feed) in feeds.enumerated() {
            guard feed.matcher.takes(entry.operation), !isUnchanged else {
                findings[index].readTo = cursor
                continue
            }
            var records = RecordEnumerator(
                feed.matcher.definition.pattern, before: root, after: after, places: places)
            var number: Int64 = 0
            while number < Self.mostAtOnce, let change = records.nextChange() {
                take(change, feed, facts, cursor.seq, number, false, root, after, &findings[index])
                number += 1
            }
            guard number >= Self.mostAtOnce else {
                findings[index].readTo = cursor
                continue
            }
            var lane = FeedLane([feed], root: root, at: self.cursor)
            lane.wide = Wide(
                facts: facts, cursor: cursor, before: root, after: after, records: records, index: number,
                isSnapshot: false)
            left.append(lane)
            leaving.append(index)
            findings[index].readTo = findings[index].readTo ?? self.cursor
        }
        for index in leaving.reversed() {
            partial.append(findings.remove(at: index))
            feeds.remove(at: index)
        }
        root = after
        self.cursor = cursor
        return left
    }

    /// What was found for feeds that have left the lane in the middle of an entry.
    private(set) var partial: [LaneFinding] = []

    mutating func takePartial() -> [LaneFinding] {
        defer { partial = [] }
        return partial
    }

    /// Takes the feeds out that have no room for more.
    mutating func splitFull() -> FeedLane? {
        let full = feeds.filter { $0.window.available() == 0 }
        guard !full.isEmpty, full.count < feeds.count else { return nil }
        let names = Set(full.map(\.claim))
        feeds.removeAll { names.contains($0.claim) }
        return FeedLane(full, root: root, at: cursor)
    }

    /// Whether none of the feeds has room.
    var isFull: Bool { feeds.allSatisfy { $0.window.available() == 0 } }

    /// Takes the feeds of another lane in that is at the same place.
    mutating func join(_ other: FeedLane) { feeds += other.feeds }

    mutating func remove(_ claim: FeedClaim) { feeds.removeAll { $0.claim == claim } }

    /// The same tree, shared with others.
    mutating func share(_ root: Node) { self.root = root }

    /// Its trees: the one as of `cursor`, and those before and behind what is not through.
    var trees: [Node] { wide.map { [root, $0.before, $0.after] } ?? [root] }

    // MARK: Resting

    /// The lane without its trees; nil in the middle of an entry, whose two trees take longer to make.
    var resting: RestingLane? {
        guard let wide else { return RestingLane(feeds: feeds, cursor: cursor, snapshot: nil) }
        guard wide.isSnapshot else { return nil }
        let place = RestingLane.Snapshot(index: wide.index, time: wide.facts.committedAt)
        return RestingLane(feeds: feeds, cursor: cursor, snapshot: place)
    }

    /// Continues a lane that has rested.
    ///
    /// - Parameter root: The tree at the resting lane's cursor.
    init(_ resting: RestingLane, root: Node) {
        if let snapshot = resting.snapshot, let feed = resting.feeds.first {
            self.init(feed, snapshot: root, at: resting.cursor, from: snapshot.index, time: snapshot.time)
        } else {
            self.init(resting.feeds, root: root, at: resting.cursor)
        }
    }
}

/// A feed whose messages a lane finds.
struct LaneFeed: Sendable {
    let claim: FeedClaim
    let matcher: FeedMatcher
    let window: FeedWindow
    /// Messages that failed before, by their places.
    let letters: [FeedPosition: FeedLetter]
}

/// What a lane has found for a feed.
struct LaneFinding: Sendable {
    let claim: FeedClaim
    var messages: [FeedMessage] = []
    /// About what the messages cost in memory.
    var bytes = 0
    var letters: [FeedPosition: FeedLetter] = [:]
    /// All messages of entries up to there have been found; nil where an entry is not through.
    var readTo: LogCursor?
    var hasReadSnapshot = false

    /// Whether the feed has room for more.
    var hasRoom = true

    /// Whether it is as much as is told at once.
    var isFull: Bool { messages.count >= 500 || bytes >= 4 << 20 || !hasRoom }
}

/// A lane that has let go of its trees while its feeds have no room for more messages: they are made again once there is room. A value.
struct RestingLane: Sendable {
    /// How far a snapshot has been read.
    struct Snapshot: Sendable {
        /// The number of its next record.
        let index: Int64
        /// When the snapshot's entry was committed, in milliseconds since 1970.
        let time: Int64
    }

    private(set) var feeds: [LaneFeed]
    let cursor: LogCursor
    /// Nil between two entries.
    let snapshot: Snapshot?
    /// The tree is not made before then, in monotonic milliseconds.
    private(set) var restsUntil: Milliseconds = 0
    private var pause: Backoff?

    init(feeds: [LaneFeed], cursor: LogCursor, snapshot: Snapshot?) {
        self.feeds = feeds
        self.cursor = cursor
        self.snapshot = snapshot
    }

    /// Whether a feed has room again. The dispatcher says when one has that had none.
    var hasRoom: Bool { feeds.contains { $0.window.available() > 0 } }

    /// The connection was lost while the tree was made: the lane rests for a while, longer each time, so that other lanes have the thread.
    mutating func failed(at now: Milliseconds, _ settings: FeedSettings) {
        var pause =
            pause
            ?? Backoff(
                firstMilliseconds: Self.pauses * settings.firstRetryMilliseconds,
                longestMilliseconds: settings.maxRetryMilliseconds)
        restsUntil = now + pause.nextMilliseconds()
        self.pause = pause
    }

    /// The first pause, as a multiple of `firstRetryMilliseconds`.
    private static let pauses: Milliseconds = 10

    mutating func remove(_ claim: FeedClaim) { feeds.removeAll { $0.claim == claim } }
}
