import LogStore
import Runtime
import Tree

/// A shared reader: the feeds of a namespace that have reached the same entry, and the tree at that entry. A value without I/O.
///
/// All feeds of a shared reader use its tree. `pass` moves the reader past one entry: it enumerates the records that differ between
/// the trees before and after the entry, and finds the messages of each feed:
///
///     root (tree at entry 42) ── entry 43 ──► after (tree at entry 43)
///           └─ changed records of a feed's pattern ─► matcher ─► messages in the feed's FoundMessages
///
/// A feed does not delay the other feeds of its reader. It moves to a reader of its own, which later joins another
/// reader at the same entry:
///
///     reader ─┬─ pass: the entry has 1,000 or more changed records for the feed ─► reader of that feed, with both trees (`wide`)
///      ▲      └─ splitFull: the feed has no room for messages ──────────────────► reader of the feeds without room
///      │                                                                           │ memory is short       ▲ room again
///      │                                                                           └─► RestingReader, without trees
///      └── join: two readers have reached the same entry
///
/// A wide reader enumerates its records in steps (`resume`), as far as the feed's window has room. A feed that starts with a snapshot
/// starts with a wide reader. The window counts a message as soon as the reader finds it.
struct SharedReader {
    /// An entry or a snapshot with more records than one step processes.
    private struct Wide {
        let facts: EntryFacts
        let cursor: LogPosition
        let before: Node
        let after: Node
        var records: RecordEnumerator
        var index: Int64
        let isSnapshot: Bool
    }

    private(set) var feeds: [SharedReaderFeed]
    /// The tree at `cursor`.
    private(set) var root: Node
    private(set) var cursor: LogPosition
    private var wide: Wide?
    /// The maximum number of records to enumerate, or messages to find, before other readers get their turn.
    private static let mostAtOnce = 1_000

    init(_ feeds: [SharedReaderFeed], root: Node, at cursor: LogPosition) {
        self.feeds = feeds
        self.root = root
        self.cursor = cursor
    }

    /// Creates a reader that starts with the records of a tree.
    ///
    /// - Parameter index: The index of the first record to read.
    init(_ feed: SharedReaderFeed, snapshot root: Node, at cursor: LogPosition, from index: Int64, time: Int64) {
        self.init([feed], root: root, at: cursor)
        var records = RecordEnumerator(feed.matcher.definition.pattern, before: .null, after: root, paths: nil)
        for _ in 0..<index { _ = records.nextChange() }
        wide = Wide(
            facts: EntryFacts(snapshotAt: time), cursor: cursor, before: .null, after: root,
            records: records, index: index, isSnapshot: true)
    }

    /// Whether the reader is in the middle of an entry or a snapshot.
    var isWide: Bool { wide != nil }

    /// Continues the entry or snapshot in progress, as far as the window has room. Returns nil if there is nothing to report.
    mutating func resume() -> FoundMessages? {
        guard var wide, let feed = feeds.first else { return nil }
        var finding = FoundMessages(claim: feed.claim)
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
        _ change: RecordDifference, _ feed: SharedReaderFeed, _ facts: EntryFacts, _ seq: Int64, _ index: Int64,
        _ isSnapshot: Bool,
        _ before: Node, _ after: Node, _ finding: inout FoundMessages
    ) {
        let position = FeedPosition(seq: seq, index: index, isSnapshot: isSnapshot)
        guard let message = feed.matcher.message(change, at: position, of: facts, before: before, after: after) else {
            return
        }
        finding.messages.append(message)
        // The window counts the message from now on, not only from its arrival at the dispatcher.
        finding.hasRoom = feed.window.bring(bytes: message.estimatedBytes)
        finding.bytes += message.estimatedBytes
        if let failedMessage = feed.failedMessages[position] { finding.failedMessages[position] = failedMessage }
    }

