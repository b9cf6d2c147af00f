import LogStore
import TestSupport
import Testing
import Tree

/// The trees at each entry of a namespace's log, each derived from the previous one and cached.
final class LogTrees {
    /// The trees by seq.
    private var roots: [Node] = [.null]
    /// The entries after the first tree.
    private var entries: [Entry] = []

    /// Returns the tree at an entry. The log must contain all entries up to it.
    func tree(_ log: LogConnection, _ namespace: Int64, at seq: Int64) throws -> Node {
        while roots.count <= Int(seq) {
            let page = try log.read(namespace, after: Int64(roots.count) - 1, through: seq)
            try #require(page.first?.entry.seq == Int64(roots.count), "the log has no entry \(roots.count)")
            for logged in page {
                roots.append(try after(logged.entry, log, namespace))
                entries.append(logged.entry)
            }
        }
        return roots[Int(seq)]
    }

    /// Calls `body` with each entry up to `last`, and the tree after it.
    func forEach(
        _ log: LogConnection, _ namespace: Int64, through last: Int64, _ body: (Entry, Node) throws -> Void
    ) throws {
        _ = try tree(log, namespace, at: last)
        for index in 0..<Int(last) { try body(entries[index], roots[index + 1]) }
    }

    private func after(_ entry: Entry, _ log: LogConnection, _ namespace: Int64) throws -> Node {
        var root = roots[roots.count - 1]
        for change in entry.changes { root = root.replacing(change.path, with: change.value) }
        guard entry.isBulk else { return root }
        try log.forEachPart(namespace, of: entry.seq) { (changes) throws(LogStoreError) in
            for change in changes { root = root.replacing(change.path, with: change.value) }
        }
        return root
    }
}
