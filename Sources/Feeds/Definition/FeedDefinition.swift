public import Runtime
public import Tree

/// What a feed is: which changes become messages, what they hold, and how they are delivered.
public struct FeedDefinition: Sendable, Equatable {
    /// What happened to a record.
    public enum Event: String, Sendable, CaseIterable {
        case created, updated, deleted
    }

    /// What of the tree a message holds.
    public enum Part: String, Sendable, CaseIterable {
        /// The record after the change.
        case value
        /// The record before it.
        case old
        /// The whole value at the record's first so many keys.
        case record
    }

    /// Where a feed begins when it is made.
    public enum Start: Sendable, Equatable {
        case now
        case beginning
        /// The tree as it is, and then what changes it.
        case snapshot
        case seq(Int64)
        /// A time as PostgreSQL reads it.
        case time(String)
    }

    /// What is delivered in order.
    public enum Order: String, Sendable, CaseIterable {
        /// The messages of each key.
        case key
        /// All messages of the feed: one consumer at a time has some.
        case namespace
    }

    /// What becomes of a key one of whose messages is a dead letter.
    public enum DeadPolicy: String, Sendable, CaseIterable {
        /// Its later messages are delivered.
        case `continue`
        /// Its later messages are set aside until the dead letter is tried again or dropped.
        case stop
    }

    /// What happens when a feed has held back pruning for longer than its retention.
    public enum RetentionPolicy: String, Sendable, CaseIterable {
        case alarm, drop
    }

    public var name: String
    /// Where a definition file says it.
    public var namespace: String?
    public var pattern: PathPattern
    /// Nil for all.
    public var operations: Set<Tree.Operation>?
    public var events: Set<Event>
    /// Compiled once, when the definition is read.
    public var filter: FeedFilter?
    public var include: Set<Part>
    /// How many parts of the pattern lead to the record that `include` means by `record`.
    public var recordDepth: Int
    public var start: Start
    public var order: Order
    public var maxAttempts: Int
    /// The pause before the second attempt; it doubles up to `maxBackoffMilliseconds`.
    public var firstBackoffMilliseconds: Milliseconds
    public var maxBackoffMilliseconds: Milliseconds
    /// How long a consumer may hold a message.
    public var ackDeadlineMilliseconds: Milliseconds
    public var deadPolicy: DeadPolicy
    /// How long the feed may hold back pruning.
    public var retentionSeconds: Int64
    public var retentionPolicy: RetentionPolicy
    /// Where messages go by themselves; nil where consumers fetch them.
    public var destination: FeedDestination?

    /// A definition with every default.
    public init(name: String, pattern: PathPattern) {
        self.name = name
        self.pattern = pattern
        events = Set(Event.allCases)
        include = [.value]
        recordDepth = pattern.lastCaptureDepth
        start = .now
        order = .key
        maxAttempts = 10
        firstBackoffMilliseconds = 1_000
        maxBackoffMilliseconds = 60_000
        ackDeadlineMilliseconds = 30_000
        deadPolicy = .continue
        retentionSeconds = 7 * 86_400
        retentionPolicy = .alarm
    }

    /// Whether messages of one definition are at the same places as those of the other, so that progress made by one holds for
    /// the other.
    public func numbersMessagesLike(_ other: FeedDefinition) -> Bool { pattern == other.pattern }
}

extension PathPattern {
    /// The number of parts up to the last capture; all of them where there is none.
    public var lastCaptureDepth: Int {
        (parts.lastIndex { if case .capture = $0 { true } else { false } }).map { $0 + 1 } ?? depth
    }

    /// The keys that a place of the pattern captures, in order.
    public func capturedKeys(of path: Path) -> [Key] {
        zip(parts, path.keys).compactMap { part, key in
            if case .capture = part { key } else { nil }
        }
    }
}
