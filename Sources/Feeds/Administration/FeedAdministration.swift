public import LogStore
import Tree

/// What an administrator does with feeds, by a connection to the database; gateways hear of it. Blocks its thread.
public struct FeedAdministration {
    private let connection: LogConnection
    private let mayTakeSnapshots: Bool
    /// The feeds that the caller may reach.
    private let access: FeedAccess
    private static let maxFeeds = 1_000
    /// The maximum size of the dead letters in one answer, in bytes, without the JSON around them.
    private static let mostLetterBytes = (8 << 20) - 1_024

    /// A snapshot of the whole tree is needed, and may not be taken here.
    struct SnapshotNeeded: Error {}

    public init(_ connection: LogConnection) { self.init(connection, mayTakeSnapshots: true) }

    /// - Parameter mayTakeSnapshots: False on threads that must not take long: then what needs a snapshot fails with `SnapshotNeeded`, with
    ///   nothing done but the namespace made.
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

    /// What applying a definition has done.
    public struct Applied: Sendable, Equatable {
        public let isNew: Bool
        public let isChanged: Bool
        /// Where the feed is.
        public let seq: Int64
        /// What has become of it, where it was there and is changed.
        public let change: Change?
    }

    /// A feed that is worked under another generation from now on.
    public struct Change: Sendable, Equatable {
        let feed: Int64
        /// What has an older one is over.
        let generation: Int64
    }

    // MARK: Feeds

    /// A namespace's feeds, by name.
    public func feeds(of namespace: String) throws -> [FeedRecord] {
        guard let record = try connection.namespace(named: namespace) else {
            guard try connection.livesElsewhere(namespace) else { return [] }
            throw FeedError.moving(namespace)
        }
        return try connection.feeds(of: record.id)
    }

    /// All feeds of all namespaces.
    public func allFeeds() throws -> [FeedRecord] { try connection.feeds() }

    /// The feed of a name.
    public func feed(_ name: FeedName) throws -> FeedRecord {
        guard let found = try find(name) else { throw try absence(of: name) }
        guard access.admits(uid: found.uid, createdAt: found.createdAt) else { throw FeedError.notAdmitted(name) }
        return found
    }

    /// Why there is no such feed here.
    private func absence(of name: FeedName) throws -> any Error {
        try connection.livesElsewhere(name.namespace)
            ? FeedError.moving(name.namespace) : FeedError.unknownFeed(name)
    }

    /// Why there is no such namespace here.
    private func absence(of namespace: String) throws -> any Error {
        try connection.livesElsewhere(namespace)
            ? FeedError.moving(namespace) : LogStoreError.unknownNamespace(namespace)
    }

    /// The feed of a name; nil where there is none.
    public func find(_ name: FeedName) throws -> FeedRecord? {
        guard let record = try connection.namespace(named: name.namespace) else { return nil }
        return try connection.feeds(of: record.id, named: name.name).first
    }

    /// What applying a definition would do; changes nothing. A feed that would be new has no place yet: its seq is 0.
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

