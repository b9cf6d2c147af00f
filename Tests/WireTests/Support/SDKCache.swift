import TestSupport
import Testing
import Tree

@testable import Wire

/// The state of one listen in the Java, Android and Apple SDKs, following their public behaviour (rtdb-protocol 3.7):
/// how they hash the ranges of a value, read the ranges of a message, and apply them.
struct SDKCache {
    var value: Node
    /// The order in which children of a node are changed, which in SDKs is the order of their sets.
    var random: SeededGenerator

    init(_ value: Node, seed: UInt64) {
        self.value = value
        random = SeededGenerator(seed: seed)
    }

    // MARK: Hashing

    /// Returns the hashes of the ranges. A range ends with a leaf, not with a priority, that makes its text longer than
    /// `partBytes`.
    ///
    /// The priority of a node is visited before the first key that sorts after `.priority`. It is not visited if there
    /// is no such key.
    func compoundHash(partBytes: Int) throws -> CompoundHash {
        var posts: [Path] = []
        var hashes: [String] = []
        var text = ModelText()
        var last: Path?
        for row in ModelRows(value).rows where !row.path.namesPriority || isVisited(row.path) {
            text.append(row)
            last = row.path
            guard text.byteCount > partBytes, !row.path.namesPriority else { continue }
            posts.append(row.path)
            hashes.append(text.hash)
            (text, last) = (ModelText(), nil)
        }
        if let last {
            posts.append(last)
            hashes.append(text.hash)
        }
        return try #require(CompoundHash(posts: posts, hashes: hashes + [""]))
    }

    private func isVisited(_ priority: Path) -> Bool {
        guard let parent = priority.parent, case .branch(let branch) = value[parent] else { return true }
        return branch.children.contains { Key.priority < $0.key }
    }

    // MARK: Reading

    /// Returns a value as SDKs read it: nodes without leaves are null, even with a priority.
    static func read(_ json: RawJSON) -> Node {
        guard let members = json.members else { return leaf(json) }
        let priority = members.first { $0.key == ".priority" }.map { leaf($0.value) } ?? .null
        if let value = members.first(where: { $0.key == ".value" }) { return leaf(value.value).withPriority(priority) }
        let children = members.filter { !$0.key.hasPrefix(".") }.map { (Key($0.key), read($0.value)) }
        return Node(children: children, priority: priority)
    }

    private static func leaf(_ json: RawJSON) -> Node { (try? JSONParser.parse(json.text).node) ?? .null }

    // MARK: Applying

    /// Applies the ranges of an `rm` message in order, given as the JSON text of its `d`.
    mutating func apply(_ ranges: RawJSON) {
        for range in ranges.elements ?? [] {
            let fields = MessageFields(range.members ?? [])
            let merge = Merge(
                start: fields.string("s").map { Path(splitting: $0).keys },
                end: fields.string("e").map { Path(splitting: $0).keys })
            value = merge.apply(fields["m"].map(Self.read) ?? .null, to: value, at: [], &random)
        }
    }

    private struct Merge {
        let start: [Key]?
        let end: [Key]?

        /// Returns `node` at `path` after the merge, for which the message contains `news`.
        func apply(_ news: Node, to node: Node, at path: [Key], _ random: inout SeededGenerator) -> Node {
            let isPastStart = start.map { Self.isBefore($0, path) } ?? true
            let holdsStart = start.map { Self.begins($0, with: path) } ?? false
            let holdsEnd = end.map { Self.begins($0, with: path) } ?? false
            if isPastStart, !holdsEnd {
                // The node is completely inside the range or completely after it.
                return end.map { Self.isBefore(path, $0) } ?? true ? news : node
            }
            if isPastStart, Self.isLeaf(news) { return news }
            // At the end, a leaf is deleted, and data below it is outside the range.
            if isPastStart, path == end { return Self.isLeaf(node) ? .null : node }
            guard holdsStart || holdsEnd else { return node }
            var changed = node
            for key in Set(keys(of: node) + keys(of: news)).sorted().shuffled(using: &random) {
                let child = node[Path([key])]
                let next = apply(news[Path([key])], to: child, at: path + [key], &random)
                if next != child { changed = Self.replacing(key, in: changed, with: next) }
            }
            // An empty node has no priority, and a node that was emptied on the way has lost its own.
            return includes(path + [.priority]) ? changed.withPriority(news.priority) : changed
        }

        private func includes(_ path: [Key]) -> Bool {
            start.map { Self.isBefore($0, path) } ?? true && end.map { !Self.isBefore($0, path) } ?? true
        }

        private static func isLeaf(_ node: Node) -> Bool {
            if case .branch = node { return false }
            return !node.isNull
        }

        private func keys(of node: Node) -> [Key] {
            guard case .branch(let branch) = node else { return [] }
            return branch.children.map(\.key)
        }

        /// Replaces a child. A leaf that gets children keeps its priority; a node without children is null.
        private static func replacing(_ key: Key, in node: Node, with child: Node) -> Node {
            var children: [(Key, Node)] = []
            if case .branch(let branch) = node {
                children = branch.children.filter { $0.key != key }.map { ($0.key, $0.node) }
            } else if child.isNull {
                return node
            }
            if !child.isNull { children.append((key, child)) }
            return Node(children: children, priority: children.isEmpty ? .null : node.priority)
        }

        private static func begins(_ path: [Key], with prefix: [Key]) -> Bool {
            path.count >= prefix.count && zip(path, prefix).allSatisfy { $0 == $1 }
        }

        private static func isBefore(_ path: [Key], _ other: [Key]) -> Bool {
            for (first, second) in zip(path, other) where first != second { return first < second }
            return path.count < other.count
        }
    }
}
