public import Tree

/// The bytes by which a store orders paths: each key followed by a zero byte. A node's descendants come directly after
/// it, without other nodes in between.
///
/// A zero byte within a key becomes 1, 2, and a one becomes 1, 3 (no key that may be stored has either). The
/// pseudo-child `.priority` is 1, 1, so that it comes before all children.
public enum RowPath {
    static let priority: [UInt8] = [1, 1, 0]

    /// Returns the bytes of a path; none for the root.
    public static func encode(_ path: Path) -> [UInt8] {
        var bytes: [UInt8] = []
        for key in path.keys { append(key, to: &bytes) }
        return bytes
    }

    /// Appends the bytes of a child's key.
    public static func append(_ key: Key, to bytes: inout [UInt8]) {
        if key == .priority {
            bytes += priority
            return
        }
        var text = key.text
        text.withUTF8 { characters in
            bytes.reserveCapacity(bytes.count + characters.count + 1)
            for character in characters {
                if character > 1 {
                    bytes.append(character)
                } else {
                    bytes.append(1)
                    bytes.append(character + 2)
                }
            }
        }
        bytes.append(0)
    }

    /// Returns the first bytes after everything at and below a path other than the root.
    public static func end(_ bytes: [UInt8]) -> [UInt8] {
        var end = bytes
        if !end.isEmpty { end[end.count - 1] = 1 }
        return end
    }

    /// Clients cannot have deeper paths; trees of unlimited depth would overflow the stack.
    static let maxDepth = KeyRules.maxDepth + 8

    /// Reads a path; returns nil for invalid bytes.
    public static func decode(_ bytes: UnsafeRawBufferPointer) -> Path? {
        var path = Path()
        var start = 0
        while start < bytes.count {
            guard path.depth < maxDepth else { return nil }
            guard let end = bytes[start...].firstIndex(of: 0), let key = key(bytes, start..<end) else { return nil }
            path.append(key)
            start = end + 1
        }
        return path
    }

    /// Returns the key whose bytes are in the range; nil for invalid bytes.
    public static func key(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Key? {
        let part = UnsafeRawBufferPointer(rebasing: bytes[range])
        if !part.contains(where: { $0 < 2 }) { return Key(String(decoding: part, as: UTF8.self)) }
        var plain: [UInt8] = []
        var index = 0
        while index < part.count {
            if part[index] == 1 {
                guard index + 1 < part.count else { return nil }
                switch part[index + 1] {
                case 1: return part.count == 2 ? .priority : nil
                case 2, 3: plain.append(part[index + 1] - 2)
                default: return nil
                }
                index += 2
            } else {
                plain.append(part[index])
                index += 1
            }
        }
        return Key(String(decoding: plain, as: UTF8.self))
    }
}
