/// Caches the keys of a text, because records repeat their keys. A cached key costs no allocation, no check and, if it is too
/// long to be stored inline, no memory of its own.
struct KeyCache: ~Copyable {
    /// A key and its identification: the first and last eight bytes and the length determine a short key completely.
    private struct Slot {
        var key = Key("")
        var head: UInt64 = 0
        var tail: UInt64 = 0
        var length = -1
    }

    private let slots: UnsafeMutableBufferPointer<Slot>
    private let shift: UInt64

    /// - Parameter count: the maximum number of cached keys, a power of two.
    init(slots count: Int = 512) {
        slots = .allocate(capacity: count)
        slots.initialize(repeating: Slot())
        shift = UInt64(64 - count.trailingZeroBitCount)
    }

    deinit {
        slots.deinitialize()
        slots.deallocate()
    }

    /// Whether a key may occur again. Push ids and indices do not.
    static func isWorthKeeping(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        bytes.count >= 2 && bytes.count <= 64 && bytes[0] > 0x39
    }

    /// Returns the cached key of these bytes, or the result of `make`, which is then cached.
    @inline(__always)
    mutating func key<Failure: Error>(
        of bytes: UnsafeBufferPointer<UInt8>, _ make: () throws(Failure) -> Key
    ) throws(Failure) -> Key {
        let (head, tail) = Self.words(bytes)
        let hash = (head ^ (tail &* 0x9E37_79B9_7F4A_7C15) ^ UInt64(bytes.count)) &* 0xBF58_476D_1CE4_E5B9
        let index = Int(truncatingIfNeeded: hash >> shift)
        if slots[index].head == head, slots[index].tail == tail, slots[index].length == bytes.count,
            bytes.count <= 16 || slots[index].key.text.hasSameBytes(as: bytes)
        {
            return slots[index].key
        }
        let key = try make()
        slots[index] = Slot(key: key, head: head, tail: tail, length: bytes.count)
        return key
    }

    @inline(__always)
    private static func words(_ bytes: UnsafeBufferPointer<UInt8>) -> (head: UInt64, tail: UInt64) {
        let raw = UnsafeRawBufferPointer(bytes)
        if bytes.count >= 8 {
            return (
                raw.loadUnaligned(fromByteOffset: 0, as: UInt64.self),
                raw.loadUnaligned(fromByteOffset: bytes.count - 8, as: UInt64.self)
            )
        }
        var head: UInt64 = 0
        for byte in bytes { head = head << 8 | UInt64(byte) }
        return (head, 0)
    }
}

/// Reads the values of rows one after another. Repeated texts of medium length, such as user ids and names, share memory: a
/// text of more than 15 bytes takes four times as much as a short one.
public struct LeafReader: ~Copyable {
    private var texts: KeyCache?
    private var rows = 0

    /// Fewer rows repeat too few texts to justify a cache.
    private static let leastRowsForCache = 256
    private static let slots = 4_096
    /// Shorter texts are stored inline; longer ones seldom occur again.
    private static let lengths = 16...64

    public init() {}

    /// Returns the value of a row's JSON text.
    public mutating func read(_ json: UnsafeRawBufferPointer) throws(JSONError) -> Node {
        rows += 1
        if rows == Self.leastRowsForCache { texts = KeyCache(slots: Self.slots) }
        guard texts != nil, Self.lengths.contains(json.count - 2), json[0] == UInt8(ascii: "\""),
            json[json.count - 1] == UInt8(ascii: "\"")
        else { return try JSONParser.parse(json) }
        let text = UnsafeRawBufferPointer(rebasing: json[1..<(json.count - 1)])
        // A text with an escape differs from its value.
        for byte in text where byte == UInt8(ascii: "\\") { return try JSONParser.parse(json) }
        return .string(try shared(text, json))
    }

    private mutating func shared(
        _ text: UnsafeRawBufferPointer, _ json: UnsafeRawBufferPointer
    ) throws(JSONError) -> String {
        guard var kept = texts.take() else { return "" }
        let key = try kept.key(of: text.assumingMemoryBound(to: UInt8.self)) { () throws(JSONError) in
            guard case .string(let made) = try JSONParser.parse(json) else { return Key("") }
            return Key(made)
        }
        texts = consume kept
        return key.text
    }
}
