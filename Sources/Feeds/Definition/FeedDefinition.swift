import JSONText
import Rules
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

/// A feed, as requests name it.
public struct FeedName: Sendable, Hashable, CustomStringConvertible {
    public let namespace: String
    public let name: String

    public init(namespace: String, name: String) {
        self.namespace = namespace
        self.name = name
    }

    public var description: String { "\(namespace)/\(name)" }
}

/// A feed's filter: an expression of the rules language that says of a change whether it becomes a message. Pure; any thread.
///
/// `data` is the record before the change and `newData` the record after it; the pattern's captures are variables (`$order_id`), `root` and
/// `now` are as in rules. An expression that fails, such as one that compares a text with a number, says no.
public struct FeedFilter: Sendable {
    /// The expression, as the definition has it.
    public let text: String
    private let rules: RuleSet
    /// The expression is compiled for this pattern.
    private let pattern: PathPattern

    init(_ text: String, for pattern: PathPattern) throws(RulesError) {
        rules = try RuleSet(.write, text, at: pattern)
        self.text = text
        self.pattern = pattern
    }

    /// Whether it names `auth`. Nobody is there when a filter is evaluated, so that it would always be null.
    var asksWhoWrites: Bool { rules.surroundings.contains(.auth) }

    /// Whether the change of the record at a path becomes a message.
    ///
    /// - Parameter now: when the change was committed, in milliseconds since 1970: what a filter says must not depend on when it is asked.
    func admits(_ path: Path, before: Node, after: Node, now: Int64) -> Bool {
        rules.mayWrite(
            CollectionOfOne(path), root: before, newRoot: after, auth: .unauthenticated, now: now
        ).isAllowed
    }
}

extension FeedFilter: Equatable {
    /// Compares the expressions and the patterns.
    public static func == (first: FeedFilter, second: FeedFilter) -> Bool {
        first.text == second.text && first.pattern == second.pattern
    }
}

/// Where a feed's messages go by themselves.
public enum FeedDestination: Sendable, Equatable {
    case webhook(WebhookDefinition)
    case nats(NATSDefinition)
    case kafka(KafkaDefinition)

    /// The members of a feed's definition that say so, of which it has one at most.
    static let members = ["webhook", "nats", "kafka"]

    /// Reads one of the members; nil, and the mistakes noted, where it is none.
    static func read(
        _ member: String, _ value: SourceValue, in form: DefinitionForm, problems: inout [DefinitionError.Problem]
    ) -> FeedDestination? {
        switch member {
        case "webhook": WebhookDefinition.read(value, in: form, problems: &problems).map { .webhook($0) }
        case "nats": NATSDefinition.read(value, in: form, problems: &problems).map { .nats($0) }
        case "kafka": KafkaDefinition.read(value, in: form, problems: &problems).map { .kafka($0) }
        default: nil
        }
    }

    /// Writes the member into an object that has others before it.
    func write(_ writer: inout JSONWriter, as form: DefinitionForm) {
        switch self {
        case .webhook(let definition):
            writer.writeKey("webhook", isFirst: false)
            definition.write(&writer, as: form)
        case .nats(let definition):
            writer.writeKey("nats", isFirst: false)
            definition.write(&writer, as: form)
        case .kafka(let definition):
            writer.writeKey("kafka", isFirst: false)
            definition.write(&writer, as: form)
        }
    }
}

extension FeedDefinition {
    /// The operations that change data.
    static let allOperations = Tree.Operation.allCases.filter { $0 != .rules }

    /// The definition as JSON, complete: with what was left out, in a fixed order, so that equal definitions have equal texts.
    ///
    public func json(as form: DefinitionForm) -> [UInt8] {
        var writer = JSONWriter(form: .export, reserving: 512)
        writer.beginObject()
        writer.writeKey("path", isFirst: true)
        writer.writeString(pattern.description)
        writer.writeKey("operations", isFirst: false)
        writer.writeWords(Self.allOperations.filter { operations?.contains($0) ?? true }.map(\.rawValue))
        writer.writeKey("events", isFirst: false)
        writer.writeWords(Event.allCases.filter(events.contains).map(\.rawValue))
        if let filter {
            writer.writeKey("filter", isFirst: false)
            writer.writeString(filter.text)
        }
        writer.writeKey("include", isFirst: false)
        writer.writeWords(Part.allCases.filter(include.contains).map(\.rawValue))
        writer.writeKey("record_depth", isFirst: false)
        writer.writeInteger(Int64(recordDepth))
        writer.writeKey("start", isFirst: false)
        writeStart(&writer)
        for (name, word) in [("order", order.rawValue), ("on_dead", deadPolicy.rawValue)] {
            writer.writeKey(name, isFirst: false)
            writer.writeString(word)
        }
        writer.writeKey("max_attempts", isFirst: false)
        writer.writeInteger(Int64(maxAttempts))
        writer.writeKey("backoff", isFirst: false)
        writer.beginObject()
        writer.writeDuration("first", firstBackoffMilliseconds, as: form, isFirst: true)
        writer.writeDuration("max", maxBackoffMilliseconds, as: form)
        writer.endObject()
        writer.writeDuration("ack_deadline", ackDeadlineMilliseconds, as: form)
        writer.writeKey("retention", isFirst: false)
        writer.writeString(TimeSpan.text(retentionSeconds * 1_000))
        writer.writeKey("when_retention_ends", isFirst: false)
        writer.writeString(retentionPolicy.rawValue)
        destination?.write(&writer, as: form)
        writer.endObject()
        return writer.bytes
    }

    private func writeStart(_ writer: inout JSONWriter) {
        switch start {
        case .now: writer.writeString("now")
        case .beginning: writer.writeString("beginning")
        case .snapshot: writer.writeString("snapshot")
        case .seq(let seq):
            writer.beginObject()
            writer.writeKey("seq", isFirst: true)
            writer.writeInteger(seq)
            writer.endObject()
        case .time(let time):
            writer.beginObject()
            writer.writeKey("time", isFirst: true)
            writer.writeString(time)
            writer.endObject()
        }
    }
}

extension JSONWriter {
    /// A list of texts.
    mutating func writeWords(_ words: [String]) {
        raw("[")
        for (index, word) in words.enumerated() {
            if index > 0 { raw(",") }
            writeString(word)
        }
        raw("]")
    }
}
