public import LogStore
import Rules
import Tree

/// Has messages of a part of the log delivered once more. They are found as a gateway finds them, with the same ids, and left in the
/// database as letters to be delivered: whoever works the feed takes them up beside what is live. Blocks its thread.
public struct FeedReplay {
    /// What was done, or would be.
    public struct Outcome: Sendable, Equatable {
        /// Entries that were looked at.
        public internal(set) var entries: Int64 = 0
        /// Messages that are delivered once more.
        public internal(set) var messages: Int64 = 0
        /// Messages that are left out, as they are still to be delivered anyway.
        public internal(set) var toCome: Int64 = 0
    }

    /// A feed with what decides about its messages.
    private struct Side {
        let record: FeedRecord
        let matcher: FeedMatcher
        let progress: FeedProgress
        /// The keys that a dead letter has stopped.
        let stoppedKeys: Set<FeedKey>

        var definition: FeedDefinition { matcher.definition }
    }

    private let connection: LogConnection
    private let namespace: NamespaceRecord
    private let source: Side
    private let target: Side
    private let key: String?
    /// Entries that are read, and messages that are written, at once.
    public var pageLimit = 1_000
    private static let lettersAtOnce = 1_000
    private static let bytesAtOnce = 8 << 20

    /// - Parameters:
    ///   - name: whose messages they are.
    ///   - other: the feed of the same namespace that delivers them; nil for the same one.
    ///   - key: only messages of this key.
    public init(_ connection: LogConnection, _ name: FeedName, into other: String? = nil, key: String? = nil) throws {
        self.connection = connection
        self.key = key
        guard let namespace = try connection.namespace(named: name.namespace) else {
            throw LogStoreError.unknownNamespace(name.namespace)
        }
        self.namespace = namespace
        source = try Self.side(name, connection)
        target = try other.map { try Self.side(FeedName(namespace: name.namespace, name: $0), connection) } ?? source
        guard target.definition.numbersMessagesLike(source.definition) else {
            throw FeedError.differentPaths(name.name, target.record.name)
        }
    }

    private static func side(_ name: FeedName, _ connection: LogConnection) throws -> Side {
        let record = try FeedAdministration(connection).feed(name)
        let definition = try FeedDefinition.read(stored: record.definition, name: record.name)
        guard let stored = try connection.feedProgress(record.namespaceID, record.id) else {
            throw FeedError.unknownFeed(name)
        }
        guard let progress = FeedProgress(stored) else {
            throw LogStoreError.corrupt("the progress of feed \(name.name) can't be read")
        }
        let stopped =
            definition.deadPolicy == .stop ? try connection.blockedFeedKeys(record.namespaceID, record.id) : []
        return Side(
            record: record, matcher: FeedMatcher(definition), progress: progress,
            stoppedKeys: Set(stopped.map { FeedKey($0) }))
    }

    /// Goes through the entries from `first` to `last`.
    ///
    /// - Parameters:
    ///   - isDryRun: only counts.
    ///   - progress: told of the seq now and then.
    public func run(
        from first: Int64, to last: Int64, isDryRun: Bool, progress: (Int64) throws -> Void = { _ in }
    ) throws -> Outcome {
        var outcome = Outcome()
        guard first <= last else { return outcome }
        guard first >= namespace.retainedFrom else {
            throw FeedError.pruned(wanted: first, oldest: namespace.retainedFrom)
        }
        var tree = try PastTree(connection, namespace, for: first - 1)
        try tree.advance(to: first - 1)
        var letters: [FeedLetterRecord] = []
        var bytes = 0
        var follower = LogFollower(namespace.id, at: LogCursor(seq: first - 1), through: last) {
            $0.pageEntries = pageLimit
        }
        while tree.seq < last {
            guard case .entries(let page) = try follower.next(on: connection) else {
                throw ReplayError.pruned(seq: tree.seq + 1)
            }
            for logged in page {
                let before = tree.root
                try tree.apply(logged.entry)
                outcome.entries += 1
                try eachLetter(of: logged.entry, before, tree.root, &outcome) { letter in
                    letters.append(letter)
                    bytes += letter.message?.count ?? 0
                    guard letters.count >= Self.lettersAtOnce || bytes >= Self.bytesAtOnce else { return }
                    if !isDryRun { try write(letters) }
                    letters.removeAll()
                    bytes = 0
                }
            }
            try progress(tree.seq)
        }
        guard !isDryRun else { return outcome }
        if !letters.isEmpty { try write(letters) }
        // What was set aside behind dead letters that are delivered once more goes on.
        if target.definition.deadPolicy == .stop {
            _ = try connection.retryLetters(target.record.namespaceID, target.record.id, .places([]))
        }
        return outcome
    }

    private func write(_ letters: [FeedLetterRecord]) throws {
        try connection.replayLetters(target.record.namespaceID, target.record.id, letters)
    }

    /// The messages that an entry became, as letters.
    private func eachLetter(
        of entry: Entry, _ before: Node, _ after: Node, _ outcome: inout Outcome,
        _ body: (FeedLetterRecord) throws -> Void
    ) throws {
        guard source.matcher.takes(entry.operation), !before.isIdentical(to: after) else { return }
        let facts = EntryFacts(operation: entry.operation.rawValue, committedAt: entry.committedAt)
        var records = RecordEnumerator(
            source.definition.pattern, before: before, after: after,
            places: entry.isBulk ? nil : entry.changes.map(\.path))
        var index: Int64 = 0
        while let change = records.nextChange() {
            let position = FeedPosition(seq: entry.seq, index: index)
            index += 1
            guard let message = source.matcher.message(change, at: position, of: facts, before: before, after: after),
                key.map({ FeedKey(message.key) == FeedKey($0) }) ?? true
            else { continue }
            // It would be delivered twice, and perhaps before what is to come before it.
            if !target.progress.isDone(position), target.matcher.takes(entry.operation),
                target.matcher.message(change, at: position, of: facts, before: before, after: after) != nil
            {
                outcome.toCome += 1
                continue
            }
            outcome.messages += 1
            try body(letter(message))
        }
    }

    private func letter(_ message: FeedMessage) -> FeedLetterRecord {
        let key = target.definition.order == .key ? message.key : ""
        return FeedLetterRecord(
            FeedLetter(
                position: message.position, key: key,
                state: target.stoppedKeys.contains(FeedKey(key)) ? .blocked : .retry,
                attempts: 0, failures: [], message: message), namespace: namespace.name)
    }
}
