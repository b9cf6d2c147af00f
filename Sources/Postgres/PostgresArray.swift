/// A one-dimensional PostgreSQL array, built element by element in PostgreSQL's binary format.
///
/// A batch inserted with `UNNEST` consists of one array per column, filled in parallel. Elements may be NULL.
/// `removeAll()` keeps the storage for the next batch. Appending another type than `elementType` is a programming
/// error.
public struct PostgresArray: Sendable {
    /// The type of the elements.
    public let elementType: PostgresType
    /// The number of elements, including NULLs.
    public private(set) var count = 0
    private(set) var hasNull = false
    /// The index of the first text element that contains U+0000.
    private(set) var indexOfTextWithNUL: Int?
    /// The elements: for each, its length in four bytes (-1 for NULL), then its bytes.
    private(set) var elements: [UInt8] = []

    public init(of elementType: PostgresType) {
        precondition(elementType.arrayType != nil, "no array type known for \(elementType)")
        self.elementType = elementType
    }

    /// The size in bytes as a parameter of a statement.
    public var byteCount: Int { 20 + elements.count }

    /// Removes all elements and keeps the storage.
    public mutating func removeAll() {
        elements.removeAll(keepingCapacity: true)
        count = 0
        hasNull = false
        indexOfTextWithNUL = nil
    }

    /// Reserves `bytes` bytes for elements. Each element takes four bytes in addition to its value.
    public mutating func reserveCapacity(bytes: Int) {
        elements.reserveCapacity(bytes)
    }

    /// Appends a null as the next element.
    public mutating func appendNull() {
        elements.appendBigEndian(Int32(-1))
        count += 1
        hasNull = true
    }

    /// Appends a boolean as the next element.
    public mutating func appendBool(_ value: Bool) {
        begin(.bool, length: 1)
        elements.appendBool(value)
    }

    /// Appends a four-byte integer as the next element.
    public mutating func appendInt4(_ value: Int32) {
        begin(.int4, length: 4)
        elements.appendBigEndian(value)
    }

    /// Appends an eight-byte integer as the next element.
    public mutating func appendInt8(_ value: Int64) {
        begin(.int8, length: 8)
        elements.appendBigEndian(value)
    }

    /// Appends a double as the next element.
    public mutating func appendFloat8(_ value: Double) {
        begin(.float8, length: 8)
        elements.appendFloat8(value)
    }

    /// Appends microseconds since 1970-01-01 UTC, without leap seconds.
    public mutating func appendTimestamp(unixMicroseconds: Int64) {
        begin(.timestamptz, length: 8)
        elements.appendTimestamp(unixMicroseconds: unixMicroseconds)
    }

    /// Appends a text (or json). If it contains U+0000, the call that uses the array fails with `invalidParameter`.
    public mutating func appendText(_ value: String) {
        var value = value
        value.withUTF8 { appendText(UnsafeRawBufferPointer($0)) }
    }

    /// Appends a text (or json) from UTF-8.
    public mutating func appendText(_ utf8: [UInt8]) {
        utf8.withUnsafeBytes { appendText($0) }
    }

    /// Appends a text (or json) from UTF-8 that the caller owns.
    public mutating func appendText(_ utf8: UnsafeRawBufferPointer) {
        if indexOfTextWithNUL == nil && utf8.containsNUL {
            indexOfTextWithNUL = count
        }
        begin(elementType == .json ? .json : .text, length: utf8.count)
        elements.append(contentsOf: utf8)
    }

    /// Appends JSON text to a `jsonb` array.
    public mutating func appendJSONB(_ utf8: UnsafeRawBufferPointer) {
        if indexOfTextWithNUL == nil && utf8.containsNUL {
            indexOfTextWithNUL = count
        }
        begin(.jsonb, length: utf8.count + 1)
        elements.appendJSONB(utf8)
    }

    /// Appends a `bytea` as the next element.
    public mutating func appendBytea(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { appendBytea($0) }
    }

    /// Appends a bytea from bytes that the caller owns.
    public mutating func appendBytea(_ bytes: UnsafeRawBufferPointer) {
        begin(.bytea, length: bytes.count)
        elements.append(contentsOf: bytes)
    }

    /// Appends a UUID's 16 bytes, most significant first.
    public mutating func appendUUID(_ bytes: [UInt8]) {
        precondition(bytes.count == 16, "a UUID has 16 bytes")
        begin(.uuid, length: 16)
        elements.append(contentsOf: bytes)
    }

    private mutating func begin(_ type: PostgresType, length: Int) {
        precondition(type == elementType, "an array of \(elementType) can't contain \(type)")
        elements.appendBigEndian(Int32(clamping: length))
        count += 1
    }

    /// Appends the array's binary form to `buffer`.
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
