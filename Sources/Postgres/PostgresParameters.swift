import CPostgres

/// The parameters of one statement, `$1` first, in PostgreSQL's binary format and in one buffer.
///
/// Cheap to build and to reuse (`removeAll()` keeps the storage). Values that PostgreSQL cannot store are recorded
/// here, and the call that uses the parameters throws `invalidParameter` before it sends anything. Never printed:
/// descriptions contain only the number of parameters.
public struct PostgresParameters: Sendable {
    struct Slot {
        var type: PostgresType
        var offset: Int
        /// The number of bytes, or -1 for NULL.
        var length: Int
    }

    private(set) var bytes: [UInt8] = []
    private(set) var slots: [Slot] = []
    /// The reason why the parameters cannot be sent.
    private(set) var problem: String?

    public init() {}

    public var count: Int { slots.count }

    /// The size of the values in bytes.
    public var byteCount: Int { bytes.count }

    /// Removes all parameters and keeps the storage.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        slots.removeAll(keepingCapacity: true)
        problem = nil
    }

    /// Reserves `bytes` bytes for values.
    public mutating func reserveCapacity(bytes count: Int) {
        bytes.reserveCapacity(count)
    }

    /// Reserves space for `count` values of `bytes` bytes in total.
    public mutating func reserveCapacity(_ count: Int, bytes: Int) {
        slots.reserveCapacity(count)
        self.bytes.reserveCapacity(bytes)
    }

    /// Appends a NULL of a type.
    public mutating func appendNull(_ type: PostgresType) {
        slots.append(Slot(type: type, offset: 0, length: -1))
    }

    /// Appends a boolean as the next parameter.
    public mutating func appendBool(_ value: Bool) {
        append(.bool) { $0.appendBool(value) }
    }

    /// Appends a four-byte integer as the next parameter.
    public mutating func appendInt4(_ value: Int32) {
        append(.int4) { $0.appendBigEndian(value) }
    }

    /// Appends an eight-byte integer as the next parameter.
    public mutating func appendInt8(_ value: Int64) {
        append(.int8) { $0.appendBigEndian(value) }
    }

    /// Appends a double as the next parameter.
    public mutating func appendFloat8(_ value: Double) {
        append(.float8) { $0.appendFloat8(value) }
    }

    /// Appends microseconds since 1970-01-01 UTC, without leap seconds.
    public mutating func appendTimestamp(unixMicroseconds: Int64) {
        append(.timestamptz) { $0.appendTimestamp(unixMicroseconds: unixMicroseconds) }
    }

    /// Appends a text as the next parameter.
    public mutating func appendText(_ value: String) {
        var value = value
        value.withUTF8 { appendText(UnsafeRawBufferPointer($0)) }
    }

    /// Appends a text from UTF-8.
    public mutating func appendText(_ utf8: [UInt8]) {
        utf8.withUnsafeBytes { appendText($0) }
    }

    /// Appends a text from UTF-8 that the caller owns.
    public mutating func appendText(_ utf8: UnsafeRawBufferPointer) {
        checkText(utf8)
        append(.text) { $0.append(contentsOf: utf8) }
    }

    /// Appends a `bytea` as the next parameter.
    public mutating func appendBytea(_ value: [UInt8]) {
        value.withUnsafeBytes { appendBytea($0) }
    }

    /// Appends a bytea from bytes that the caller owns.
    public mutating func appendBytea(_ value: UnsafeRawBufferPointer) {
        append(.bytea) { $0.append(contentsOf: value) }
    }

    /// Appends a UUID's 16 bytes, most significant first.
    public mutating func appendUUID(_ value: [UInt8]) {
        if value.count != 16 {
            note("parameter $\(count + 1) is not a UUID: it has \(value.count) bytes, not 16")
        }
        append(.uuid) { $0.append(contentsOf: value) }
    }

    /// Appends JSON text for a `json` column, which keeps it byte for byte.
    public mutating func appendJSON(_ utf8: [UInt8]) {
        utf8.withUnsafeBytes { checkText($0) }
        append(.json) { $0.append(contentsOf: utf8) }
    }

    /// Appends JSON text for a `jsonb` column, which stores the value and not the text.
    public mutating func appendJSONB(_ utf8: [UInt8]) {
        utf8.withUnsafeBytes { checkText($0) }
        append(.jsonb) { bytes in utf8.withUnsafeBytes { bytes.appendJSONB($0) } }
    }

    /// Appends an array of any type.
    public mutating func append(_ array: PostgresArray) {
        if let index = array.indexOfTextWithNUL {
            note("element \(index + 1) of parameter $\(count + 1) holds U+0000, which PostgreSQL text cannot store")
        }
        append(array.elementType.arrayType ?? .textArray) { array.encode(into: &$0) }
    }

    /// Appends a value of any type.
    public mutating func append(_ value: PostgresValue) {
        switch value {
        case .null(let type): appendNull(type)
        case .bool(let value): appendBool(value)
        case .int4(let value): appendInt4(value)
        case .int8(let value): appendInt8(value)
        case .float8(let value): appendFloat8(value)
        case .text(let value): appendText(value)
        case .textBytes(let value): appendText(value)
        case .bytea(let value): appendBytea(value)
        case .uuid(let value): appendUUID(value)
        case .json(let value): appendJSON(value)
        case .jsonb(let value): appendJSONB(value)
        case .array(let value): append(value)
        }
    }

    private mutating func append(_ type: PostgresType, _ encode: (inout [UInt8]) -> Void) {
        let offset = bytes.count
        encode(&bytes)
        slots.append(Slot(type: type, offset: offset, length: bytes.count - offset))
    }

    private mutating func checkText(_ utf8: UnsafeRawBufferPointer) {
        if utf8.containsNUL {
            note("parameter $\(count + 1) holds U+0000, which PostgreSQL text cannot store")
        }
    }

    private mutating func note(_ text: String) {
        problem = problem ?? text
    }
}

