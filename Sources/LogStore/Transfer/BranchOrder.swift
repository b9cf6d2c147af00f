/// Sorts rows from the byte order of their paths into the order of their branches, in which all rows below a node come
/// before the node's next sibling, and a leaf's priority directly after the leaf.
///
/// The two orders differ only if a key contains, after its first character, a character below the slash: `/a-b` comes
/// before `/a/c` in byte order, and after it in branch order. From such a row on, rows are held until the rows with the
/// same path up to that character end, and are then sorted. Memory is bounded: if more rows would have to be held, an
/// error is thrown.
struct BranchOrder {
    /// Too many rows would have to be held: they must be sorted elsewhere.
    struct TooMany: Error {}

    /// The paths and values of the held rows, concatenated.
    private var bytes: [UInt8] = []
    private var rows: [Row] = []
    /// The number of bytes at the beginning of the first row's path that all held rows share.
    private var common = 0
    private let maxBytes: Int

    private struct Row {
        let start: Int
        let pathEnd: Int
        let end: Int
    }

    init(maxBytes: Int = 8 << 20) { self.maxBytes = maxBytes }

    /// Adds a row, and calls `body` with the rows whose order is final. Later rows come after them.
    mutating func add(
        _ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Void
    ) throws {
        if !rows.isEmpty {
            if belongs(path) { return try hold(path, value) }
            try drain(body)
        }
        guard let low = Self.lowCharacter(path) else { return try body(path, value) }
        common = low
        try hold(path, value)
    }

    /// Calls `body` with the held rows.
    mutating func drain(_ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Void) throws {
        guard !rows.isEmpty else { return }
        var held: [Row] = []
        swap(&held, &rows)
        try bytes.withUnsafeBytes { bytes in
            func path(_ row: Row) -> UnsafeRawBufferPointer { .init(rebasing: bytes[row.start..<row.pathEnd]) }
            held.sort { Self.isBefore(path($0), path($1)) }
            for row in held { try body(path(row), .init(rebasing: bytes[row.pathEnd..<row.end])) }
        }
        swap(&held, &rows)
        forget()
    }

    /// Discards the held rows.
    mutating func forget() {
        rows.removeAll(keepingCapacity: true)
        bytes.removeAll(keepingCapacity: true)
    }

    private mutating func hold(_ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws {
        // The first row is always held: the caller had it in memory already.
        guard rows.isEmpty || bytes.count + rows.count * MemoryLayout<Row>.stride < maxBytes else { throw TooMany() }
        let start = bytes.count
        bytes.append(contentsOf: path)
        let pathEnd = bytes.count
        bytes.append(contentsOf: value)
        rows.append(Row(start: start, pathEnd: pathEnd, end: bytes.count))
    }

    /// Whether a row begins like the held rows, and continues with a character not above the slash.
    private func belongs(_ path: UnsafeRawBufferPointer) -> Bool {
        guard path.count > common, path[common] <= UInt8(ascii: "/") else { return false }
        return bytes.withUnsafeBytes { bytes in
            UnsafeRawBufferPointer(rebasing: bytes[..<common])
                .elementsEqual(UnsafeRawBufferPointer(rebasing: path[..<common]))
        }
    }

    /// Returns the index of the first character inside a key that sorts below the slash. The first character of a key
    /// does not matter, because no key is empty.
    private static func lowCharacter(_ path: UnsafeRawBufferPointer) -> Int? {
        var before = UInt8(ascii: "/")
        var index = 0
        while index < path.count {
            let byte = path[index]
            if byte < UInt8(ascii: "/"), before != UInt8(ascii: "/") { return index }
            before = byte
            index += 1
        }
        return nil
    }

    private static func isBefore(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        let most = min(left.count, right.count)
        var index = 0
        while index < most, left[index] == right[index] { index += 1 }
        guard index < most else { return left.count < right.count }
        if left[index] == UInt8(ascii: "/") { return true }
        return right[index] != UInt8(ascii: "/") && left[index] < right[index]
    }
}
