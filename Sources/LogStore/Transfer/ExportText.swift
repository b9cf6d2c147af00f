import Tree

/// Makes one JSON text in export form of stored rows that come in the order of their branches.
///
/// Each path is compared with the one before as bytes: what both have in common is open already. No key is ever taken out
/// of its path.
struct ExportText {
    private var output = JSONWriter(form: .export)
    /// The path of the row before, and where its slashes are: one for each open object.
    private var last: [UInt8] = []
    private var slashes: [Int] = []
    /// Where the value of the row before begins, if that is a leaf whose priority may follow.
    private var leaf: Int?
    private var isEmpty = true

    private static let priority = Array("/.priority".utf8)

    /// Adds a row. The path is seen from what is exported: nothing for that itself, else a slash and keys.
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

    /// Closes what is open.
    mutating func finish() {
        leaf = nil
        for _ in slashes { output.raw("}") }
        slashes.removeAll()
        if isEmpty { output.raw("null") }
        output.raw("\n")
    }

    /// How many bytes of text wait to be taken.
    var byteCount: Int { output.bytes.count }

    /// Hands the text over that is there so far. The leaf that was added last must be complete: its priority can't follow
    /// any more.
    mutating func take(_ body: ([UInt8]) throws -> Void) rethrows {
        try body(output.bytes)
        output.removeAll()
        leaf = nil
    }

    /// Whether a row is the priority of the leaf before it.
    func continuesLeaf(_ path: UnsafeRawBufferPointer) -> Bool {
        leaf != nil && isPriorityOfLast(path, sharedBytes(path))
    }

    /// Closes the objects that a path is not in, opens those that it is in, and writes its last key.
    private mutating func goTo(_ path: UnsafeRawBufferPointer, _ shared: Int) {
        var isFirst = slashes.isEmpty
        while let slash = slashes.last, slash >= shared {
            slashes.removeLast()
            // The row before ends in the innermost of these objects, and each object has a member.
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
