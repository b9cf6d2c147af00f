internal import JSONText

/// The form in which a value is written (reference: rtdb-protocol 6.4).
public enum JSONForm: Sendable, Hashable {
    /// Without priorities, and with arrays if the keys look like those of an array.
    case plain
    /// With priorities as `.value` and `.priority`, and without arrays. Used by sockets, exports and the log.
    case export
}

/// Writes values as JSON text into one growing buffer.
public struct JSONWriter: Sendable {
    public private(set) var bytes: [UInt8]
    /// The form of the values that follow.
    public var form: JSONForm
    private let isPretty: Bool
    private var indentation = 0

    public init(form: JSONForm, pretty: Bool = false, reserving capacity: Int = 0) {
        self.form = form
        isPretty = pretty
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    /// Returns the JSON text of a query's result (`writeObject`).
    public static func encodeObject(_ node: Node, form: JSONForm, pretty: Bool = false) -> [UInt8] {
        var writer = JSONWriter(form: form, pretty: pretty, reserving: min(estimate(node), 1 << 20))
        writer.writeObject(node)
        return writer.bytes
    }

    /// Returns a node's JSON text.
    public static func encode(_ node: Node, form: JSONForm, pretty: Bool = false) -> [UInt8] {
        var writer = JSONWriter(form: form, pretty: pretty, reserving: min(estimate(node), 1 << 20))
        writer.write(node)
        return writer.bytes
    }

    /// Estimates the size of a node's text in bytes, without walking the node. The estimate is exact for a string without
    /// escapes.
    static func estimate(_ node: Node) -> Int {
        if case .string(let text) = node { return text.utf8.count + 2 }
        return 32 + node.rowCount * 24
    }

    /// Writes a node as a value.
    public mutating func write(_ node: Node) {
        switch node {
        case .null: raw("null")
        case .bool(let value): raw(value ? "true" : "false")
        case .int(let value): writeInteger(value)
        case .double(let value): writeDouble(value)
        case .string(let text): writeString(text)
        case .prioritized(let leaf):
            guard form == .export else { return write(leaf.value) }
            open(UInt8(ascii: "{"))
            writeKey(".value", isFirst: true)
            write(leaf.value)
            writeKey(".priority", isFirst: false)
            write(leaf.priority)
            close(UInt8(ascii: "}"))
        case .branch(let branch): write(branch)
        case .serverValue(let value): write(value)
        }
    }

    private mutating func write(_ branch: Branch) {
        if form == .plain, let length = Self.arrayLength(branch.children) {
            open(UInt8(ascii: "["))
            var position = 0
            for entry in branch.children {
                let index = Int(entry.key.integerValue ?? 0)
                while position < index {
                    separate(isFirst: position == 0)
                    raw("null")
                    position += 1
                }
                separate(isFirst: position == 0)
                write(entry.node)
                position += 1
            }
            assert(position == length)
            close(UInt8(ascii: "]"))
            return
        }
        writeObject(branch)
    }

    /// Writes the children of a node as an object, even if their keys are those of an array. A node without children is `{}`.
    /// This is the form of a query's result. Values below the children may be arrays.
    public mutating func writeObject(_ node: Node) {
        guard case .branch(let branch) = node else {
            bytes.append(contentsOf: "{}".utf8)
            return
        }
        writeObject(branch)
    }

    private mutating func writeObject(_ branch: Branch) {
        open(UInt8(ascii: "{"))
        var isFirst = true
        branch.children.forEachEntry { entry in
            writeKey(entry.key.text, isFirst: isFirst)
            write(entry.node)
            isFirst = false
        }
        if form == .export, !branch.priority.isNull {
            writeKey(".priority", isFirst: isFirst)
            write(branch.priority)
        }
        close(UInt8(ascii: "}"))
    }

    private mutating func write(_ value: ServerValue) {
        switch value.kind {
        case .timestamp: raw("{\".sv\":\"timestamp\"}")
        case .increment(let delta):
            raw("{\".sv\":{\"increment\":")
            write(delta)
            raw("}}")
        }
    }

    /// Writes `{"a":true,…}` for a branch, or else the leaf alone: the response to `shallow=true`.
    public mutating func writeShallow(_ node: Node) {
        guard case .branch(let branch) = node else { return write(node.withoutPriority) }
        open(UInt8(ascii: "{"))
        var isFirst = true
        for entry in branch.children {
            writeKey(entry.key.text, isFirst: isFirst)
            raw("true")
            isFirst = false
        }
        close(UInt8(ascii: "}"))
    }

    /// Removes the text, and keeps the capacity.
    public mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    // MARK: Pieces, for callers that build an object of their own

    /// Opens an object. The caller writes keys and values, and then closes it.
    public mutating func beginObject() { open(UInt8(ascii: "{")) }
    /// Closes the object that was opened last.
    public mutating func endObject() { close(UInt8(ascii: "}")) }

    /// Writes a key, after a comma unless it is the first of its object.
    public mutating func writeKey(_ key: String, isFirst: Bool) {
        separate(isFirst: isFirst)
        writeString(key)
        raw(isPretty ? " : " : ":")
    }

    /// Writes a path's text as a key, after a comma unless it is the first of its object.
    public mutating func writeKey(_ path: Path, isFirst: Bool) {
        separate(isFirst: isFirst)
        bytes.append(UInt8(ascii: "\""))
        if path.isRoot { bytes.append(UInt8(ascii: "/")) }
        for key in path.keys {
            bytes.append(UInt8(ascii: "/"))
            key.text.withBytes { writeUnquoted($0) }
        }
        raw(isPretty ? "\" : " : "\":")
    }

    /// Appends JSON text.
    public mutating func append(_ json: [UInt8]) { bytes.append(contentsOf: json) }

    /// Appends JSON text from a buffer.
    public mutating func append(_ json: UnsafeRawBufferPointer) { bytes.append(contentsOf: json) }

    /// Inserts text at an offset. Moves all bytes after it.
    public mutating func insert(_ text: StaticString, at index: Int) {
        bytes.insert(
            contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount), at: index)
    }

