public import LogStore
import Tree

/// The administrative operations on feeds, on a connection to the database. Gateways notice the changes
/// there. Blocks its thread.
public struct FeedAdministration {
    private let connection: LogConnection
    private let mayTakeSnapshots: Bool
    /// The feeds that the caller may access.
    private let access: FeedAccess
    private static let maxFeeds = 1_000
    /// The maximum size of the dead letters in one answer, in bytes, without the JSON around them.
    private static let mostDeadLetterBytes = (8 << 20) - 1_024

    /// The operation needs a snapshot of the whole tree, which this administration may not take.
    struct SnapshotNeeded: Error {}

    public init(_ connection: LogConnection) { self.init(connection, mayTakeSnapshots: true) }

    /// - Parameter mayTakeSnapshots: False on threads that must not block for long. Operations that need a snapshot then fail with
    ///   `SnapshotNeeded`; at most the namespace has been created by then.
    init(_ connection: LogConnection, mayTakeSnapshots: Bool) {
        self.init(connection, mayTakeSnapshots: mayTakeSnapshots, .any)
    }

    private init(_ connection: LogConnection, mayTakeSnapshots: Bool, _ access: FeedAccess) {
        self.connection = connection
        self.mayTakeSnapshots = mayTakeSnapshots
        self.access = access
    }

    /// Returns an administration limited to the feeds that a caller may consume. It refuses other feeds with `FeedError.notAdmitted`.
    public func limited(to access: FeedAccess) -> FeedAdministration {
        FeedAdministration(connection, mayTakeSnapshots: mayTakeSnapshots, access)
    }

    /// The result of applying a definition.
    public struct Applied: Sendable, Equatable {
        public let isNew: Bool
        public let isChanged: Bool
        /// The feed's position.
        public let seq: Int64
        /// The change to the feed, if it existed and was changed.
        public let change: Change?
    }

    /// A feed that runs under another generation from now on.
    public struct Change: Sendable, Equatable {
        let feed: Int64
        /// Runs under an older generation are over.
        let generation: Int64
    }

    // MARK: Feeds

    /// Returns a namespace's feeds, by name.
    public func feeds(of namespace: String) throws -> [FeedRecord] {
        guard let record = try connection.namespace(named: namespace) else {
            guard try connection.livesElsewhere(namespace) else { return [] }
            throw FeedError.moving(namespace)
        }
        return try connection.feeds(of: record.id)
    }

    /// Returns all feeds of all namespaces.
    public func allFeeds() throws -> [FeedRecord] { try connection.feeds() }

    /// Returns the feed with a name. Throws if it does not exist or is not accessible.
    public func feed(_ name: FeedName) throws -> FeedRecord {
        guard let found = try find(name) else { throw try absence(of: name) }
        guard access.admits(uid: found.uid, createdAt: found.createdAt) else { throw FeedError.notAdmitted(name) }
        return found
    }

    /// Returns the error for a feed that is not in this database.
    private func absence(of name: FeedName) throws -> any Error {
        try connection.livesElsewhere(name.namespace)
            ? FeedError.moving(name.namespace) : FeedError.unknownFeed(name)
    }

    /// Returns the error for a namespace that is not in this database.
    private func absence(of namespace: String) throws -> any Error {
        try connection.livesElsewhere(namespace)
            ? FeedError.moving(namespace) : LogStoreError.unknownNamespace(namespace)
    }

    /// Returns the feed with a name, or nil if there is none.
    public func find(_ name: FeedName) throws -> FeedRecord? {
        guard let record = try connection.namespace(named: name.namespace) else { return nil }
        return try connection.feeds(of: record.id, named: name.name).first
    }

    /// Returns the result that applying a definition would have, without changing anything. A new feed has no position yet: its seq is 0.
    public func plan(_ definition: FeedDefinition, for namespace: String) throws -> Applied {
        guard let record = try connection.namespace(named: namespace) else {
            throw try absence(of: namespace)
        }
        let all = try connection.feeds(of: record.id)
        guard let existing = all.first(where: { $0.name == definition.name }) else {
            guard all.count < Self.maxFeeds else { throw FeedError.tooManyFeeds(Self.maxFeeds) }
            return Applied(isNew: true, isChanged: true, seq: 0, change: nil)
        }
        return Applied(
            isNew: false, isChanged: existing.definition != definition.json(as: .stored),
            seq: try connection.feedSeq(record.id, existing.id), change: nil)
    }

