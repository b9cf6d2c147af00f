public import LogStore
import Rules
import Tree

/// Delivers the messages of a part of the log again. The messages are built as a gateway builds them, with the same
/// ids, and stored in the database as retries. The gateway that runs the feed delivers them together with new
/// messages. Blocks its thread.
public struct FeedReplay {
    /// The result of a replay or of a dry run.
    public struct Outcome: Sendable, Equatable {
        /// The number of entries read.
        public internal(set) var entries: Int64 = 0
        /// The number of messages that are delivered again.
        public internal(set) var messages: Int64 = 0
        /// The number of messages left out because they have yet to be delivered in any case.
        public internal(set) var toCome: Int64 = 0
    }

    /// A feed with the state that decides about its messages.
    private struct Side {
        let record: FeedRecord
        let matcher: FeedMatcher
        let progress: FeedProgress
        /// The keys that dead letters have stopped.
        let stoppedKeys: Set<FeedKey>

        var definition: FeedDefinition { matcher.definition }
    }

    private let connection: LogConnection
    private let namespace: NamespaceRecord
    private let source: Side
    private let target: Side
    private let key: String?
    /// The number of entries read at once.
    public var pageLimit = 1_000
    private static let failedMessagesAtOnce = 1_000
    private static let bytesAtOnce = 8 << 20

    /// - Parameters:
    ///   - name: The feed whose messages are replayed.
    ///   - other: The feed of the same namespace that delivers them, or nil for the same feed.
    ///   - key: Replays only messages of this key, if given.
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

    /// Replays the entries from `first` to `last`.
    ///
    /// - Parameters:
    ///   - isDryRun: Whether only to count.
    ///   - progress: Receives the current seq from time to time.
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
        var failedMessages: [FailedMessageRecord] = []
        var bytes = 0
        var follower = LogFollower(namespace.id, at: LogPosition(seq: first - 1), through: last) {
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
                try eachFailedMessage(of: logged.entry, before, tree.root, &outcome) { failedMessage in
                    failedMessages.append(failedMessage)
                    bytes += failedMessage.message?.count ?? 0
                    guard failedMessages.count >= Self.failedMessagesAtOnce || bytes >= Self.bytesAtOnce else { return }
                    if !isDryRun { try write(failedMessages) }
                    failedMessages.removeAll()
                    bytes = 0
                }
            }
            try progress(tree.seq)
        }
        guard !isDryRun else { return outcome }
        if !failedMessages.isEmpty { try write(failedMessages) }
        // Resumes messages that were set aside after dead letters which are delivered again.
        if target.definition.deadPolicy == .stop {
            _ = try connection.retryDeadLetters(target.record.namespaceID, target.record.id, .positions([]))
        }
        return outcome
    }

    private func write(_ failedMessages: [FailedMessageRecord]) throws {
        try connection.replayFailedMessages(target.record.namespaceID, target.record.id, failedMessages)
    }

    /// Calls `body` with each message of an entry, as a stored message.
    private func eachFailedMessage(
        of entry: Entry, _ before: Node, _ after: Node, _ outcome: inout Outcome,
        _ body: (FailedMessageRecord) throws -> Void
    ) throws {
        guard source.matcher.takes(entry.operation), !before.isIdentical(to: after) else { return }
        let facts = EntryFacts(entry)
        var records = RecordEnumerator(
            source.definition.pattern, before: before, after: after,
            paths: entry.isBulk ? nil : entry.changes.map(\.path))
        var index: Int64 = 0
        while let change = records.nextChange() {
            let position = FeedPosition(seq: entry.seq, index: index)
            index += 1
            guard let message = source.matcher.message(change, at: position, of: facts, before: before, after: after),
                key.map({ FeedKey(message.key) == FeedKey($0) }) ?? true
            else { continue }
            // The message would be delivered twice, and perhaps before earlier messages of its key.
            if !target.progress.isDone(position), target.matcher.takes(entry.operation),
                target.matcher.message(change, at: position, of: facts, before: before, after: after) != nil
            {
                outcome.toCome += 1
                continue
            }
            outcome.messages += 1
            try body(failedMessage(message))
        }
    }

    private func failedMessage(_ message: FeedMessage) -> FailedMessageRecord {
        let key = target.definition.order == .key ? message.key : ""
        return FailedMessageRecord(
            FailedMessage(
                position: message.position, key: key,
                state: target.stoppedKeys.contains(FeedKey(key)) ? .blocked : .retry,
                attempts: 0, failures: [], message: message), namespace: namespace.name)
    }
}