    /// Moves the reader past an entry.
    ///
    /// - Parameters:
    ///   - after: The tree after the entry.
    ///   - paths: The paths that the entry wrote, or nil if unknown.
    ///   - findings: One element for each feed, in order.
    /// - Returns: New readers for the feeds that have more messages in the entry than one step processes.
    mutating func pass(
        _ entry: Entry, at cursor: LogPosition, after: Node, paths: [Path]?, _ findings: inout [FoundMessages]
    ) -> [SharedReader] {
        let facts = EntryFacts(entry)
        var left: [SharedReader] = []
        var leaving: [Int] = []
        let isUnchanged = root.isIdentical(to: after)
        for (index, feed) in feeds.enumerated() {
            guard feed.matcher.takes(entry.operation), !isUnchanged else {
                findings[index].readTo = cursor
                continue
            }
            var records = RecordEnumerator(
                feed.matcher.definition.pattern, before: root, after: after, paths: paths)
            var number: Int64 = 0
            while number < Self.mostAtOnce, let change = records.nextChange() {
                take(change, feed, facts, cursor.seq, number, false, root, after, &findings[index])
                number += 1
            }
            guard number >= Self.mostAtOnce else {
                findings[index].readTo = cursor
                continue
            }
            var reader = SharedReader([feed], root: root, at: self.cursor)
            reader.wide = Wide(
                facts: facts, cursor: cursor, before: root, after: after, records: records, index: number,
                isSnapshot: false)
            left.append(reader)
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

    /// The findings of feeds that have left the reader in the middle of an entry.
    private(set) var partial: [FoundMessages] = []

    mutating func takePartial() -> [FoundMessages] {
        defer { partial = [] }
        return partial
    }

    /// Moves the feeds without room into a new reader. Returns nil if no feed or every feed is without room.
    mutating func splitFull() -> SharedReader? {
        let full = feeds.filter { $0.window.available() == 0 }
        guard !full.isEmpty, full.count < feeds.count else { return nil }
        let names = Set(full.map(\.claim))
        feeds.removeAll { names.contains($0.claim) }
        return SharedReader(full, root: root, at: cursor)
    }

    /// Whether no feed has room for messages.
    var isFull: Bool { feeds.allSatisfy { $0.window.available() == 0 } }

    /// Adds the feeds of another reader at the same position.
    mutating func join(_ other: SharedReader) { feeds += other.feeds }

    mutating func remove(_ claim: FeedClaim) { feeds.removeAll { $0.claim == claim } }

    /// Replaces the tree by an equal tree that shares its nodes with other trees.
    mutating func share(_ root: Node) { self.root = root }

    /// The reader's trees: the tree at `cursor`, and the trees before and after the entry in progress.
    var trees: [Node] { wide.map { [root, $0.before, $0.after] } ?? [root] }

    // MARK: Resting

    /// The reader without its trees, or nil in the middle of an entry, because rebuilding the entry's two trees would take longer.
    var resting: RestingReader? {
        guard let wide else { return RestingReader(feeds: feeds, cursor: cursor, snapshot: nil) }
        guard wide.isSnapshot else { return nil }
        let snapshot = RestingReader.Snapshot(index: wide.index, time: wide.facts.committedAt)
        return RestingReader(feeds: feeds, cursor: cursor, snapshot: snapshot)
    }

    /// Resumes a resting reader.
    init(_ resting: RestingReader, root: Node) {
        if let snapshot = resting.snapshot, let feed = resting.feeds.first {
            self.init(feed, snapshot: root, at: resting.cursor, from: snapshot.index, time: snapshot.time)
        } else {
            self.init(resting.feeds, root: root, at: resting.cursor)
        }
    }
}

/// A feed for which a shared reader finds messages.
struct SharedReaderFeed: Sendable {
    let claim: FeedClaim
    let matcher: FeedMatcher
    let window: FeedWindow
    /// The messages that failed before, by position.
    let failedMessages: [FeedPosition: FailedMessage]
}

/// The messages that a shared reader has found for a feed.
struct FoundMessages: Sendable {
    let claim: FeedClaim
    var messages: [FeedMessage] = []
    /// The approximate size of the messages in memory.
    var bytes = 0
    var failedMessages: [FeedPosition: FailedMessage] = [:]
    /// The position up to which all messages have been found, or nil if the reader has not finished an entry.
    var readTo: LogPosition?
    var hasReadSnapshot = false

    /// Whether the feed has room for more messages.
    var hasRoom = true

    /// Whether the finding is large enough to be reported.
    var isFull: Bool { messages.count >= 500 || bytes >= 4 << 20 || !hasRoom }
}

/// A shared reader that has released its trees while its feeds have no room for messages. The trees are rebuilt once
/// a feed has room. A value.
struct RestingReader: Sendable {
    /// The progress of reading a snapshot.
    struct Snapshot: Sendable {
        /// The index of the next record.
        let index: Int64
        /// The time at which the snapshot's entry was committed, in milliseconds since 1970.
        let time: Int64
    }

    private(set) var feeds: [SharedReaderFeed]
    let cursor: LogPosition
    /// The progress of a snapshot, or nil between two entries.
    let snapshot: Snapshot?
    /// The time before which the tree is not rebuilt, in monotonic milliseconds.
    private(set) var restsUntil: Milliseconds = 0
    private var pause: Backoff?

    init(feeds: [SharedReaderFeed], cursor: LogPosition, snapshot: Snapshot?) {
        self.feeds = feeds
        self.cursor = cursor
        self.snapshot = snapshot
    }

    /// Whether a feed has room again. The dispatcher wakes the reader when that happens.
    var hasRoom: Bool { feeds.contains { $0.window.available() > 0 } }

    /// Records that the connection was lost while the tree was rebuilt. The reader then rests for a while, longer after each
    /// failure, so that the thread serves other readers.
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
