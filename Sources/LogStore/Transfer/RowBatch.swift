public import Tree

/// Rows of a tree to be sent to the database, stored in one buffer. A pack is sent with one COPY and is one part of a
/// log entry.
public struct RowBatch: Sendable {
    /// Paths and values as JSON, concatenated.
    private(set) var bytes: [UInt8] = []
    /// The offsets in `bytes` at which each row's path and value end. The next row begins where the value ends.
    private var ends: [(path: Int, value: Int)] = []
    private var writer = JSONWriter(form: .plain)
    private let bytesWanted: Int
    private let rowsWanted: Int

    /// - Parameters:
    ///   - bytes: the number of bytes at which the pack is full.
    ///   - rows: the number of rows at which the pack is full.
    public init(bytes: Int, rows: Int? = nil) {
        bytesWanted = bytes
        rowsWanted = rows ?? .max
        self.bytes.reserveCapacity(bytes + 4_096)
    }

    public var count: Int { ends.count }
    public var isEmpty: Bool { ends.isEmpty }
    /// Whether the pack has reached one of its limits. Rows can still be added.
    public var isFull: Bool { bytes.count >= bytesWanted || ends.count >= rowsWanted }

    /// Appends the row of one leaf or priority.
    public mutating func append(_ path: [UInt8], _ value: Node) {
        bytes.append(contentsOf: path)
        let pathEnd = bytes.count
        writer.removeAll()
        writer.write(value)
        bytes.append(contentsOf: writer.bytes)
        ends.append((pathEnd, bytes.count))
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
    }

    /// Calls `body` with the path and the value as JSON of each of these rows. The memory belongs to the pack.
    func forEach<Failure: Error>(
        _ rows: Range<Int>,
        _ body: (_ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        try bytes.withUnsafeBufferPointer { (buffer) throws(Failure) in
            let all = UnsafeRawBufferPointer(buffer)
            var start = rows.lowerBound == 0 ? 0 : ends[rows.lowerBound - 1].value
            for end in ends[rows] {
                try body(
                    UnsafeRawBufferPointer(rebasing: all[start..<end.path]),
                    UnsafeRawBufferPointer(rebasing: all[end.path..<end.value]))
                start = end.value
            }
        }
    }
}
