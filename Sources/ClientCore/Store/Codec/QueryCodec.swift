public import Tree

/// The store's binary form of a query's order, bounds and limit.
public enum QueryCodec {
    /// Returns the bytes of a query; equal queries have equal bytes.
    public static func encode(_ query: Query) -> [UInt8] {
        var writer = ByteWriter()
        switch query.index {
        case .key: writer.byte(0)
        case .value: writer.byte(1)
        case .priority: writer.byte(2)
        case .child(let path):
            writer.byte(3)
            writer.varint(UInt64(path.depth))
            for key in path.keys { writer.text(key.text) }
        }
        write(query.start, to: &writer)
        write(query.end, to: &writer)
        switch query.limit {
        case nil: writer.byte(0)
        case .first(let count):
            writer.byte(1)
            writer.varint(UInt64(max(0, count)))
        case .last(let count):
            writer.byte(2)
            writer.varint(UInt64(max(0, count)))
        }
        return writer.bytes
    }

    /// Reads a query; returns nil for invalid bytes.
    public static func decode(_ bytes: UnsafeRawBufferPointer) -> Query? {
        var reader = ByteReader(bytes)
        guard let index = index(&reader), let start = bound(&reader), let end = bound(&reader),
            let limit = limit(&reader), reader.isAtEnd
        else { return nil }
        return Query(index: index, start: start.bound, end: end.bound, limit: limit.limit)
    }

    private static func write(_ bound: Query.Bound?, to writer: inout ByteWriter) {
        guard let bound else { return writer.byte(0) }
        writer.byte(1 | (bound.isInclusive ? 2 : 0) | (bound.key == nil ? 0 : 4))
        _ = NodeCodec.write(bound.value.node, to: &writer, limit: .max)
        if let key = bound.key { writer.text(key.text) }
    }

    private static func index(_ reader: inout ByteReader) -> Query.Index? {
        switch reader.byte() {
        case 0: return .key
        case 1: return .value
        case 2: return .priority
        case 3:
            guard let depth = reader.count(), depth <= RowPath.maxDepth else { return nil }
            var path = Path()
            for _ in 0..<depth {
                guard let key = reader.text() else { return nil }
                path.append(Key(key))
            }
            return .child(path)
        default: return nil
        }
    }

    private static func bound(_ reader: inout ByteReader) -> (bound: Query.Bound?, Void)? {
        guard let flags = reader.byte(), flags < 8 else { return nil }
        if flags == 0 { return (nil, ()) }
        guard let value = NodeCodec.read(&reader, depth: 0) else { return nil }
        var key: Key?
        if flags & 4 != 0 {
            guard let text = reader.text() else { return nil }
            key = Key(text)
        }
        return (Query.Bound(value: .init(value), key: key, isInclusive: flags & 2 != 0), ())
    }

    private static func limit(_ reader: inout ByteReader) -> (limit: Query.Limit?, Void)? {
        guard let kind = reader.byte() else { return nil }
        if kind == 0 { return (nil, ()) }
        guard let count = reader.varint(), count <= UInt64(Int32.max) else { return nil }
        switch kind {
        case 1: return (.first(Int(count)), ())
        case 2: return (.last(Int(count)), ())
        default: return nil
        }
    }
}
