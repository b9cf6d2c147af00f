/// A path in the tree: the keys from the root down. The root is the empty path.
public struct Path: Sendable, Hashable, CustomStringConvertible {
    public private(set) var keys: [Key]

    @inlinable
    public init() { self.init([]) }

    public init(_ keys: [Key]) { self.keys = keys }

    /// Splits text at slashes and drops empty parts, as all SDKs do (reference: rtdb-protocol 2.2). Does not decode percent
    /// signs or check the keys.
    public init(splitting text: some StringProtocol) {
        // The paths in an update are mostly single keys.
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

    /// Returns the path of a child.
    public func appending(_ key: Key) -> Path {
        var copy = self
        copy.keys.append(key)
        return copy
    }

    /// Returns the path that `other` names relative to this one.
    public func appending(_ other: Path) -> Path {
        var copy = self
        copy.keys.append(contentsOf: other.keys)
        return copy
    }

    /// Extends the path to a child.
    public mutating func append(_ key: Key) { keys.append(key) }
    /// Shortens the path to the parent. The path must not be empty, because the root has no parent.
    public mutating func removeLast() { keys.removeLast() }

    /// Whether the other path is this one or below it.
    public func contains(_ other: Path) -> Bool {
        other.keys.count >= keys.count && keys.elementsEqual(other.keys.prefix(keys.count))
    }

    /// Returns this path relative to `ancestor`, which must contain it.
    public func relative(to ancestor: Path) -> Path {
        Path(Array(keys.dropFirst(ancestor.keys.count)))
    }

    /// Returns the path without its first keys.
    public func dropFirst(_ count: Int) -> Path { Path(Array(keys.dropFirst(count))) }
    /// Returns the path of the ancestor (or of the node itself) with `count` keys.
    public func prefix(_ count: Int) -> Path { Path(Array(keys.prefix(count))) }

    /// Text such as `/a/b`; the root is `/`.
    public var description: String {
        if keys.isEmpty { return "/" }
        var text = ""
        for key in keys {
            text += "/"
            text += key.text
        }
        return text
    }

    /// The length of the description in bytes.
    public var byteCount: Int { keys.isEmpty ? 1 : keys.reduce(0) { $0 + 1 + $1.byteCount } }

    /// Appends the description to `bytes`.
    public func write(to bytes: inout [UInt8]) {
        if keys.isEmpty { bytes.append(UInt8(ascii: "/")) }
        for key in keys {
            bytes.append(UInt8(ascii: "/"))
            key.text.withBytes { bytes.append(contentsOf: $0) }
        }
    }

    /// Whether the last key is `.priority`: the path then names a node's priority instead of a node.
    public var namesPriority: Bool { keys.last == .priority }
}

extension Key {
    /// The pseudo-child that contains a node's priority.
    public static let priority = Key(".priority")
}
