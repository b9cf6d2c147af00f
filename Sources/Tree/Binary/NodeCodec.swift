/// The binary form of values: exact, without escapes, and read in one pass.
///
/// A value begins with a tag: 0 null, 1 false, 2 true, 3 integer, 4 double, 5 text, 6 children, 7 priority and value, 8 the
/// server's time, 9 increment; 0x40 to 0x7F a text of 0 to 63 bytes; 0x80 to 0xFF the integers 0 to 127.
public enum NodeCodec {
    /// The deepest value that can be read. No client can write deeper values, and damaged bytes must not overflow the stack.
    private static let maxDepth = KeyRules.maxDepth + 8

    /// Returns the bytes of a value.
    public static func encode(_ node: Node) -> [UInt8] {
        var writer = ByteWriter()
        _ = write(node, to: &writer, limit: .max)
        return writer.bytes
    }

    /// Returns the bytes of a value, or nil if they exceed the limit. Stops writing soon after the limit is passed.
    public static func encode(_ node: Node, limit: Int) -> [UInt8]? {
        var writer = ByteWriter()
        return write(node, to: &writer, limit: limit) && writer.bytes.count <= limit ? writer.bytes : nil
    }

    /// Reads a value. Returns nil if the bytes are not those of exactly one value.
    public static func decode(_ bytes: UnsafeRawBufferPointer) -> Node? {
        var reader = ByteReader(bytes)
        guard let node = read(&reader, depth: 0), reader.isAtEnd else { return nil }
        return node
    }

    // MARK: Writing

    /// Appends a value. Returns false if it stopped because the limit was passed.
    public static func write(_ node: Node, to writer: inout ByteWriter, limit: Int) -> Bool {
        switch node {
        case .null: writer.byte(0)
        case .bool(let value): writer.byte(value ? 2 : 1)
        case .int(let value):
            if value >= 0, value < 0x80 {
                writer.byte(0x80 | UInt8(truncatingIfNeeded: value))
            } else {
                writer.byte(3)
                writer.signed(value)
            }
        case .double(let value):
            writer.byte(4)
            writer.double(value)
        case .string(let text): return write(text, to: &writer, limit: limit)
        case .prioritized(let leaf):
            writer.byte(7)
            return write(leaf.priority, to: &writer, limit: limit) && write(leaf.value, to: &writer, limit: limit)
        case .serverValue(let value):
            switch value.kind {
            case .timestamp: writer.byte(8)
            case .increment(let delta):
                writer.byte(9)
                return write(delta, to: &writer, limit: limit)
            }
        case .branch(let branch):
            if !branch.priority.isNull {
                writer.byte(7)
                guard write(branch.priority, to: &writer, limit: limit) else { return false }
            }
            writer.byte(6)
            writer.varint(UInt64(branch.children.count))
            for entry in branch.children {
                guard writer.bytes.count <= limit else { return false }
                writer.text(entry.key.text)
                guard write(entry.node, to: &writer, limit: limit) else { return false }
            }
        }
        return true
    }

    private static func write(_ text: String, to writer: inout ByteWriter, limit: Int) -> Bool {
        let count = text.utf8.count
        guard writer.bytes.count + count <= limit else { return false }
        if count < 0x40 {
            writer.byte(0x40 | UInt8(truncatingIfNeeded: count))
            writer.raw(text)
        } else {
            writer.byte(5)
            writer.text(text)
        }
        return true
    }

    // MARK: Reading

    /// Reads the next value. Returns nil if the bytes do not begin with a value.
    ///
    /// - Parameter depth: the number of values that contain this one.
    public static func read(_ reader: inout ByteReader, depth: Int) -> Node? {
        var keys: KeyCache?
        return read(&reader, depth: depth, &keys)
    }

    /// - Parameter keys: makes equal keys share one text.
    static func read(_ reader: inout ByteReader, depth: Int, _ keys: inout KeyCache?) -> Node? {
        switch reader.peek {
        case 6:
            _ = reader.byte()
            return children(&reader, priority: .null, depth: depth, &keys)
        case 7:
            _ = reader.byte()
            guard let priority = leaf(&reader), !priority.isNull else { return nil }
            if reader.peek == 6 {
                _ = reader.byte()
                return children(&reader, priority: priority, depth: depth, &keys)
            }
            guard let leaf = leaf(&reader), !leaf.isNull else { return nil }
            return leaf.withPriority(priority)
        default: return leaf(&reader)
        }
    }

    /// Reads a value that contains no other value except the number of an increment.
    private static func leaf(_ reader: inout ByteReader) -> Node? {
        guard let tag = reader.byte() else { return nil }
        switch tag {
        case 0x80...: return .int(Int64(tag & 0x7F))
        case 0x40..<0x80: return reader.text(Int(tag & 0x3F)).map { .string($0) }
        case 0: return .null
        case 1: return .bool(false)
        case 2: return .bool(true)
        case 3: return reader.signed().map { .int($0) }
        case 4: return reader.double().flatMap { $0.isFinite ? Node(number: $0) : nil }
        case 5: return reader.text().map { .string($0) }
        case 8: return .serverValue(ServerValue(.timestamp))
        case 9:
            guard let next = reader.peek, next == 3 || next == 4 || next >= 0x80 else { return nil }
            return leaf(&reader).map { .serverValue(ServerValue(.increment($0))) }
        default: return nil
        }
    }

    private static func children(
        _ reader: inout ByteReader, priority: Node, depth: Int, _ keys: inout KeyCache?
    ) -> Node? {
        guard depth <= maxDepth, let count = reader.count() else { return nil }
        var entries = ContiguousArray<ChildMap.Entry>()
        entries.reserveCapacity(count)
        for _ in 0..<count {
            guard let key = key(&reader, &keys), let node = read(&reader, depth: depth + 1, &keys) else { return nil }
            entries.append(.init(key: key, node: node))
        }
        return Node(sorting: &entries, priority: priority)
    }

    private static func key(_ reader: inout ByteReader, _ keys: inout KeyCache?) -> Key? {
        guard let count = reader.count(), let raw = reader.raw(count) else { return nil }
        let bytes = raw.assumingMemoryBound(to: UInt8.self)
        let make = { Key(String(decoding: bytes, as: UTF8.self)) }
        // Short keys need no memory of their own.
        guard count > 15, KeyCache.isWorthKeeping(bytes) else { return make() }
        return keys?.key(of: bytes, make) ?? make()
    }
}