    /// Appends text that is already JSON.
    public mutating func raw(_ text: StaticString) {
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private mutating func open(_ bracket: UInt8) {
        bytes.append(bracket)
        indentation += 1
    }

    private mutating func close(_ bracket: UInt8) {
        indentation -= 1
        if isPretty { newLine() }
        bytes.append(bracket)
    }

    private mutating func separate(isFirst: Bool) {
        if !isFirst { bytes.append(UInt8(ascii: ",")) }
        if isPretty { newLine() }
    }

    private mutating func newLine() {
        bytes.append(0x0A)
        for _ in 0..<indentation * 2 { bytes.append(0x20) }
    }

    // MARK: Scalars

    /// Writes an integer as a value.
    public mutating func writeInteger(_ value: Int64) {
        if value >= 0, value < 10 {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value))
            return
        }
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var start = digits.count
            var rest = value.magnitude
            while rest > 0 {
                start -= 1
                digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            }
            if value < 0 {
                start -= 1
                digits[start] = UInt8(ascii: "-")
            }
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: digits[start...]))
        }
    }

    /// Writes the shortest text that reads back as the same double. Beyond 64-bit integers it always has an exponent or a
    /// fraction, because the Java SDK reads any string of digits as a long (reference: rtdb-protocol 6.5).
    private mutating func writeDouble(_ value: Double) {
        bytes.append(contentsOf: value.description.utf8)
    }

    /// Writes a text as a JSON string, with escapes.
    public mutating func writeString(_ text: String) {
        text.withBytes { writeText($0) }
    }

    /// Writes UTF-8 text as a JSON string, with escapes.
    public mutating func writeString(utf8 text: UnsafeRawBufferPointer) {
        text.withMemoryRebound(to: UInt8.self) { writeText($0) }
    }

    @inline(__always)
    private mutating func writeText(_ buffer: UnsafeBufferPointer<UInt8>) {
        var seen: UInt64 = 0
        let end = ByteScan.endOfPlainText(buffer, from: 0, andDelete: true, seen: &seen)
        if end < buffer.count { return writeEscaped(buffer, firstAt: end) }
        // The array's capacity is checked once for the whole string.
        bytes.append(addingCapacity: buffer.count + 2) { output in
            output.append(UInt8(ascii: "\""))
            output.withUnsafeMutableBufferPointer { free, count in
                count += UnsafeMutableBufferPointer(rebasing: free[count...]).update(fromContentsOf: buffer)
            }
            output.append(UInt8(ascii: "\""))
        }
    }

    private mutating func writeEscaped(_ buffer: UnsafeBufferPointer<UInt8>, firstAt first: Int) {
        bytes.append(UInt8(ascii: "\""))
        writeUnquoted(buffer, firstAt: first)
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func writeUnquoted(_ buffer: UnsafeBufferPointer<UInt8>) {
        var seen: UInt64 = 0
        writeUnquoted(buffer, firstAt: ByteScan.endOfPlainText(buffer, from: 0, andDelete: true, seen: &seen))
    }

    /// - Parameter first: the offset of the first byte that must be escaped, or the end if there is none.
    private mutating func writeUnquoted(_ buffer: UnsafeBufferPointer<UInt8>, firstAt first: Int) {
        var seen: UInt64 = 0
        var start = 0
        var end = first
        while end < buffer.count {
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: buffer[start..<end]))
            escape(buffer[end])
            start = end + 1
            end = ByteScan.endOfPlainText(buffer, from: start, andDelete: true, seen: &seen)
        }
        bytes.append(contentsOf: UnsafeBufferPointer(rebasing: buffer[start...]))
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""): raw("\\\"")
        case UInt8(ascii: "\\"): raw("\\\\")
        case 0x0A: raw("\\n")
        case 0x0D: raw("\\r")
        case 0x09: raw("\\t")
        default:
            raw("\\u00")
            let digits: StaticString = "0123456789abcdef"
            bytes.append(digits.utf8Start[Int(byte >> 4)])
            bytes.append(digits.utf8Start[Int(byte & 15)])
        }
    }

    /// Returns the length of the array as which clients read the children, or nil if they read an object. All keys of an array
    /// are canonical indices, and more than half of the indices are present (reference: rtdb-protocol 6.4).
    public static func arrayLength(_ children: ChildMap) -> Int? {
        guard let first = children.first, isIndex(first.key), let last = children.last, isIndex(last.key),
            let highest = last.key.integerValue, Int(highest) < 2 * children.count
        else { return nil }
        for entry in children where !isIndex(entry.key) { return nil }
        return Int(highest) + 1
    }

    /// Whether the key matches `0|[1-9][0-9]*`.
    private static func isIndex(_ key: Key) -> Bool {
        let text = key.text.utf8
        guard let first = text.first, first &- 0x30 <= 9, first != 0x30 || text.count == 1 else { return false }
        return text.allSatisfy { $0 &- 0x30 <= 9 }
    }
}
