/// Brings rows that come in the order of their paths' bytes into the order of their branches, in which all that is below a
/// node comes before the node's next sibling, and a leaf's priority right behind the leaf.
///
/// The two differ only where a key goes on with a character below the slash: `/a-b` comes before `/a/c` as bytes, and
/// behind it as branches. From such a row on, rows are held until those that begin like what is before that character are
/// over, and sorted. Memory is bounded: what would hold more is refused.
struct BranchOrder {
    /// What has to be sorted elsewhere: more rows than are held.
    struct TooMany: Error {}

    /// The paths and values of the rows that are held, one after another.
    private var bytes: [UInt8] = []
    private var rows: [Row] = []
    /// So many bytes of the first row's path begin every row that is held.
    private var common = 0
    private let maxBytes: Int

    private struct Row {
        let start: Int
        let pathEnd: Int
        let end: Int
    }

    init(maxBytes: Int = 8 << 20) { self.maxBytes = maxBytes }

    /// Takes a row, and hands over those that are in order now: what comes later, comes behind them.
    mutating func add(
        _ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Void
    ) throws {
        if !rows.isEmpty {
            if belongs(path) { return try hold(path, value) }
            try drain(body)
        }
        guard let place = Self.lowCharacter(path) else { return try body(path, value) }
        common = place
        try hold(path, value)
    }

    /// Hands over what is held.
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

    /// Lets go of what is held.
    mutating func forget() {
        rows.removeAll(keepingCapacity: true)
        bytes.removeAll(keepingCapacity: true)
    }

    private mutating func hold(_ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) throws {
        // One row alone is always held: it had to be in memory to come here.
        guard rows.isEmpty || bytes.count + rows.count * MemoryLayout<Row>.stride < maxBytes else { throw TooMany() }
        let start = bytes.count
        bytes.append(contentsOf: path)
        let pathEnd = bytes.count
        bytes.append(contentsOf: value)
        rows.append(Row(start: start, pathEnd: pathEnd, end: bytes.count))
    }

    /// Whether a row begins as those that are held do, and goes on with what is not above a slash.
    private func belongs(_ path: UnsafeRawBufferPointer) -> Bool {
        guard path.count > common, path[common] <= UInt8(ascii: "/") else { return false }
        return bytes.withUnsafeBytes { bytes in
            UnsafeRawBufferPointer(rebasing: bytes[..<common])
                .elementsEqual(UnsafeRawBufferPointer(rebasing: path[..<common]))
        }
    }

    /// Where a key first goes on with a character that sorts below the slash. A key's first character does no harm: no
    /// key is empty.
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
