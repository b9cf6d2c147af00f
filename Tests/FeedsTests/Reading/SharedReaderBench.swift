import LogStore
import Runtime
import Tree

@testable import Feeds

/// Shared readers without a log: feeds, entries, and their expected messages, computed with the enumerator alone.
enum SharedReaderBench {
    /// Returns a feed with a budget of `room` messages.
    static func feed(
        _ id: Int64, _ pattern: String, room: Int = 1_000_000, failedMessages: [FeedPosition: FailedMessage] = [:],
        _ change: (inout FeedDefinition) throws -> Void = { _ in }
    ) throws -> SharedReaderFeed {
        var definition = FeedDefinition(name: "f\(id)", pattern: try PathPattern(pattern))
        try change(&definition)
        return SharedReaderFeed(
            claim: FeedClaim(namespace: 1, feed: id, worker: [], generation: 1), matcher: FeedMatcher(definition),
            window: FeedWindow(room: room, bytes: 1 << 30), failedMessages: failedMessages)
    }

    static func set(_ seq: Int64, _ path: String, _ value: Node) -> Entry {
        let path = Path(splitting: path)
        return Entry(
            seq: seq, committedAt: 1_000 * seq, operation: .set, path: path,
            changes: [Change(path: path, value: value)])
    }

    /// Returns a node with `count` children, each with its number as value.
    static func wide(_ count: Int) -> Node {
        Node(children: (0..<count).map { (Key("k\($0)"), Node.int(Int64($0))) })
    }

    static func after(_ entry: Entry, _ root: Node) -> Node {
        entry.changes.reduce(root) { $0.replacing($1.path, with: $1.value) }
    }

    /// Passes an entry as a reader does. Returns the findings of feeds that stay and of those that leave.
    static func pass(_ reader: inout SharedReader, _ entry: Entry) -> (found: [FoundMessages], left: [SharedReader]) {
        var findings = reader.feeds.map { FoundMessages(claim: $0.claim) }
        let left = reader.pass(
            entry, at: LogPosition(seq: entry.seq), after: after(entry, reader.root), paths: entry.changes.map(\.path),
            &findings)
        return (findings + reader.takePartial(), left)
    }

    /// Returns all messages of a feed in these entries.
    static func messages(_ feed: SharedReaderFeed, _ entries: [Entry], from root: Node = .null) -> [FeedMessage] {
        var root = root
        var found: [FeedMessage] = []
        for entry in entries {
            let next = after(entry, root)
            let facts = EntryFacts(entry)
            var records = RecordEnumerator(feed.matcher.definition.pattern, before: root, after: next, paths: nil)
            var index: Int64 = 0
            while let change = records.nextChange() {
                let position = FeedPosition(seq: entry.seq, index: index)
                index += 1
                guard feed.matcher.takes(entry.operation),
                    let message = feed.matcher.message(change, at: position, of: facts, before: root, after: next)
                else { continue }
                found.append(message)
            }
            root = next
        }
        return found
    }

    static func texts(_ messages: [FeedMessage]) -> [String] {
        messages.map { String(decoding: $0.json(namespace: "test", attempt: nil), as: UTF8.self) }
    }

    /// Lets the dispatcher accept messages and report a budget of `room` more.
    static func takeIn(_ feed: SharedReaderFeed, _ count: Int, room: Int) {
        feed.window.take(count, bytes: 0)
        _ = feed.window.mayContinue(room: room, bytes: 1 << 30, enough: 1)
    }
}

extension FeedDefinition {
    /// Sets the filter.
    mutating func filter(_ text: String) throws { filter = try FeedFilter(text, for: pattern) }
}
