/// One component of a path: the name of a child.
///
/// Two keys are equal when their UTF-8 bytes are (Swift's own string equality would merge canonically equivalent
/// spellings, which are different keys to every SDK). The order is the protocol's: 32-bit integers first, by value and
/// then by length; all others by UTF-16 code unit (reference: rtdb-protocol 6.2).
public struct Key: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// The key's text, as the client wrote it.
    public let text: String

    /// Accepts any text. `KeyRules` decides whether the key may be stored, because query bounds may be keys that no node can
    /// have.
    @inlinable
    public init(_ text: String) {
        self.text = text
    }

    @inlinable
    public var description: String { text }

    /// The key's length in UTF-8 bytes.
    @inlinable
    public var byteCount: Int { text.utf8.count }

    @inlinable
    public static func == (left: Key, right: Key) -> Bool {
        left.text.hasSameBytes(as: right.text)
    }

    @inlinable
    public func hash(into hasher: inout Hasher) {
        text.withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    @inlinable
    public static func < (left: Key, right: Key) -> Bool {
        left.order(against: right) < 0
    }

    /// Returns a negative number, zero or a positive number if this key sorts before, at or after the other one.
    public func order(against other: Key) -> Int {
        text.withBytes { left in other.text.withBytes { right in Key.order(left, right) } }
    }

    @inline(__always)
    static func order(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Int {
        // Most keys begin with letters, and are therefore no integers.
        if let first = left.first, let second = right.first, first > 0x39, second > 0x39 {
            return codeUnitOrder(left, right)
        }
        return orderOfAny(left, right)
    }

    private static func orderOfAny(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Int {
        switch (integer(left), integer(right)) {
        case (let first?, let second?):
            if first != second { return first < second ? -1 : 1 }
            if left.count != right.count { return left.count - right.count }
            // `-0` and `00` tie by the protocol's rules, yet they are two keys.
            return codeUnitOrder(left, right)
        case (.some, nil): return -1
        case (nil, .some): return 1
        case (nil, nil): return codeUnitOrder(left, right)
        }
    }

    /// Whether the key begins with a dot. Such a key describes its object and is no child.
    var isSpecial: Bool { text.utf8.first == UInt8(ascii: ".") }

    /// The value of a key that the protocol sorts as an integer, or nil.
    public var integerValue: Int32? {
        text.withBytes(Key.integer)
    }

    /// Parses `-?0*\d{1,10}` within 32 bits.
    private static func integer(_ bytes: UnsafeBufferPointer<UInt8>) -> Int32? {
        guard let first = bytes.first, first <= 0x39 else { return nil }
        let isNegative = first == 0x2D
        var index = isNegative ? 1 : 0
        guard index < bytes.count else { return nil }
        var value: Int64 = 0
        while index < bytes.count {
            let digit = bytes[index] &- 0x30
            guard digit <= 9 else { return nil }
            value = value &* 10 &+ Int64(digit)
            guard value <= 0x8000_0000 else { return nil }
            index += 1
        }
        return Int32(exactly: isNegative ? -value : value)
    }

    /// Orders two UTF-8 texts as their UTF-16 forms sort: only code points above U+FFFF (lead bytes F0 and up) differ,
    /// since their surrogates come before U+E000 (lead byte EE).
    @usableFromInline
    static func codeUnitOrder(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Int {
        let shared = min(left.count, right.count)
        var index = 0
        // Compare eight bytes at a time, up to the first difference.
        while index + 8 <= shared {
            let first = UnsafeRawBufferPointer(left).loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let second = UnsafeRawBufferPointer(right).loadUnaligned(fromByteOffset: index, as: UInt64.self)
            if first != second {
                index += UInt64(littleEndian: first ^ second).trailingZeroBitCount / 8
                break
            }
            index += 8
        }
        while index < shared {
            let first = left[index]
            let second = right[index]
            if first != second {
                if first >= 0xEE, second >= 0xEE, (first >= 0xF0) != (second >= 0xF0) {
                    return first >= 0xF0 ? -1 : 1
                }
                return first < second ? -1 : 1
            }
            index += 1
        }
        return left.count - right.count
    }
}

extension String {
    /// Calls `body` with the UTF-8 bytes. Native strings provide these without a copy, except strings of up to 15 bytes.
    @inlinable
    @inline(__always)
    func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        if let result = utf8.withContiguousStorageIfAvailable(body) { return result }
        var copy = self
        return copy.withUTF8(body)
    }

    /// Whether the bytes are equal, without Unicode normalization.
    @inlinable
    public func hasSameBytes(as other: String) -> Bool {
        other.withBytes { hasSameBytes(as: $0) }
    }

    @inlinable
    func hasSameBytes(as other: UnsafeBufferPointer<UInt8>) -> Bool {
        withBytes { bytes in
            guard bytes.count == other.count else { return false }
            if bytes.baseAddress == other.baseAddress { return true }
            let left = UnsafeRawBufferPointer(bytes)
            let right = UnsafeRawBufferPointer(other)
            var index = 0
            while index + 8 <= left.count {
                let first = left.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                guard first == right.loadUnaligned(fromByteOffset: index, as: UInt64.self) else { return false }
                index += 8
            }
            while index < left.count {
                guard left[index] == right[index] else { return false }
                index += 1
            }
            return true
        }
    }

    /// Returns the order of the two strings' UTF-16 code units: negative, zero or positive.
    public func codeUnitOrder(against other: String) -> Int {
        withBytes { left in other.withBytes { right in Key.codeUnitOrder(left, right) } }
    }
}

/// The protocol's limits for keys and paths of stored data (reference: rtdb-protocol 6.6 and 6.7).
public enum KeyRules {
    /// The maximum length of a key in UTF-8 bytes.
    public static let maxKeyBytes = 768
    /// The maximum number of keys in a path.
    public static let maxDepth = 32
    /// The maximum length of a string value in UTF-8 bytes.
    public static let maxStringBytes = 10_485_760

    /// The reason why a key may not be stored.
    public enum Violation: Error, Equatable, Sendable {
        case empty
        case tooLong(bytes: Int)
        case forbidden(byte: UInt8)

        /// The end of a sentence that begins with `key`.
        public var reason: String {
            switch self {
            case .empty: "is empty"
            case .tooLong(let bytes): "has \(bytes) bytes, more than \(maxKeyBytes)"
            case .forbidden(let byte) where byte < 0x20 || byte == 0x7F: "contains a control character"
            case .forbidden(let byte): "contains \"\(Character(UnicodeScalar(byte)))\""
            }
        }
    }

    /// Returns the first rule that the key breaks, or nil.
    public static func violation(in key: UnsafeBufferPointer<UInt8>) -> Violation? {
        if key.isEmpty { return .empty }
        if key.count > maxKeyBytes { return .tooLong(bytes: key.count) }
        for byte in key where isForbidden(byte) { return .forbidden(byte: byte) }
        return nil
    }

    /// Returns the first rule that the key breaks, or nil.
    public static func violation(in key: Key) -> Violation? {
        var text = key.text
        return text.withUTF8 { violation(in: $0) }
    }

    /// Whether the byte is one of `. # $ / [ ]`, a control 0x00 to 0x1F, or 0x7F.
    @inline(__always)
    static func isForbidden(_ byte: UInt8) -> Bool {
        if byte >= 0x80 { return false }
        return (byte < 0x40 ? forbiddenLow : forbiddenHigh) >> UInt64(byte & 0x3F) & 1 == 1
    }

    /// A bit for each forbidden byte below 0x40.
    private static let forbiddenLow: UInt64 = 0xFFFF_FFFF | 1 << 0x23 | 1 << 0x24 | 1 << 0x2E | 1 << 0x2F
    /// A bit for each forbidden byte from 0x40 to 0x7F.
    private static let forbiddenHigh: UInt64 = 1 << (0x5B - 0x40) | 1 << (0x5D - 0x40) | 1 << (0x7F - 0x40)
}