    /// Creates a feed, or changes the definition of an existing one. Applying an equal definition changes nothing.
    ///
    /// - Parameter creatingNamespace: Whether to create the namespace if it does not exist.
    public func apply(_ definition: FeedDefinition, to namespace: String, creatingNamespace: Bool = false) throws
        -> Applied
    {
        guard let record = try connection.namespace(named: namespace, creating: creatingNamespace) else {
            throw try absence(of: namespace)
        }
        let text = definition.json(as: .stored)
        let all = try connection.feeds(of: record.id)
        if let existing = all.first(where: { $0.name == definition.name }) {
            let seq = try connection.feedSeq(record.id, existing.id)
            guard existing.definition != text else {
                return Applied(isNew: false, isChanged: false, seq: seq, change: nil)
            }
            let former = try? FeedDefinition.read(stored: existing.definition, name: existing.name)
            let generation = try connection.redefineFeed(
                record.id, existing.id, definition: text,
                keepsDone: former.map(definition.numbersMessagesLike) ?? false,
                stopsKeys: definition.deadPolicy == .stop)
            return Applied(
                isNew: false, isChanged: true, seq: seq, change: Change(feed: existing.id, generation: generation))
        }
        guard all.count < Self.maxFeeds else { throw FeedError.tooManyFeeds(Self.maxFeeds) }
        let progress = try progress(definition.start, in: record)
        let made = try connection.addFeed(
            record.id, name: definition.name, definition: text, at: progress)
        // Another session has created the feed in the meantime. It may have to be changed.
        guard made != nil else { return try apply(definition, to: namespace) }
        return Applied(isNew: true, isChanged: true, seq: progress.seq, change: nil)
    }

    /// Removes a feed with all its stored state.
    @discardableResult
    public func remove(_ name: FeedName) throws -> Change {
        let record = try feed(name)
        guard try connection.removeFeed(record.namespaceID, record.id) else { throw try absence(of: name) }
        return Change(feed: record.id, generation: .max)
    }

    /// Moves a feed to a position: all messages after that position are delivered again. Returns the position's seq.
    public func seek(_ name: FeedName, to start: FeedDefinition.Start) throws -> (seq: Int64, change: Change) {
        let record = try feed(name)
        guard let namespace = try connection.namespace(id: record.namespaceID) else {
            throw try absence(of: name)
        }
        let progress = try progress(start, in: namespace)
        let generation = try connection.seekFeed(record.namespaceID, record.id, to: progress)
        // The feed's previous snapshot may no longer be needed. The feed has already moved, so a failure here does not matter.
        try? connection.dropFeedSnapshots(record.namespaceID)
        return (progress.seq, Change(feed: record.id, generation: generation))
    }

    /// Returns the effect of `seek(_:to:)`. Changes nothing.
    public func seekPlan(_ name: FeedName, to start: FeedDefinition.Start) throws -> FeedSeekPlan {
        let record = try feed(name)
        guard let namespace = try connection.namespace(id: record.namespaceID),
            let stored = try connection.feedProgress(record.namespaceID, record.id)
        else { throw try absence(of: name) }
        let progress = FeedProgress(stored) ?? FeedProgress(seq: stored.seq, snapshotSeq: stored.snapshotSeq)
        return FeedSeekPlan(
            progress, to: try seq(start, in: namespace) ?? namespace.head,
            isSnapshot: start == .snapshot && namespace.head > 0, retainedFrom: namespace.retainedFrom)
    }

