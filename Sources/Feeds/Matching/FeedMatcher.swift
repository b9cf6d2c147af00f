import Rules
import Tree

/// Turns what an entry has changed into messages, as a feed's definition says. Pure.
///
/// A message's number counts the records that the entry has changed at the pattern's places, whether they become messages or not: so a
/// changed filter gives no message another id.
struct FeedMatcher: Sendable {
    let definition: FeedDefinition
    private let captures: [String]

    init(_ definition: FeedDefinition) {
        self.definition = definition
        captures = definition.pattern.captures
    }

    /// Whether an entry of this operation can become messages.
    func takes(_ operation: Tree.Operation) -> Bool { definition.operations?.contains(operation) ?? true }

    /// The message of a record that an entry has changed; nil where the definition leaves it out.
    ///
    /// - Parameters:
    ///   - before: the whole tree before the entry.
    ///   - after: and after it.
    func message(_ change: RecordChange, at position: FeedPosition, of entry: EntryFacts, before: Node, after: Node)
        -> FeedMessage?
    {
        let event: FeedDefinition.Event =
            change.before.isNull ? .created : change.after.isNull ? .deleted : .updated
        guard definition.events.contains(event) else { return nil }
        if let filter = definition.filter,
            !filter.admits(change.path, before: before, after: after, now: entry.committedAt)
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
                    committedAt: entry.committedAt)))
    }
}

/// What messages say of the entry that they come from.
struct EntryFacts: Sendable {
    /// The log's operation, or `snapshot`.
    let operation: String
    /// In milliseconds since 1970.
    let committedAt: Int64
}
