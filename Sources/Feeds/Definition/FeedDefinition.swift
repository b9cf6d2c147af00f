import JSONText
import Rules
public import Runtime
public import Tree

/// The definition of a feed: which changes become messages, the content of the messages, and how they are delivered.
public struct FeedDefinition: Sendable, Equatable {
    /// The kind of change to a record.
    public enum Event: String, Sendable, CaseIterable {
        case created, updated, deleted
    }

    /// A part of the tree that a message contains.
    public enum Part: String, Sendable, CaseIterable {
        /// The record after the change.
        case value
        /// The record before the change.
        case old
        /// The whole value at the first `recordDepth` parts of the record's path.
        case record
    }

    /// The log position at which a new feed begins.
    public enum Start: Sendable, Equatable {
        case now
        case beginning
        /// The current tree, followed by every later change.
        case snapshot
        case seq(Int64)
        /// A time in a format that PostgreSQL reads.
        case time(String)
    }

    /// The scope within which messages are delivered in order.
    public enum Order: String, Sendable, CaseIterable {
        /// Each key's messages are delivered in order.
        case key
        /// All messages of the feed are delivered in order: one consumer at a time holds messages.
        case namespace
    }

    /// The handling of a key's later messages once one of its messages is a dead letter.
    public enum DeadPolicy: String, Sendable, CaseIterable {
        /// Delivers the later messages.
        case `continue`
        /// Sets the later messages aside until the dead letter is retried or dropped.
        case stop
    }

    /// The action when a feed has held back pruning for longer than its retention.
    public enum RetentionPolicy: String, Sendable, CaseIterable {
        case alarm, drop
    }

    public var name: String
    /// The namespace, if a definition file states it.
    public var namespace: String?
    public var pattern: PathPattern
    /// The operations of the log that become messages, or nil for all.
    public var operations: Set<Tree.Operation>?
    public var events: Set<Event>
    /// The filter, compiled once when the definition is read.
    public var filter: FeedFilter?
    public var include: Set<Part>
    /// The number of pattern parts that lead to the value that `include` calls `record`.
    public var recordDepth: Int
    public var start: Start
    public var order: Order
    public var maxAttempts: Int
    /// The pause before the second attempt. It doubles with each attempt, up to `maxBackoffMilliseconds`.
    public var firstBackoffMilliseconds: Milliseconds
    public var maxBackoffMilliseconds: Milliseconds
    /// How long a consumer may hold a message.
    public var ackDeadlineMilliseconds: Milliseconds
    public var deadPolicy: DeadPolicy
    /// How long the feed may hold back pruning of the log.
    public var retentionSeconds: Int64
    public var retentionPolicy: RetentionPolicy
    /// The destination to which the gateway pushes messages, or nil if consumers pull them.
    public var destination: FeedDestination?

    /// Creates a definition with the default of every member.
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

    /// The kind of event that functions receive from the feed: the only event that the definition selects, or `written`.
    var functionEvent: FirebaseEvent.Kind {
        switch events {
        case [.created]: .created
        case [.updated]: .updated
        case [.deleted]: .deleted
        default: .written
        }
    }

    /// Returns whether both definitions give messages the same positions, so that progress under one also holds for the other.
    public func numbersMessagesLike(_ other: FeedDefinition) -> Bool { pattern == other.pattern }
}

extension PathPattern {
    /// The number of parts up to and including the last capture, or the number of all parts if the pattern has no capture.
    public var lastCaptureDepth: Int {
        (parts.lastIndex { if case .capture = $0 { true } else { false } }).map { $0 + 1 } ?? depth
    }

    /// Returns the keys that the pattern captures from a path, in order.
    public func capturedKeys(of path: Path) -> [Key] {
        zip(parts, path.keys).compactMap { part, key in
            if case .capture = part { key } else { nil }
        }
    }
}

/// A feed's namespace and name, as requests state them.
public struct FeedName: Sendable, Hashable, CustomStringConvertible {
    public let namespace: String
    public let name: String

    public init(namespace: String, name: String) {
        self.namespace = namespace
        self.name = name
    }

    public var description: String { "\(namespace)/\(name)" }
}

/// A feed's filter: an expression of the rules language that decides whether a change becomes a message. Pure; usable on any thread.
///
/// `data` is the record before the change and `newData` the record after it. The pattern's captures are variables (`$order_id`);
/// `root` and `now` have the meaning that they have in rules, and `auth` is the author of the entry. An expression that fails, for
/// example by comparing a string with a number, counts as false.
public struct FeedFilter: Sendable {
    /// The expression's source text.
    public let text: String
    private let rules: RuleSet
    /// The pattern for which the expression is compiled.
    private let pattern: PathPattern
    private let namesAuthor: Bool

    init(_ text: String, for pattern: PathPattern) throws(RulesError) {
        rules = try RuleSet(.write, text, at: pattern)
        namesAuthor = rules.surroundings.contains(.auth)
        self.text = text
        self.pattern = pattern
    }

    /// Returns whether the change of the record at a path becomes a message.
    ///
    /// - Parameters:
    ///   - author: The author of the entry. The rules language calls it `auth`.
    ///   - now: The time of the commit, in milliseconds since 1970, so that the result does not depend on the time of evaluation.
    func admits(_ path: Path, before: Node, after: Node, author: EntryAuthor, now: Int64) -> Bool {
        rules.mayWrite(
            CollectionOfOne(path), root: before, newRoot: after,
            auth: namesAuthor ? AuthContext(auth: author.node) : .unauthenticated, now: now
        ).isAllowed
    }
}

extension FeedFilter: Equatable {
    /// Compares the expressions and the patterns.
    public static func == (first: FeedFilter, second: FeedFilter) -> Bool {
        first.text == second.text && first.pattern == second.pattern
    }
}

/// The destination to which the gateway pushes a feed's messages.
public enum FeedDestination: Sendable, Equatable {
    case webhook(WebhookDefinition)
    case nats(NATSDefinition)
    case kafka(KafkaDefinition)

    /// The members of a feed definition that state a destination. A definition contains at most one of them.
    static let members = ["webhook", "nats", "kafka"]

    /// Reads a destination member. Returns nil and notes the mistakes if the member is invalid.
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

    /// Writes the member into an object that already contains other members.
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
    /// All operations before namespaces could follow an upstream. A definition that names all of them was stored without a
    /// choice, so it means all operations.
    static let formerOperations = Set(allOperations).subtracting([.upstream, .resync])

    /// Returns the complete definition as JSON. Omitted members are written with their defaults, in a fixed order, so that equal
    /// definitions have equal texts.
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
    /// Writes a list of strings.
    mutating func writeWords(_ words: [String]) {
        raw("[")
        for (index, word) in words.enumerated() {
            if index > 0 { raw(",") }
            writeString(word)
        }
        raw("]")
    }
}
