/// One component of a path: the name of a child.
///
/// Two keys are equal when their UTF-8 bytes are (Swift's own string equality would merge canonically equivalent
/// spellings, which are different keys to every SDK). The order is the protocol's: 32-bit integers first, by value and
/// then by length; all others by UTF-16 code unit (reference: rtdb-protocol 6.2).
public struct Key: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// The key's text, as the client wrote it.
    public let text: String

    /// Takes any text. Whether it may be stored is `KeyRules`' decision, as query bounds may be keys that no node can have.
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
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    @inlinable
    public static func < (left: Key, right: Key) -> Bool {
        left.order(against: right) < 0
    }

    /// Negative, zero or positive as this key sorts before, at or after the other.
    public func order(against other: Key) -> Int {
        var left = text
        var right = other.text
        return left.withUTF8 { left in
            right.withUTF8 { right in
                Key.order(left, right)
            }
        }
    }

    private static func order(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Int {
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

    /// The value of a key that the protocol sorts as an integer, or nil.
    public var integerValue: Int32? {
        var text = text
        return text.withUTF8(Key.integer)
    }

    /// `-?0*\d{1,10}` within 32 bits.
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
    /// Byte equality, without Unicode normalisation.
    @inlinable
    public func hasSameBytes(as other: String) -> Bool {
        var left = self
        var right = other
        return left.withUTF8 { left in
            right.withUTF8 { right in
                left.count == right.count && left.elementsEqual(right)
            }
        }
    }

    /// The order of the two strings' UTF-16 code units: negative, zero or positive.
    public func codeUnitOrder(against other: String) -> Int {
        var left = self
        var right = other
        return left.withUTF8 { left in right.withUTF8 { right in Key.codeUnitOrder(left, right) } }
    }
}
