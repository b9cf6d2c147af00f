/// One row of a binary COPY, read without copying. Valid only during the call that receives it.
///
/// Columns count from 0. Binary COPY sends no types: the caller must know the types of the statement's columns, and
/// only the length of a value is checked. A NULL or a wrong length throws `decoding`.
public struct BinaryCopyRow: ~Copyable {
    private let piece: UnsafeRawBufferPointer
    /// The range of each value in `piece`, or nil for NULL.
    private let fields: [Range<Int>?]

    init(_ piece: UnsafeRawBufferPointer, _ fields: [Range<Int>?]) {
        self.piece = piece
        self.fields = fields
    }

    public var columnCount: Int { fields.count }

    /// Whether the value is NULL. True for an index out of range.
    public func isNull(_ column: Int) -> Bool {
        !fields.indices.contains(column) || fields[column] == nil
    }

    /// Returns an int2, int4 or int8.
    public func int64(_ column: Int) throws(PostgresError) -> Int64 {
        try field(column).int64()
    }

    /// Returns the boolean in the field. Throws if the field is not a boolean.
    public func bool(_ column: Int) throws(PostgresError) -> Bool {
        try field(column).bool()
    }

    /// Returns a float4, float8 or integer.
    public func double(_ column: Int) throws(PostgresError) -> Double {
        try field(column).double()
    }

    /// Returns a timestamptz, in microseconds since 1970-01-01 UTC.
    public func unixMicroseconds(_ column: Int) throws(PostgresError) -> Int64 {
        try field(column).unixMicroseconds()
    }

    /// Returns a text, or a value of any type whose binary format is its text.
    public func string(_ column: Int) throws(PostgresError) -> String {
        try field(column).string()
    }

    /// Returns the value's bytes in binary format. A jsonb begins with a version byte.
    public func bytes(_ column: Int) throws(PostgresError) -> [UInt8] {
        [UInt8](try field(column).bytes)
    }

    /// Calls `body` with the value's bytes without copying them. Returns nil for NULL.
    public func withBytes<Success, Failure: Error>(
        _ column: Int, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Success
    ) throws(Failure) -> Success? {
        guard fields.indices.contains(column), let range = fields[column] else { return nil }
        return try body(UnsafeRawBufferPointer(rebasing: piece[range]))
    }

    private func field(_ column: Int) throws(PostgresError) -> Field {
        guard fields.indices.contains(column) else {
            throw PostgresError(.decoding, "no column \(column) in a row of \(fields.count)")
        }
        guard let range = fields[column] else {
            throw PostgresError(.decoding, "NULL in column \(column)")
        }
        return Field(bytes: UnsafeRawBufferPointer(rebasing: piece[range]), type: nil)
    }
}

/// Locates the values in the pieces of a binary COPY.
struct BinaryCopyDecoder {
    private(set) var fields: [Range<Int>?] = []
    private var isFirst = true

    /// Returns false for a piece without a row: the trailer, or a header alone.
    mutating func decode(_ piece: UnsafeRawBufferPointer) throws(PostgresError) -> Bool {
        var offset = 0
        if isFirst {
            offset = try skipHeader(piece)
            isFirst = false
            if offset == piece.count { return false }
        }
        fields.removeAll(keepingCapacity: true)
        let count = try integer(Int16.self, piece, &offset)
        guard count >= 0 else { return false }
        for _ in 0..<count {
            let length = Int(try integer(Int32.self, piece, &offset))
            guard length >= 0 else {
                fields.append(nil)
                continue
            }
            guard length <= piece.count - offset else { throw Self.malformed }
            fields.append(offset..<offset + length)
            offset += length
        }
        guard offset == piece.count else { throw Self.malformed }
        return true
    }

    private func skipHeader(_ piece: UnsafeRawBufferPointer) throws(PostgresError) -> Int {
        guard piece.count >= copySignature.count + 8, piece.starts(with: copySignature) else { throw Self.malformed }
        let extensionLength = Int(piece.loadBigEndian(UInt32.self, at: copySignature.count + 4))
        let length = copySignature.count + 8 + extensionLength
        guard length <= piece.count else { throw Self.malformed }
        return length
    }

    private func integer<Value: FixedWidthInteger>(
        _ type: Value.Type, _ piece: UnsafeRawBufferPointer, _ offset: inout Int
    ) throws(PostgresError) -> Value {
        let size = MemoryLayout<Value>.size
        guard size <= piece.count - offset else { throw Self.malformed }
        defer { offset += size }
        return piece.loadBigEndian(type, at: offset)
    }

    private static let malformed = PostgresError(
        .protocol, "not binary COPY data", hint: "the statement needs WITH (FORMAT binary)")
}
