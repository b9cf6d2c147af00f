internal import Tree

/// The store's binary form of a pending write's content, with a checksum, so that a damaged write is not sent.
public enum WriteCodec {
    /// Returns the bytes of a write's content. The checksum covers its number and path.
    public static func encode(_ write: PendingWrite) -> [UInt8] {
        var writer = ByteWriter()
        let named: UInt8 = write.name == nil ? 0 : Self.named
        switch write.content {
        case .overwrite(let node):
            writer.byte(named)
            if let name = write.name { writer.text(name.text) }
            _ = NodeCodec.write(node, to: &writer, limit: .max)
        case .merge(let changes):
            writer.byte(named + 1)
            if let name = write.name { writer.text(name.text) }
            writer.varint(UInt64(changes.count))
            for change in changes {
                writer.varint(UInt64(change.path.depth))
                for key in change.path.keys { writer.text(key.text) }
                _ = NodeCodec.write(change.value, to: &writer, limit: .max)
            }
        }
        var bytes = writer.bytes
        let sum = bytes.withUnsafeBytes { checkSum($0, of: write.id, at: RowPath.encode(write.path)) }
        withUnsafeBytes(of: sum.littleEndian) { bytes.append(contentsOf: $0) }
        return bytes
    }

    /// Reads a write; returns nil for invalid bytes, or if number or path differ.
    public static func decode(
        _ bytes: UnsafeRawBufferPointer, id: WriteID, path: UnsafeRawBufferPointer
    ) -> PendingWrite? {
        guard bytes.count > 8, let decodedPath = RowPath.decode(path) else { return nil }
        let content = UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count - 8)])
        let sum = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: content.count, as: UInt64.self))
        guard sum == checkSum(content, of: id, at: Array(path)) else { return nil }
        var reader = ByteReader(content)
        guard let kind = reader.byte() else { return nil }
        var name: WriteName?
        if kind >= named {
            name = reader.text().flatMap { WriteName($0) }
            if name == nil { return nil }
        }
        guard let decoded = self.content(kind % named, &reader), reader.isAtEnd else { return nil }
        return PendingWrite(id: id, path: decodedPath, content: decoded, name: name)
    }

    /// Added to the kind of content if the name precedes it.
    private static let named: UInt8 = 2

    private static func content(_ kind: UInt8, _ reader: inout ByteReader) -> PendingWrite.Content? {
        switch kind {
        case 0: return NodeCodec.read(&reader, depth: 0).map { .overwrite($0) }
        case 1:
            guard let count = reader.count() else { return nil }
            var changes: [Change] = []
            for _ in 0..<count {
                guard let depth = reader.count(), depth <= RowPath.maxDepth else { return nil }
                var path = Path()
                for _ in 0..<depth {
                    guard let key = reader.text() else { return nil }
                    path.append(Key(key))
                }
                guard let value = NodeCodec.read(&reader, depth: 0) else { return nil }
                changes.append(Change(path: path, value: value))
            }
            return .merge(changes)
        default: return nil
        }
    }

    /// FNV-1a, 64 bits. It detects damage, not manipulation.
    private static func checkSum(_ bytes: UnsafeRawBufferPointer, of id: WriteID, at path: [UInt8]) -> UInt64 {
        var sum: UInt64 = 0xCBF2_9CE4_8422_2325
        func add(_ byte: UInt8) { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01B3 }
        withUnsafeBytes(of: id.rawValue.littleEndian) { for byte in $0 { add(byte) } }
        for byte in path { add(byte) }
        for byte in bytes { add(byte) }
        return sum
    }
}
