import Postgres
public import Tree

/// Writes the tree at and below a path as one JSON text in export form, in bounded memory, as of one moment.
public final class Exporter {
    private let connection: LogConnection
    private let namespace: NamespaceRecord
    private let path: Path
    private let send: ([UInt8]) throws -> Void
    private var output: [UInt8] = []
    private var keys = JSONWriter(form: .export)
    /// The open objects' keys, below the path.
    private var open: [[UInt8]] = []
    private var hasMembers: [Bool] = []
    /// A leaf whose priority, if it has one, is the next row.
    private var heldLeaf: (path: [[UInt8]], value: [UInt8])?
    public private(set) var rowCount = 0
    /// The seq that the export is of.
    public private(set) var seq: Int64 = 0

    private static let flushBytes = 256 * 1024

    /// - Parameter send: takes the text, piece by piece.
    public init(
        _ connection: LogConnection, _ namespace: NamespaceRecord, at path: Path,
        send: @escaping ([UInt8]) throws -> Void
    ) {
        self.connection = connection
        self.namespace = namespace
        self.path = path
        self.send = send
    }

    /// Runs the export; `progress` is told of rows now and then.
    public func run(progress: (Int) -> Void = { _ in }) throws {
        try connection.inReadTransaction {
            seq = try connection.postgres.execute(
                "select head from pathmirror.namespace where id = $1", [.int8(namespace.id)]
            ).int64(0, 0)
            try connection.forEachNode(namespace.id, atAndBelow: path) { text, value in
                try take(text, value)
                if rowCount % 10_000 == 0 { progress(rowCount) }
            }
        }
        try finish()
        progress(rowCount)
    }

    private func take(_ text: [UInt8], _ value: [UInt8]) throws {
        rowCount += 1
        let parts = text.split(separator: UInt8(ascii: "/")).dropFirst(path.depth).map { Array($0) }
        let isPriority = parts.last?.elementsEqual(".priority".utf8) ?? false
        if let leaf = heldLeaf {
            heldLeaf = nil
            if isPriority, parts.dropLast().elementsEqual(leaf.path) {
                write(
                    leaf.path, Array("{\".value\":".utf8) + leaf.value + Array(",\".priority\":".utf8) + value + [0x7D])
                return try flushIfFull()
            }
            write(leaf.path, leaf.value)
        }
        if isPriority { write(parts, value) } else { heldLeaf = (parts, value) }
        try flushIfFull()
    }

    private func write(_ parts: [[UInt8]], _ value: [UInt8]) {
        guard let last = parts.last else {
            // The path itself is a leaf.
            output.append(contentsOf: value)
            return
        }
        let parents = parts.dropLast()
        if hasMembers.isEmpty {
            output.append(UInt8(ascii: "{"))
            hasMembers.append(false)
        }
        var shared = 0
        while shared < open.count, shared < parents.count, open[shared] == parents[shared] { shared += 1 }
        while open.count > shared { closeLevel() }
        for key in parents[shared...] {
            member(key)
            output.append(UInt8(ascii: "{"))
            open.append(key)
            hasMembers.append(false)
        }
        member(last)
        output.append(contentsOf: value)
    }

    private func member(_ key: [UInt8]) {
        if hasMembers[hasMembers.count - 1] { output.append(contentsOf: [UInt8(ascii: ","), 0x0A]) }
        hasMembers[hasMembers.count - 1] = true
        keys.removeAll()
        keys.writeString(String(decoding: key, as: UTF8.self))
        output.append(contentsOf: keys.bytes)
        output.append(UInt8(ascii: ":"))
    }

    private func closeLevel() {
        open.removeLast()
        hasMembers.removeLast()
        output.append(UInt8(ascii: "}"))
    }

    private func finish() throws {
        if let leaf = heldLeaf { write(leaf.path, leaf.value) }
        while !open.isEmpty { closeLevel() }
        if !hasMembers.isEmpty { output.append(UInt8(ascii: "}")) }
        if rowCount == 0 { output.append(contentsOf: "null".utf8) }
        output.append(0x0A)
        try send(output)
        output.removeAll()
    }

    private func flushIfFull() throws {
        guard output.count >= Self.flushBytes else { return }
        try send(output)
        output.removeAll(keepingCapacity: true)
    }
}