    /// Returns the position of a start in a namespace's log.
    private func progress(_ start: FeedDefinition.Start, in namespace: NamespaceRecord) throws -> FeedProgressRecord {
        guard let now = try connection.namespace(id: namespace.id) else {
            throw try absence(of: namespace.name)
        }
        let seq: Int64
        var snapshotSeq: Int64?
        if let found = try self.seq(start, in: now) {
            seq = found
        } else if now.head == 0 {
            seq = 0
        } else {
            guard mayTakeSnapshots else { throw SnapshotNeeded() }
            // The feed begins with this snapshot of the tree, which is kept as long as a feed needs it.
            let taken = try connection.takeSnapshot(namespace.id, for: .feed)
            seq = taken - 1
            snapshotSeq = taken
        }
        let batch = try connection.batches(namespace.id, at: [seq])[seq]
        return FeedProgressRecord(
            seq: seq, index: 0, snapshotSeq: snapshotSeq, done: [], handedTo: seq,
            readTo: LogPosition(seq: seq, batch: batch))
    }

    /// Returns the last entry that a feed with this start does not deliver, or nil for a snapshot.
    ///
    /// - Throws: `FeedError.pruned` if the log no longer has the entry after it.
    private func seq(_ start: FeedDefinition.Start, in namespace: NamespaceRecord) throws -> Int64? {
        let seq: Int64
        switch start {
        case .now: seq = namespace.head
        case .beginning: seq = 0
        case .snapshot: return nil
        case .seq(let wanted): seq = try SeqOrTime.seq(wanted).seq(connection, namespace)
        case .time(let text): seq = try SeqOrTime.time(text).seq(connection, namespace)
        }
        guard seq + 1 >= namespace.retainedFrom else {
            throw FeedError.pruned(wanted: seq + 1, oldest: namespace.retainedFrom)
        }
        return seq
    }

    // MARK: Trees

    /// Stores a whole tree, so that feeds near it can be taken over quickly, and drops the snapshots that no feed needs.
    func keep(_ tree: TreeVersion, of namespace: Int64) throws {
        try connection.saveSnapshot(namespace, at: tree.seq, tree.root, for: .feed)
        try connection.dropFeedSnapshots(namespace)
    }

    // MARK: Dead letters

    /// Returns a feed's dead letters after a position, in order: at most `limit`, and at most 8 MiB of JSON.
    public func deadLetters(_ name: FeedName, after: FeedPosition?, limit: Int) throws -> [FeedDeadLetter] {
        let record = try feed(name)
        let deadLetters = try connection.failedMessages(
            record.namespaceID, record.id, states: ["dead"],
            after: after, limit: limit,
            mostBytes: Int64(Self.mostDeadLetterBytes)
        ).map { FeedDeadLetter($0.failedMessage, since: $0.since) }
        return FeedDeadLetter.page(deadLetters, mostBytes: Self.mostDeadLetterBytes)
    }

    /// Schedules dead letters for another delivery. Returns their number.
    public func retry(_ name: FeedName, _ selection: LogConnection.DeadLetterSelection) throws -> Int64 {
        let record = try feed(name)
        return try connection.retryDeadLetters(record.namespaceID, record.id, selection)
    }

    /// Returns how many dead letters are meant, or nil if none is.
    public func deadLetterSummary(
        _ name: FeedName, _ selection: LogConnection.DeadLetterSelection
    ) throws -> LogConnection.DeadLetterSummary? {
        let record = try feed(name)
        return try connection.deadLetterSummary(record.namespaceID, record.id, selection)
    }

    /// Drops dead letters. Returns their number.
    public func drop(_ name: FeedName, _ selection: LogConnection.DeadLetterSelection) throws -> Int64 {
        let record = try feed(name)
        return try connection.dropDeadLetters(record.namespaceID, record.id, selection)
    }

    /// Returns the state of feeds as the database knows it. Omits feeds that no longer exist.
    func statuses(of feeds: [FeedRecord]) throws -> [(feed: FeedName, status: FeedStatusRecord)] {
        let statuses = try connection.feedStatuses(feeds.map(\.id))
        return feeds.compactMap { feed in
            statuses[feed.id].map { (FeedName(namespace: feed.namespace, name: feed.name), $0) }
        }
    }

