import LogStore
import Postgres
import TestSupport
import Tree

/// Imports of random values.
enum RandomLoad {
    /// Runs an import at a random path, in one transaction or in chunks.
    static func load(_ url: PostgresURL, _ generator: inout MirrorGenerator) throws {
        let log = try LogConnection(url)
        defer { log.close() }
        guard let record = try log.namespace(named: "test") else { return }
        var settings = Importer.Settings()
        if generator.tree.random.oneIn(2) { settings.rowsPerChunk = 3 }
        let path = Path([Key("a"), Key("b"), Key("a")].prefix(generator.tree.random.below(4)).map { $0 })
        let importer = try Importer(log, record, at: path, settings: settings)
        var rows = Rows()
        var value = generator.tree.tree(depth: 4)
        if value.isNull { value = .int(1) }
        var diff = RowDiff(rows)
        diff.compare(.null, Node.null.replacing(path, with: value), changedAt: path)
        rows = diff.sink
        // As in a file, an object's priority follows its children.
        let isPriority = { (path: [UInt8]) in path.suffix(10).elementsEqual("/.priority".utf8) }
        do {
            for (path, value) in rows.all where !isPriority(path) { try importer.add(path, value) }
            for (path, value) in rows.all where isPriority(path) { try importer.add(path, value) }
            try importer.finish()
        } catch {
            // Another writer wrote in between. The import loaded a part, which suffices.
            importer.abandon()
        }
    }
}

private struct Rows: RowSink {
    var all: [([UInt8], Node)] = []
    mutating func row(_ path: [UInt8], old: Node, new: Node) { all.append((path, new)) }
}
