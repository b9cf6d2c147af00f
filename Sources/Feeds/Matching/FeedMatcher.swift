import LogStore
import Rules
import Tree

/// Turns the changes of an entry into messages, according to a feed's definition. Pure.
///
/// A message's index counts all records that match the pattern and that the entry has changed, including those that become no
/// message. A changed filter therefore does not change message ids.
struct FeedMatcher: Sendable {
    let definition: FeedDefinition
    private let captures: [String]

    init(_ definition: FeedDefinition) {
        self.definition = definition
        captures = definition.pattern.captures
    }

    /// Returns whether entries with this operation can become messages.
    func takes(_ operation: Tree.Operation) -> Bool { definition.operations?.contains(operation) ?? true }

    /// Returns the message for a record that an entry has changed, or nil if the definition excludes it.
    ///
    /// - Parameters:
    ///   - before: The whole tree before the entry.
    ///   - after: The whole tree after the entry.
    func message(_ change: RecordDifference, at position: FeedPosition, of entry: EntryFacts, before: Node, after: Node)
        -> FeedMessage?
    {
        let event: FeedDefinition.Event =
            change.before.isNull ? .created : change.after.isNull ? .deleted : .updated
        guard definition.events.contains(event) else { return nil }
        let author = entry.author
        if let filter = definition.filter,
            !filter.admits(change.path, before: before, after: after, author: author, now: entry.committedAt)
        {
            return nil
        }
        let keys = definition.pattern.capturedKeys(of: change.path)
        return FeedMessage(
            position: position, key: keys.count == 1 ? keys[0].text : keys.map(\.text).joined(separator: "/"),
            content: .change(
                FeedMessage.Change(
                    path: change.path, captures: captures, keys: keys, operation: entry.operation, event: event,
                    value: definition.include.contains(.value) ? change.after : nil,
                    old: definition.include.contains(.old) ? change.before : nil,
                    record: definition.include.contains(.record)
                        ? after[change.path.prefix(definition.recordDepth)] : nil,
                    committedAt: entry.committedAt, author: author)))
    }
}

/// The facts about an entry that its messages contain.
struct EntryFacts: Sendable {
    /// The operation in the log, or `snapshot`.
    let operation: String
    /// The time of the commit, in milliseconds since 1970.
    let committedAt: Int64
    /// The author as the log records it. Parsed only for messages.
    private let origin: Origin?

    init(_ entry: Entry) {
        operation = entry.operation.rawValue
        committedAt = entry.committedAt
        origin = entry.origin
    }

    /// The facts about the messages of a snapshot, whose records have many authors.
    init(snapshotAt time: Int64) {
        operation = "snapshot"
        committedAt = time
        origin = nil
    }

    var author: EntryAuthor { EntryAuthor(of: origin) }
}