    /// Returns the state of a feed as the database knows it.
    public func status(_ name: FeedName) throws -> FeedStatusRecord {
        let record = try feed(name)
        guard let status = try connection.feedStatus(record.namespaceID, record.id) else {
            throw try absence(of: name)
        }
        return status
    }
}

/// A message that is no longer delivered.
public struct FeedDeadLetter: Sendable {
    /// The message as JSON, with the number of attempts, the errors, and the time at which it became a dead letter.
    public let json: [UInt8]
    /// The key by which the feed orders messages.
    public let key: String
    public let attempts: Int
    /// The reason why the last attempt failed.
    public let lastReason: String
    /// The time at which the message became a dead letter, in RFC 3339, in UTC.
    public let deadAt: String
    private let position: FeedPosition

    init(_ record: FailedMessageRecord, since: String) {
        let failures = FeedFailure.read(record.errors)
        key = record.key
        attempts = record.attempts
        lastReason = failures.last?.reason ?? ""
        deadAt = since
        position = record.position
        var json = Array(StoredMessage.bounded(record.message ?? Array("{}".utf8)).dropLast())
        if json.count > 1 { json.append(UInt8(ascii: ",")) }
        json += Array("\"attempts\":\(record.attempts),\"errors\":".utf8)
        json += FeedFailure.json(failures)
        json += Array(",\"dead_at\":\"\(since)\"}".utf8)
        self.json = json
    }

    /// Returns the message's id in its namespace.
    public func id(in namespace: String) -> String { position.id(in: namespace) }

    /// Returns the first dead letters whose JSON has at most `mostBytes` bytes in total, but at least one.
    static func page(_ deadLetters: [FeedDeadLetter], mostBytes: Int) -> [FeedDeadLetter] {
        var left = mostBytes
        let count = deadLetters.prefix { deadLetter in
            // Includes the comma before the next element.
            left -= deadLetter.json.count + 1
            return left >= 0
        }.count
        return Array(deadLetters.prefix(max(1, count)))
    }
}

/// The reason why an operation on a feed failed.
public enum FeedError: Error, Sendable, Equatable, CustomStringConvertible {
    case unknownFeed(FeedName)
    /// The caller's token is for an earlier feed of the same name.
    case notAdmitted(FeedName)
    /// The namespace is moving or has moved to another database. A later request finds its feeds there.
    case moving(String)
    case pruned(wanted: Int64, oldest: Int64)
    case tooManyFeeds(Int)
    /// One feed cannot deliver messages of the other, because the message ids would refer to other records.
    case differentPaths(String, String)

    public var description: String {
        switch self {
        case .unknownFeed(let name): "There is no feed \"\(name.name)\" in the namespace \"\(name.namespace)\"."
        case .notAdmitted(let name): "The token is for an earlier feed \"\(name.name)\": make a new token."
        case .moving(let namespace):
            "The namespace \"\(namespace)\" is being moved to another database. Try again later."
        case .pruned(let wanted, let oldest):
            "Entry \(wanted) is no longer in the log; the oldest entry is \(oldest). {\"seq\":\(oldest - 1)} begins with the oldest entry, \"snapshot\" with the current tree."
        case .tooManyFeeds(let most): "A namespace has at most \(most) feeds."
        case .differentPaths(let one, let other):
            "Feed \"\(other)\" has another path than feed \"\(one)\", whose messages it can't deliver."
        }
    }
}

/// The feeds that a caller may consume under a name. The name may have been reused by another feed.
public enum FeedAccess: Sendable, Hashable {
    /// Any feed of the name.
    case any
    /// The feed with this id, as the text of a UUID.
    case id(String)
    /// A feed that existed at this time, in seconds since 1970.
    case since(Int64)

    /// Returns whether a feed may be consumed.
    ///
    /// - Parameter createdAt: The time of the feed's creation, in seconds since 1970.
    public func admits(uid: String, createdAt: Int64) -> Bool {
        switch self {
        case .any: true
        case .id(let id): id == uid
        case .since(let time): createdAt <= time
        }
    }
}
