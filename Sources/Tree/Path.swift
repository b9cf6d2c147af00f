/// A place in the tree: the keys from the root down. The root is the empty path.
public struct Path: Sendable, Hashable, CustomStringConvertible {
    public private(set) var keys: [Key]

    @inlinable
    public init() { self.init([]) }

    public init(_ keys: [Key]) { self.keys = keys }

    /// Splits at slashes and drops empty parts, as every SDK does (reference: rtdb-protocol 2.2). No percent-decoding
    /// and no check of the keys.
    public init(splitting text: some StringProtocol) {
        // The names of an update's places are single keys, mostly.
        guard text.utf8.contains(0x2F) else {
            keys = text.isEmpty ? [] : [Key(String(text))]
            return
        }
        keys = text.utf8.split(separator: 0x2F).map { Key(String(decoding: $0, as: UTF8.self)) }
    }

    public static let root = Path()

    @inlinable public var isRoot: Bool { keys.isEmpty }
    @inlinable public var depth: Int { keys.count }
    @inlinable public var last: Key? { keys.last }
    @inlinable public subscript(index: Int) -> Key { keys[index] }

    /// The path one level up, or nil at the root.
    public var parent: Path? {
        keys.isEmpty ? nil : Path(Array(keys.dropLast()))
    }

    /// The path of a child.
    public func appending(_ key: Key) -> Path {
        var copy = self
        copy.keys.append(key)
        return copy
    }

    /// The path of what `other` leads to from here.
    public func appending(_ other: Path) -> Path {
        var copy = self
        copy.keys.append(contentsOf: other.keys)
        return copy
    }

    /// Goes on to a child.
    public mutating func append(_ key: Key) { keys.append(key) }
    /// Goes back to the parent. The root has none: the path must not be empty.
    public mutating func removeLast() { keys.removeLast() }

    /// True when the other path is this one or lies below it.
    public func contains(_ other: Path) -> Bool {
        other.keys.count >= keys.count && keys.elementsEqual(other.keys.prefix(keys.count))
    }

    /// This path as seen from `ancestor`, which must contain it.
    public func relative(to ancestor: Path) -> Path {
        Path(Array(keys.dropFirst(ancestor.keys.count)))
    }

    /// The path without its first keys.
    public func dropFirst(_ count: Int) -> Path { Path(Array(keys.dropFirst(count))) }
    /// The path of the ancestor (or the node itself) with so many keys.
    public func prefix(_ count: Int) -> Path { Path(Array(keys.prefix(count))) }

    /// `/a/b`; the root is `/`.
    public var description: String {
        if keys.isEmpty { return "/" }
        var text = ""
        for key in keys {
            text += "/"
            text += key.text
        }
        return text
    }

    /// How many bytes the description has.
    public var byteCount: Int { keys.isEmpty ? 1 : keys.reduce(0) { $0 + 1 + $1.byteCount } }

    /// Writes the description's bytes behind others.
    public func write(to bytes: inout [UInt8]) {
        if keys.isEmpty { bytes.append(UInt8(ascii: "/")) }
        for key in keys {
            bytes.append(UInt8(ascii: "/"))
            key.text.withBytes { bytes.append(contentsOf: $0) }
        }
    }

    /// True when the last key is `.priority`: the path names a node's priority instead of a node.
    public var namesPriority: Bool { keys.last == .priority }
}

extension Key {
    /// The pseudo-child that holds a node's priority.
    public static let priority = Key(".priority")
}
