public import Tree

/// Rows of a tree on their way into the database, one behind another in one piece of memory: what one COPY sends, and one part of
/// a log entry.
public struct RowPack: Sendable {
    /// Paths and values as JSON, each behind the other.
    private(set) var bytes: [UInt8] = []
    /// Where a row's path ends in `bytes`, and where its value does; the next row begins there.
    private var ends: [(path: Int, value: Int)] = []
    private var writer = JSONWriter(form: .plain)
    private let bytesWanted: Int
    private let rowsWanted: Int

    /// - Parameters:
    ///   - bytes: of how many the pack is full.
    ///   - rows: and of how many rows.
    public init(bytes: Int, rows: Int? = nil) {
        bytesWanted = bytes
        rowsWanted = rows ?? .max
        self.bytes.reserveCapacity(bytes + 4_096)
    }

    public var count: Int { ends.count }
    public var isEmpty: Bool { ends.isEmpty }
    /// Whether it has what it was made for. It takes more all the same.
    public var isFull: Bool { bytes.count >= bytesWanted || ends.count >= rowsWanted }

    /// Adds a row.
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

    /// Calls `body` with each of these rows: its path and its value as JSON, in memory that is the pack's.
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