    /// Makes a feed, or gives one another definition. The same definition changes nothing.
    ///
    /// - Parameter creatingNamespace: whether a namespace of that name is made where there is none.
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
        let progress = try place(definition.start, in: record)
        let made = try connection.addFeed(
            record.id, name: definition.name, definition: text, at: progress)
        // Somebody else has made it meanwhile: then it is there, and may have to be changed.
        guard made != nil else { return try apply(definition, to: namespace) }
        return Applied(isNew: true, isChanged: true, seq: progress.seq, change: nil)
    }

    /// Removes a feed with all that is kept of it.
    @discardableResult
    public func remove(_ name: FeedName) throws -> Change {
        let record = try feed(name)
        guard try connection.removeFeed(record.namespaceID, record.id) else { throw try absence(of: name) }
        return Change(feed: record.id, generation: .max)
    }

    /// Puts a feed elsewhere: everything behind that place is delivered again. Returns the place's seq.
    public func seek(_ name: FeedName, to start: FeedDefinition.Start) throws -> (seq: Int64, change: Change) {
        let record = try feed(name)
        guard let namespace = try connection.namespace(id: record.namespaceID) else {
            throw try absence(of: name)
        }
        let progress = try place(start, in: namespace)
        let generation = try connection.seekFeed(record.namespaceID, record.id, to: progress)
        // What the feed began with before may be of no use any more. The feed is elsewhere by now, whatever becomes of that.
        try? connection.dropFeedSnapshots(record.namespaceID)
        return (progress.seq, Change(feed: record.id, generation: generation))
    }

    /// Where a start is in a namespace's log.
    private func place(_ start: FeedDefinition.Start, in namespace: NamespaceRecord) throws -> FeedProgressRecord {
        guard let now = try connection.namespace(id: namespace.id) else {
            throw try absence(of: namespace.name)
        }
        let seq: Int64
        var snapshotSeq: Int64?
        switch start {
        case .now: seq = now.head
        case .beginning:
            guard now.retainedFrom == 1 else { throw FeedError.pruned(wanted: 1, oldest: now.retainedFrom) }
            seq = 0
        case .snapshot:
            if now.head == 0 {
                seq = 0
            } else {
                guard mayTakeSnapshots else { throw SnapshotNeeded() }
                // What is kept of the tree is what the feed begins with, however long it takes.
                let taken = try connection.takeSnapshot(namespace.id, for: .feed)
                seq = taken - 1
                snapshotSeq = taken
            }
        case .seq(let wanted):
            // The last that is not delivered.
            seq = try LogPosition.seq(wanted).seq(connection, now)
        case .time(let text): seq = try LogPosition.time(text).seq(connection, now)
        }
        if seq + 1 < now.retainedFrom, snapshotSeq == nil {
            throw FeedError.pruned(wanted: seq + 1, oldest: now.retainedFrom)
        }
        let batch = try connection.batches(namespace.id, at: [seq])[seq]
        return FeedProgressRecord(
            seq: seq, index: 0, snapshotSeq: snapshotSeq, done: [], handedTo: seq,
            readTo: LogCursor(seq: seq, batch: batch))
    }

    // MARK: Trees

    /// Keeps a tree whole, so that feeds which are not far behind it can be taken over quickly, and drops those that no feed needs.
    func keep(_ tree: TreeVersion, of namespace: Int64) throws {
        try connection.saveSnapshot(namespace, at: tree.seq, tree.root, for: .feed)
        try connection.dropFeedSnapshots(namespace)
    }

    // MARK: Dead letters

    /// A feed's dead letters in order, those after a place: so many, or 8 MiB of them as they are written.
    public func deadLetters(_ name: FeedName, after: FeedPosition?, limit: Int) throws -> [FeedDeadLetter] {
        let record = try feed(name)
        let letters = try connection.feedLetters(
            record.namespaceID, record.id, states: ["dead"],
            after: after.map { ($0.seq, $0.index, $0.isSnapshot) }, limit: limit,
            mostBytes: Int64(Self.mostLetterBytes)
        ).map { FeedDeadLetter($0.letter, since: $0.since) }
        return FeedDeadLetter.page(letters, mostBytes: Self.mostLetterBytes)
    }

    /// Has dead letters delivered once more. Returns how many there were.
    public func retry(_ name: FeedName, _ selection: LogConnection.LetterSelection) throws -> Int64 {
        let record = try feed(name)
        return try connection.retryLetters(record.namespaceID, record.id, selection)
    }

    /// Drops dead letters. Returns how many there were.
    public func drop(_ name: FeedName, _ selection: LogConnection.LetterSelection) throws -> Int64 {
        let record = try feed(name)
        return try connection.dropLetters(record.namespaceID, record.id, selection)
    }

    /// How feeds fare, as the database knows it; those that are gone are left out.
    func statuses(of feeds: [FeedRecord]) throws -> [(feed: FeedName, status: FeedStatusRecord)] {
        let statuses = try connection.feedStatuses(feeds.map(\.id))
        return feeds.compactMap { feed in
            statuses[feed.id].map { (FeedName(namespace: feed.namespace, name: feed.name), $0) }
        }
    }

    /// How a feed fares, as the database knows it.
    public func status(_ name: FeedName) throws -> FeedStatusRecord {
        let record = try feed(name)
        guard let status = try connection.feedStatus(record.namespaceID, record.id) else {
            throw try absence(of: name)
        }
        return status
    }
}