extension PostgresParameters: ExpressibleByArrayLiteral {
    /// Creates a list of parameters in order.
    public init(arrayLiteral elements: PostgresValue...) {
        for element in elements {
            append(element)
        }
    }
}

extension PostgresParameters: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var description: String { "\(count) parameters" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The maximum number of parameters of a statement, and the maximum size of a message in bytes, which limits their
/// total.
private let parameterCountMax = 65_535
private let messageBytesMax = 1_073_741_823

extension PostgresParameters {
    /// The arguments of `PQsendQueryParams` and `PQsendQueryPrepared`, valid only during the call that receives them.
    struct LibpqArrays {
        var count: Int32
        var types: UnsafePointer<Oid>?
        var values: UnsafePointer<UnsafePointer<CChar>?>?
        var lengths: UnsafePointer<Int32>?
        var formats: UnsafePointer<Int32>?
    }

    /// Checks that the parameters can be sent.
    ///
    /// - Throws: `invalidParameter` with the reason why they cannot.
    func check(_ statement: @autoclosure () -> String) throws(PostgresError) {
        if let problem {
            throw PostgresError(.invalidParameter, problem, statement: statement())
        }
        if count > parameterCountMax {
            throw PostgresError(
                .invalidParameter, "\(count) parameters, but PostgreSQL accepts \(parameterCountMax) at most",
                hint: "send arrays and UNNEST them", statement: statement())
        }
        if bytes.count > messageBytesMax {
            throw PostgresError(
                .invalidParameter, "parameters of \(bytes.count) bytes, but PostgreSQL accepts less than 1 GiB",
                hint: "send less at once", statement: statement())
        }
    }

    func withLibpqArrays(_ body: (LibpqArrays) -> Int32) -> Int32 {
        let count = slots.count
        guard count > 0 else {
            return body(LibpqArrays(count: 0, types: nil, values: nil, lengths: nil, formats: nil))
        }
        // Three arrays of 32 bits side by side: types, lengths, formats.
        return withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 3 * count) { words in
            withUnsafeTemporaryAllocation(of: UnsafePointer<CChar>?.self, capacity: count) { values in
                bytes.withUnsafeBytes { storage in
                    // An empty value needs an address, because a null pointer means NULL.
                    withUnsafeBytes(of: UInt64(0)) { nothing in
                        guard let words = words.baseAddress, let values = values.baseAddress else { return 0 }
                        let base = storage.baseAddress ?? nothing.baseAddress
                        let lengths = UnsafeMutableRawPointer(words + count).assumingMemoryBound(to: Int32.self)
                        let formats = UnsafeMutableRawPointer(words + 2 * count).assumingMemoryBound(to: Int32.self)
                        for (index, slot) in slots.enumerated() {
                            words[index] = slot.type.oid
                            let address = slot.length < 0 ? nil : base?.advanced(by: slot.offset)
                            (values + index).initialize(to: address?.assumingMemoryBound(to: CChar.self))
                            lengths[index] = Int32(max(slot.length, 0))
                            formats[index] = 1
                        }
                        return body(
                            LibpqArrays(
                                count: Int32(count), types: words, values: values, lengths: lengths,
                                formats: formats))
                    }
                }
            }
        }
    }
}

/// A parameter value, for lists of parameters as literals: `[.int8(7), .text("a"), .null(.bytea)]`. Hot paths append to
/// ``PostgresParameters`` instead, which builds no enum.
public enum PostgresValue: Sendable {
    case null(PostgresType)
    case bool(Bool)
    case int4(Int32)
    case int8(Int64)
    case float8(Double)
    case text(String)
    case textBytes([UInt8])
    case bytea([UInt8])
    case uuid([UInt8])
    case json([UInt8])
    case jsonb([UInt8])
    case array(PostgresArray)
}
