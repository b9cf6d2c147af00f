/// A one-dimensional PostgreSQL array, built element by element in PostgreSQL's binary format.
///
/// A batch inserted by `UNNEST` is a handful of these, one a column, filled side by side. Elements may be NULL.
/// `removeAll()` keeps the storage for the next batch. Appending another type than `elementType` is a programming
/// error.
public struct PostgresArray: Sendable {
    /// What each element is of.
    public let elementType: PostgresType
    /// The number of elements, NULLs included.
    public private(set) var count = 0
    private(set) var hasNull = false
    /// The first text element that holds U+0000.
    private(set) var indexOfTextWithNUL: Int?
    /// Each element: its length in four bytes (-1 for NULL), then its bytes.
    private(set) var elements: [UInt8] = []

    /// An array without elements.
    public init(of elementType: PostgresType) {
        precondition(elementType.arrayType != nil, "no array type known for \(elementType)")
        self.elementType = elementType
    }

    /// How many bytes it takes among the parameters of a statement.
    public var byteCount: Int { 20 + elements.count }

    /// Empties the array and keeps its storage.
    public mutating func removeAll() {
        elements.removeAll(keepingCapacity: true)
        count = 0
        hasNull = false
        indexOfTextWithNUL = nil
    }

    /// Makes room for `bytes` bytes of elements; each element takes four bytes besides its value.
    public mutating func reserveCapacity(bytes: Int) {
        elements.reserveCapacity(bytes)
    }

    /// An element that is NULL.
    public mutating func appendNull() {
        elements.appendBigEndian(Int32(-1))
        count += 1
        hasNull = true
    }

    /// A bool element.
    public mutating func appendBool(_ value: Bool) {
        begin(.bool, length: 1)
        elements.appendBool(value)
    }

    /// An int4 element.
    public mutating func appendInt4(_ value: Int32) {
        begin(.int4, length: 4)
        elements.appendBigEndian(value)
    }

    /// An int8 element.
    public mutating func appendInt8(_ value: Int64) {
        begin(.int8, length: 8)
        elements.appendBigEndian(value)
    }

    /// A float8 element.
    public mutating func appendFloat8(_ value: Double) {
        begin(.float8, length: 8)
        elements.appendFloat8(value)
    }

    /// Microseconds since 1970-01-01 UTC, without leap seconds.
    public mutating func appendTimestamp(unixMicroseconds: Int64) {
        begin(.timestamptz, length: 8)
        elements.appendTimestamp(unixMicroseconds: unixMicroseconds)
    }

    /// A text (or json) element; U+0000 in it makes the call that uses the array fail with `invalidParameter`.
    public mutating func appendText(_ value: String) {
        var value = value
        value.withUTF8 { appendText(UnsafeRawBufferPointer($0)) }
    }

    /// The same, of UTF-8.
    public mutating func appendText(_ utf8: [UInt8]) {
        utf8.withUnsafeBytes { appendText($0) }
    }

    /// The same, of UTF-8 that somebody else owns.
    public mutating func appendText(_ utf8: UnsafeRawBufferPointer) {
        if indexOfTextWithNUL == nil && utf8.containsNUL {
            indexOfTextWithNUL = count
        }
        begin(elementType == .json ? .json : .text, length: utf8.count)
        elements.append(contentsOf: utf8)
    }

    /// JSON text for a `jsonb` array.
    public mutating func appendJSONB(_ utf8: UnsafeRawBufferPointer) {
        if indexOfTextWithNUL == nil && utf8.containsNUL {
            indexOfTextWithNUL = count
        }
        begin(.jsonb, length: utf8.count + 1)
        elements.appendJSONB(utf8)
    }

    /// A bytea element.
    public mutating func appendBytea(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { appendBytea($0) }
    }

    /// A bytea element, of bytes that somebody else owns.
    public mutating func appendBytea(_ bytes: UnsafeRawBufferPointer) {
        begin(.bytea, length: bytes.count)
        elements.append(contentsOf: bytes)
    }

    /// A UUID's 16 bytes, most significant first.
    public mutating func appendUUID(_ bytes: [UInt8]) {
        precondition(bytes.count == 16, "a UUID has 16 bytes")
        begin(.uuid, length: 16)
        elements.append(contentsOf: bytes)
    }

    private mutating func begin(_ type: PostgresType, length: Int) {
        precondition(type == elementType, "an array of \(elementType) takes no \(type)")
        elements.appendBigEndian(Int32(clamping: length))
        count += 1
    }

    /// Writes the array's binary form to the end of `buffer`.
    func encode(into buffer: inout [UInt8]) {
        buffer.appendBigEndian(Int32(count == 0 ? 0 : 1))
        buffer.appendBigEndian(Int32(hasNull ? 1 : 0))
        buffer.appendBigEndian(elementType.oid)
        if count > 0 {
            buffer.appendBigEndian(Int32(clamping: count))
            buffer.appendBigEndian(Int32(1))
            buffer.append(contentsOf: elements)
        }
    }
}