/// A message that is not delivered any more.
public struct FeedDeadLetter: Sendable {
    /// The message with its attempts, the errors and the time when it was given up, as JSON.
    public let json: [UInt8]
    /// The key by which the feed orders.
    public let key: String
    public let attempts: Int
    /// Why the last attempt failed.
    public let lastReason: String
    /// When it was given up, as RFC 3339 in UTC.
    public let deadAt: String
    private let position: FeedPosition

    init(_ record: FeedLetterRecord, since: String) {
        let failures = FeedFailure.read(record.errors)
        key = record.key
        attempts = record.attempts
        lastReason = failures.last?.reason ?? ""
        deadAt = since
        position = FeedPosition(seq: record.seq, index: record.index, isSnapshot: record.isSnapshot)
        var json = Array(StoredMessage.bounded(record.message ?? Array("{}".utf8)).dropLast())
        if json.count > 1 { json.append(UInt8(ascii: ",")) }
        json += Array("\"attempts\":\(record.attempts),\"errors\":".utf8)
        json += FeedFailure.json(failures)
        json += Array(",\"dead_at\":\"\(since)\"}".utf8)
        self.json = json
    }

    /// The message's id in its namespace.
    public func id(in namespace: String) -> String { position.id(in: namespace) }

    /// The first of some letters whose JSON has at most so many bytes together; at least one.
    static func page(_ letters: [FeedDeadLetter], mostBytes: Int) -> [FeedDeadLetter] {
        var left = mostBytes
        let count = letters.prefix { letter in
            // With the comma before the next.
            left -= letter.json.count + 1
            return left >= 0
        }.count
        return Array(letters.prefix(max(1, count)))
    }
}

/// Why something can't be done with a feed.
public enum FeedError: Error, Sendable, Equatable, CustomStringConvertible {
    case unknownFeed(FeedName)
    /// The caller's token is for another feed that had the name before.
    case notAdmitted(FeedName)
    /// The namespace is on its way to another database, or there already: whoever comes again finds its feeds where it is then.
    case moving(String)
    case pruned(wanted: Int64, oldest: Int64)
    case tooManyFeeds(Int)
    /// Messages of one can't be delivered by the other: their ids would mean other records.
    case differentPaths(String, String)

    public var description: String {
        switch self {
        case .unknownFeed(let name): "There is no feed \"\(name.name)\" in the database \"\(name.namespace)\"."
        case .notAdmitted(let name): "The token is not for this feed \"\(name.name)\"."
        case .moving(let namespace): "The namespace \"\(namespace)\" moves to another database. Try again later."
        case .pruned(let wanted, let oldest):
            "Entry \(wanted) is not in the log any more; the oldest is \(oldest). {\"seq\":\(oldest - 1)} begins with that one, \"snapshot\" with the tree as it is."
        case .tooManyFeeds(let most): "A database has at most \(most) feeds."
        case .differentPaths(let one, let other):
            "Feed \"\(other)\" has another path than \"\(one)\": it can't deliver its messages."
        }
    }
}

/// Which feed of a name a caller may consume: another one may have been made under the name since.
public enum FeedAccess: Sendable, Hashable {
    /// Whichever feed has the name.
    case any
    /// The feed with this id, as a UUID's text.
    case id(String)
    /// One that was there at this time, in seconds since 1970.
    case since(Int64)

    /// Whether a feed may be consumed.
    ///
    /// - Parameter createdAt: seconds since 1970.
    public func admits(uid: String, createdAt: Int64) -> Bool {
        switch self {
        case .any: true
        case .id(let id): id == uid
        case .since(let time): createdAt <= time
        }
    }
}
