/// The bytes of a page: the number of its children, then for each its key and its value as `NodeCodec` writes it.
enum PageCodec {
    /// Writes the children of a slab without pages in it.
    static func encode(_ slab: ChildMap.Slab, to writer: inout ByteWriter) {
        writer.varint(UInt64(slab.count))
        ChildMap(root: slab).forEachEntry { entry in
            writer.text(entry.key.text)
            _ = NodeCodec.write(entry.node, to: &writer, limit: .max)
        }
    }

    /// Nil where these are not the bytes of a page.
    static func decode(_ bytes: UnsafeRawBufferPointer) -> ChildMap.Slab? {
        var reader = ByteReader(bytes)
        guard let count = reader.count(), count > 0 else { return nil }
        var entries = ContiguousArray<ChildMap.Entry>()
        entries.reserveCapacity(count)
        var keys: KeyCache? = KeyCache()
        for _ in 0..<count {
            guard let key = reader.text(), let node = NodeCodec.read(&reader, depth: 0, &keys) else { return nil }
            entries.append(.init(key: Key(key), node: node))
        }
        return reader.isAtEnd ? ChildMap.Slab.build(entries) : nil
    }
}
