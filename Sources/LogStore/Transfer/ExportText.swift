import Tree

/// Builds a JSON text in export form from stored rows in branch order.
///
/// Each path is compared with the previous one as bytes: their common part is already open. Keys are not extracted from
/// paths.
struct ExportText {
    private var output = JSONWriter(form: .export)
    /// The path of the previous row, and the offsets of its slashes: one for each open object.
    private var last: [UInt8] = []
    private var slashes: [Int] = []
    /// The offset of the previous row's value if that row is a leaf whose priority may follow.
    private var leaf: Int?
    private var isEmpty = true

    private static let priority = Array("/.priority".utf8)

    /// Adds a row. The path is relative to the exported path: empty for the exported node itself, otherwise a slash and
    /// keys.
    mutating func add(_ path: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
        isEmpty = false
        let shared = sharedBytes(path)
        if let start = leaf, isPriorityOfLast(path, shared) {
            output.insert("{\".value\":", at: start)
            output.raw(",\".priority\":")
            output.append(value)
            output.raw("}")
            leaf = nil
            return
        }
        if !path.isEmpty { goTo(path, shared) }
        leaf = Self.namesPriority(path) ? nil : output.bytes.count
        output.append(value)
        last.replaceSubrange(shared..., with: path[shared...])
    }

    /// Closes the open objects.
    mutating func finish() {
        leaf = nil
        for _ in slashes { output.raw("}") }
        slashes.removeAll()
        if isEmpty { output.raw("null") }
        output.raw("\n")
    }

    /// The number of bytes of text not yet taken.
    var byteCount: Int { output.bytes.count }

    /// Calls `body` with the text so far. The last leaf must be complete, because its priority can't be added any more.
    mutating func take(_ body: ([UInt8]) throws -> Void) rethrows {
        try body(output.bytes)
        output.removeAll()
        leaf = nil
    }

    /// Whether a row is the priority of the previous row's leaf.
    func continuesLeaf(_ path: UnsafeRawBufferPointer) -> Bool {
        leaf != nil && isPriorityOfLast(path, sharedBytes(path))
    }

    /// Closes the objects that do not contain a path, opens those that do, and writes the path's last key.
    private mutating func goTo(_ path: UnsafeRawBufferPointer, _ shared: Int) {
        var isFirst = slashes.isEmpty
        while let slash = slashes.last, slash >= shared {
            slashes.removeLast()
            // The previous row ends in the innermost of these objects, so each object has a member.
            if slashes.isEmpty { isFirst = true } else { output.raw("}") }
        }
        if slashes.isEmpty {
            output.raw("{")
            slashes.append(0)
        }
        var start = (slashes.last ?? 0) + 1
        for index in max(start, shared)..<max(start, shared, path.count) where path[index] == UInt8(ascii: "/") {
            member(path, start..<index, isFirst)
            output.raw("{")
            slashes.append(index)
            start = index + 1
            isFirst = true
        }
        member(path, start..<path.count, isFirst)
    }

    private mutating func member(_ path: UnsafeRawBufferPointer, _ key: Range<Int>, _ isFirst: Bool) {
        if !isFirst { output.raw(",\n") }
        output.writeString(utf8: UnsafeRawBufferPointer(rebasing: path[key]))
        output.raw(":")
    }

    private func sharedBytes(_ path: UnsafeRawBufferPointer) -> Int {
        last.withUnsafeBytes { last in
            let most = min(last.count, path.count)
            var index = 0
            while index + 8 <= most {
                let difference =
                    last.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                    ^ path.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                if difference != 0 { return index + UInt64(littleEndian: difference).trailingZeroBitCount / 8 }
                index += 8
            }
            while index < most, last[index] == path[index] { index += 1 }
            return index
        }
    }

    private func isPriorityOfLast(_ path: UnsafeRawBufferPointer, _ shared: Int) -> Bool {
        shared == last.count && path.count == shared + Self.priority.count
            && path[shared...].elementsEqual(Self.priority)
    }

    private static func namesPriority(_ path: UnsafeRawBufferPointer) -> Bool {
        path.count >= priority.count && path[(path.count - priority.count)...].elementsEqual(priority)
    }
}
