/// Response headers, kept as the bytes that go out. Make the common sets once and pass them again and again: a response
/// with ready headers costs one copy of their bytes and no allocation.
///
/// Content-Length, Connection, Transfer-Encoding and Date are the server's: do not add them.
public struct HTTPHeaders: Sendable, ExpressibleByDictionaryLiteral {
    /// `Name: value\r\n` for each header.
    private(set) var encoded: [UInt8] = []

    /// No header.
    public init() {}

    /// `["Content-Type": "text/plain"]`, in this order.
    public init(dictionaryLiteral elements: (String, String)...) {
        for (name, value) in elements { add(name, value) }
    }

    /// The pairs, in this order.
    public init(_ pairs: [(String, String)]) {
        for (name, value) in pairs { add(name, value) }
    }

    /// Adds a header. A CR, LF or NUL in it becomes a space: nothing that came from a peer can add a line of its own.
    public mutating func add(_ name: String, _ value: String) {
        append(name.utf8)
        encoded.append(contentsOf: [0x3A, 0x20])
        append(value.utf8)
        encoded.append(contentsOf: [0x0D, 0x0A])
    }

    /// Adds a header with a number for its value.
    public mutating func add(_ name: String, _ value: UInt64) {
        // A ready set is copied once, with room for what comes behind it.
        encoded.reserveCapacity(encoded.count + name.utf8.count + 24)
        append(name.utf8)
        encoded.append(contentsOf: [0x3A, 0x20])
        var digits = DecimalDigits(value)
        digits.withBytes { encoded.append(contentsOf: $0) }
        encoded.append(contentsOf: [0x0D, 0x0A])
    }

    /// These headers followed by others.
    public func adding(_ name: String, _ value: String) -> HTTPHeaders {
        var copy = self
        copy.add(name, value)
        return copy
    }

    public var isEmpty: Bool { encoded.isEmpty }

    private mutating func append(_ text: String.UTF8View) {
        for byte in text {
            encoded.append(byte == 0x0D || byte == 0x0A || byte == 0 ? 0x20 : byte)
        }
    }
}
