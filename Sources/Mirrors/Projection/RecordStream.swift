import Glibc
import LogStore
import Runtime
import Tree

/// Reads the records of a pattern from the tree's table, one after another. Memory holds one record.
enum RecordStream {
    /// - Parameters:
    ///   - above: the first captured keys, to read only the records below them.
    ///   - onRow: called for each row that is read, with its size in bytes.
    ///   - body: called with each record and the newest version among its rows.
    static func read(
        _ namespace: Int64, _ pattern: PathPattern, above captured: [Key], _ source: LogConnection,
        onRow: (Int) throws -> Void = { _ in }, _ body: ([Key], Node, Int64) throws -> Void
    ) throws {
        var gatherer = RecordGatherer(pattern)
        try source.forEachRow(namespace, below: pattern.path(above: captured)) { row in
            try onRow(row.path.count + row.value.count)
            try gatherer.take(row, body)
        }
        try gatherer.finish(body)
        // Records at paths so long that their rows are not adjacent are read one by one.
        for keys in gatherer.farAway {
            guard let (value, version) = try source.readSubtrees(namespace, [pattern.path(of: keys)]).first else {
                continue
            }
            if !value.isNull { try body(keys, value, version) }
        }
    }

    /// Passes the versions of all rows of those records to `body`, some more than once.
    static func versions(
        _ namespace: Int64, _ pattern: PathPattern, above captured: [Key], _ source: LogConnection,
        _ body: (Int64) -> Void
    ) throws {
        var last: Int64 = -1
        try source.forEachRow(namespace, below: pattern.path(above: captured)) { row in
            if row.version != last { body(row.version) }
            last = row.version
        }
    }
}

/// Builds records from rows in the order of their paths' bytes.
struct RecordGatherer: ~Copyable {
    private let pattern: PathPattern
    private var prefix: [UInt8] = []
    private var keys: [Key] = []
    private var builder = TreeBuilder()
    private var version: Int64 = 0
    /// Records that are leaves wait for their priority, because `/a b` sorts between `/a` and `/a/.priority`.
    private var leaves: [(prefix: [UInt8], keys: [Key], value: Node, version: Int64)] = []
    private(set) var farAway: Set<[Key]> = []

    init(_ pattern: PathPattern) { self.pattern = pattern }

    mutating func take(
        _ row: borrowing LogConnection.StoredRow, _ body: ([Key], Node, Int64) throws -> Void
    ) throws {
        let path = row.path
        let isSame =
            !prefix.isEmpty && path.count > prefix.count && path[prefix.count] == UInt8(ascii: "/")
            && prefix.withUnsafeBytes { Self.begins(path, $0) }
        if !isSame {
            try close(body)
            guard try begin(path, row, body) else { return }
        }
        let value = try JSONParser.parse(row.value)
        version = max(version, row.version)
        let rest = UnsafeRawBufferPointer(rebasing: path[prefix.count...])
        if row.isLong {
            builder.addUnordered(Path(splitting: String(decoding: rest, as: UTF8.self)), value)
        } else {
            builder.add(rest, value)
        }
    }

    mutating func finish(_ body: ([Key], Node, Int64) throws -> Void) throws {
        try close(body)
        try release(nil, body)
    }

    private static func begins(_ path: UnsafeRawBufferPointer, _ prefix: UnsafeRawBufferPointer) -> Bool {
        guard let start = path.baseAddress, let other = prefix.baseAddress else { return prefix.isEmpty }
        return memcmp(start, other, prefix.count) == 0
    }

    /// Starts the record that contains the path. Returns false if the row needs no more work: it is outside of the records, is
    /// a record that is a leaf, or sets the priority of such a record.
    private mutating func begin(
        _ path: UnsafeRawBufferPointer, _ row: borrowing LogConnection.StoredRow,
        _ body: ([Key], Node, Int64) throws -> Void
    ) throws -> Bool {
        try release(path, body)
        guard let (end, keys) = record(path) else { return false }
        if end + 1 > LogConnection.maxPlainPathBytes {
            farAway.insert(keys)
            return false
        }
        if end == path.count {
            leaves.append((Array(path), keys, try JSONParser.parse(row.value), row.version))
            return false
        }
        let prefix = Array(path[..<end])
        if let index = leaves.firstIndex(where: { $0.prefix == prefix }) {
            // The only row below a leaf is its priority.
            leaves[index].value = leaves[index].value.withPriority(try JSONParser.parse(row.value))
            leaves[index].version = max(leaves[index].version, row.version)
            return false
        }
        self.prefix = prefix
        self.keys = keys
        return true
    }

