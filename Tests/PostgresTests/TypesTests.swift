import Postgres
import Testing

/// Checks that each type arrives in PostgreSQL as the value that was appended, and is returned unchanged. Selects the
/// parameters, and lets PostgreSQL compare them with literals.
@Suite struct TypesTests {
    @Test func everyScalarRoundTrips() throws {
        let connection = try TestDatabase.connect()
        let uuid: [UInt8] = Array(0..<16)
        let result = try connection.execute(
            """
            SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text
            """,
            [
                .int8(.min), .int4(-7), .bool(true), .float8(0.1), .text("Grüße 🐘"), .textBytes([]),
                .bytea([0, 255, 92]), .uuid(uuid), .json(Array(#"{"b": 1.0}"#.utf8)),
                .jsonb(Array(#"{"b": 1.0}"#.utf8)),
                .null(.text),
            ])
        #expect(try result.int64(0, 0) == .min)
        #expect(try result.int64(0, 1) == -7)
        #expect(try result.int32(0, 1) == -7)
        #expect(try result.bool(0, 2))
        #expect(try result.double(0, 3) == 0.1)
        #expect(try result.string(0, 4) == "Grüße 🐘")
        #expect(try result.bytes(0, 5) == [])
        #expect(!result.isNull(0, 5))
        #expect(try result.bytes(0, 6) == [0, 255, 92])
        #expect(try result.bytes(0, 7) == uuid)
        #expect(try result.string(0, 8) == #"{"b": 1.0}"#)
        #expect(try result.string(0, 9) == #"{"b": 1.0}"#)
        #expect(result.withBytes(0, 6) { $0.count } == 3)
        #expect(result.isNull(0, 10))
        #expect(result.withBytes(0, 10) { $0.count } == nil)
        #expect(result.columnType(6) == .bytea)
    }

    @Test func otherIntegersAndFloatsAreWidened() throws {
        let result = try TestDatabase.connect().execute("SELECT 3::int2, 4000000000::oid, 1.5::float4, 2::int8")
        #expect(try result.int64(0, 0) == 3)
        #expect(try result.int64(0, 1) == 4_000_000_000)
        #expect(try result.double(0, 2) == 1.5)
        #expect(try result.double(0, 3) == 2)
        #expect(throws: PostgresError.self) { try result.int32(0, 1) }
    }

    @Test func timesAreUnixMicroseconds() throws {
        var parameters = PostgresParameters()
        parameters.appendTimestamp(unixMicroseconds: 1_700_000_000_123_456)
        var array = PostgresArray(of: .timestamptz)
        array.appendTimestamp(unixMicroseconds: 0)
        parameters.append(array)
        let result = try TestDatabase.connect().execute(
            """
            SELECT $1, extract(epoch FROM $1)::text, extract(epoch FROM $2[1])::text, 'infinity'::timestamptz
            """, parameters)
        #expect(try result.unixMicroseconds(0, 0) == 1_700_000_000_123_456)
        #expect(try result.string(0, 1) == "1700000000.123456")
        #expect(try result.string(0, 2) == "0.000000")
        #expect(try result.unixMicroseconds(0, 3) == .max)
    }

    @Test func arraysArriveElementByElement() throws {
        var int8s = PostgresArray(of: .int8)
        int8s.appendInt8(1)
        int8s.appendNull()
        int8s.appendInt8(-3)
        var int4s = PostgresArray(of: .int4)
        int4s.appendInt4(5)
        var texts = PostgresArray(of: .text)
        texts.appendText("a,\"b\\")
        texts.appendText([])
        texts.appendNull()
        var byteas = PostgresArray(of: .bytea)
        byteas.appendBytea([0, 1])
        var bools = PostgresArray(of: .bool)
        bools.appendBool(true)
        bools.appendBool(false)
        var floats = PostgresArray(of: .float8)
        floats.appendFloat8(1.5)
        var uuids = PostgresArray(of: .uuid)
        uuids.appendUUID([UInt8](repeating: 0x11, count: 16))
        var jsonbs = PostgresArray(of: .jsonb)
        Array("[1]".utf8).withUnsafeBytes { jsonbs.appendJSONB($0) }
        let result = try TestDatabase.connect().execute(
            """
            SELECT $1 = ARRAY[1, NULL, -3]::int8[], $2 = ARRAY[5]::int4[], $3 = ARRAY['a,"b\\', '', NULL]::text[],
                   $4 = ARRAY['\\x0001']::bytea[], $5 = ARRAY[true, false], $6 = ARRAY[1.5]::float8[],
                   $7 = ARRAY['11111111-1111-1111-1111-111111111111']::uuid[], $8 = ARRAY['[1]']::jsonb[],
                   $9 = ARRAY[]::text[]
            """,
            [
                .array(int8s), .array(int4s), .array(texts), .array(byteas), .array(bools), .array(floats),
                .array(uuids), .array(jsonbs), .array(PostgresArray(of: .text)),
            ])
        for column in 0..<result.columnCount {
            #expect(try result.bool(0, column), "column \(column)")
        }
    }

    @Test func arraysAreReusable() throws {
        let connection = try TestDatabase.connect()
        var array = PostgresArray(of: .int8)
        for round in 1...3 as ClosedRange<Int64> {
            array.removeAll()
            for value in 0..<round { array.appendInt8(value) }
            let result = try connection.execute("SELECT count(*) FROM unnest($1)", [.array(array)])
            #expect(try result.int64(0, 0) == round)
        }
    }

    @Test func wrongTypesAndPositionsThrow() throws {
        let result = try TestDatabase.connect().execute("SELECT 1::int8, 'x', NULL::int8")
        #expect(throws: PostgresError.self) { try result.int64(0, 1) }
        #expect(throws: PostgresError.self) { try result.string(0, 0) }
        #expect(throws: PostgresError.self) { try result.bool(0, 0) }
        #expect(throws: PostgresError.self) { try result.int64(0, 2) }
        #expect(throws: PostgresError.self) { try result.int64(1, 0) }
        #expect(throws: PostgresError.self) { try result.int64(0, 3) }
        #expect(throws: PostgresError.self) { try result.int64(-1, .max) }
        #expect(result.isNull(0, 9))
    }

    @Test func textWithNULIsNamed() throws {
        let connection = try TestDatabase.connect()
        let error = #expect(throws: PostgresError.self) {
            try connection.execute("SELECT $1, $2", [.int8(1), .text("secret\0")])
        }
        #expect(error?.kind == .invalidParameter)
        #expect(error?.message == "parameter $2 holds U+0000, which PostgreSQL text cannot store")
        var texts = PostgresArray(of: .text)
        texts.appendText("fine")
        texts.appendText("not\0fine")
        let second = #expect(throws: PostgresError.self) { try connection.execute("SELECT $1", [.array(texts)]) }
        #expect(second?.message == "element 2 of parameter $1 holds U+0000, which PostgreSQL text cannot store")
        #expect(throws: PostgresError.self) { try connection.execute("SELECT 1 \0 DROP") }
        #expect(try connection.execute("SELECT 1").rowCount == 1)
    }

    @Test func parametersDoNotShowTheirValues() {
        let parameters: PostgresParameters = [.text("hunter2")]
        var dumped = ""
        dump(parameters, to: &dumped)
        #expect(!"\(parameters) \(String(reflecting: parameters)) \(dumped)".contains("hunter2"))
    }

    @Test func identifiersAreQuoted() throws {
        #expect(quotedIdentifier("a\"b\0c") == "\"a\"\"bc\"")
        let result = try TestDatabase.connect().execute("SELECT 1 AS \(quotedIdentifier("Wei\"rd"))")
        #expect(result.columnName(0) == "Wei\"rd")
    }

    @Test(.timeLimit(.minutes(20))) func fiftyMegabytesGoBothWays() throws {
        let connection = try TestDatabase.connect()
        let big = [UInt8](repeating: 0xA5, count: 50 << 20)
        let result = try connection.execute("SELECT $1, length($1)", [.bytea(big)])
        #expect(try result.int64(0, 1) == 50 << 20)
        #expect(result.withBytes(0, 0) { $0.count } == 50 << 20)
        #expect(try result.bytes(0, 0) == big)
    }
}