    /// Returns the end of the record's own path and its captured keys, or nil for a path above or beside the records.
    private func record(_ path: UnsafeRawBufferPointer) -> (end: Int, keys: [Key])? {
        var keys: [Key] = []
        var start = 0
        for part in pattern.parts {
            guard start < path.count else { return nil }
            var end = start + 1
            while end < path.count, path[end] != UInt8(ascii: "/") { end += 1 }
            let text = path[(start + 1)..<end]
            switch part {
            case .key(let key): guard text.elementsEqual(key.text.utf8) else { return nil }
            case .capture:
                // A root that is a leaf has the path "/", which contains no key.
                guard !text.isEmpty else { return nil }
                let key = Key(String(decoding: text, as: UTF8.self))
                if key == .priority { return nil }
                keys.append(key)
            }
            start = end
        }
        return (start, keys)
    }

    private mutating func close(_ body: ([Key], Node, Int64) throws -> Void) throws {
        guard !prefix.isEmpty else { return }
        let value = builder.finish()
        if !value.isNull { try body(keys, value, version) }
        prefix = []
        version = 0
    }

    /// Delivers the leaves whose priority would have arrived by now.
    private mutating func release(
        _ path: UnsafeRawBufferPointer?, _ body: ([Key], Node, Int64) throws -> Void
    ) throws {
        guard !leaves.isEmpty else { return }
        var kept: [(prefix: [UInt8], keys: [Key], value: Node, version: Int64)] = []
        for leaf in leaves {
            if let path, !(leaf.prefix + Array("/.priority".utf8)).lexicographicallyPrecedes(path) {
                kept.append(leaf)
            } else {
                try body(leaf.keys, leaf.value, leaf.version)
            }
        }
        leaves = kept
    }
}

/// Reads the records of a pattern in batches on a separate thread: the next batches are read while the previous ones become
/// rows.
enum RecordBatches {
    struct Record: Sendable {
        let keys: [Key]
        let value: Node
        /// The newest version among the record's rows.
        let version: Int64
    }

    /// The maximum size of a batch, in bytes of the table. A single record may exceed it.
    private static let bytesAtOnce = 1 << 20
    /// The number of batches that wait while one is processed.
    private static let waiting = 2
    private static let rowsBetweenLooks = 1_000

    /// - Parameters:
    ///   - source: must not be used otherwise until this function returns or throws. If it returns before all records were
    ///     read, the connection's transaction has failed.
    ///   - most: the maximum number of records in a batch.
    static func forEach(
        _ namespace: Int64, _ pattern: PathPattern, _ source: LogConnection, most: Int,
        _ body: ([Record]) throws -> Void
    ) throws {
        let batches = BoundedQueue<[Record]>(capacity: waiting)
        // Safe: only the thread uses the connection, and this function waits below until the thread has ended.
        nonisolated(unsafe) let source = source
        let thread = Thread(name: "records", isVital: false) {
            do {
                try read(namespace, pattern, source, most, batches)
                batches.end()
            } catch {
                batches.end(error)
            }
        }
        guard thread.isStarted else {
            throw NoThread()
        }
        defer {
            batches.leave()
            thread.join()
        }
        while let batch = try batches.next() { try body(batch) }
    }

    private static func read(
        _ namespace: Int64, _ pattern: PathPattern, _ source: LogConnection, _ most: Int,
        _ batches: BoundedQueue<[Record]>
    ) throws {
        var batch: [Record] = []
        var bytes = 0
        var rows = 0
        func hand() throws {
            guard batches.put(batch) else { throw Left() }
            batch = []
            bytes = 0
        }
        func note(_ size: Int) throws {
            bytes += size
            rows += 1
            if rows % rowsBetweenLooks == 0, batches.isLeft { throw Left() }
        }
        try RecordStream.read(namespace, pattern, above: [], source, onRow: note) { keys, value, version in
            batch.append(Record(keys: keys, value: value, version: version))
            if batch.count >= most || bytes >= bytesAtOnce { try hand() }
        }
        if !batch.isEmpty { try hand() }
    }

    private struct NoThread: Error, CustomStringConvertible {
        let description = "The thread that reads the tree could not be created: the system lacks memory or threads."
    }

    /// The consumer does not need the remaining batches.
    private struct Left: Error {}
}

/// Visits the records of a pattern in a value in memory.
enum RecordWalk {
    /// - Parameters:
    ///   - part: the part of the pattern at which the value is. The root's part is the first.
    ///   - keys: the keys captured above the value.
    static func each(
        _ pattern: PathPattern, in value: Node, at part: Int = 0, _ keys: [Key] = [],
        _ body: ([Key], Node) throws -> Void
    ) rethrows {
        var keys = keys
        try visit(value, pattern.parts.dropFirst(part), &keys, body)
    }

    private static func visit(
        _ node: Node, _ parts: ArraySlice<PathPattern.Part>, _ keys: inout [Key],
        _ body: ([Key], Node) throws -> Void
    ) rethrows {
        if node.isNull { return }
        guard let part = parts.first else { return try body(keys, node) }
        switch part {
        case .key(let key): try visit(node.child(key), parts.dropFirst(), &keys, body)
        case .capture:
            guard case .branch(let branch) = node else { return }
            for entry in branch.children {
                keys.append(entry.key)
                try visit(entry.node, parts.dropFirst(), &keys, body)
                keys.removeLast()
            }
        }
    }
}
