import Postgres
import Testing

/// Checks that a value has one binary form as a parameter, in an array and in a COPY. Sends the same values in all
/// three ways, and lets PostgreSQL compare them with one another and with its literals.
@Suite struct FormatTests {
    /// A value, the closure that appends it, and PostgreSQL's literal.
    private struct Value {
        let type: PostgresType
        let sql: String
        let parameter: (inout PostgresParameters) -> Void
        let element: (inout PostgresArray) -> Void
        let field: (inout CopyWriter) throws -> Void
    }

    private static func uuid(_ byte: UInt8) -> [UInt8] { [UInt8](repeating: byte, count: 16) }

    private var values: [Value] {
        var values: [Value] = []
        for flag in [true, false] {
            values.append(
                Value(type: .bool, sql: "\(flag)") {
                    $0.appendBool(flag)
                } element: {
                    $0.appendBool(flag)
                } field: {
                    $0.appendBool(flag)
                })
        }
        for number in [0, 1, -1, .max, .min] as [Int32] {
            values.append(
                Value(type: .int4, sql: "'\(number)'::int4") {
                    $0.appendInt4(number)
                } element: {
                    $0.appendInt4(number)
                } field: {
                    $0.appendInt4(number)
                })
        }
        for number in [0, 1, -1, .max, .min, 0x0102_0304_0506_0708] as [Int64] {
            values.append(
                Value(type: .int8, sql: "'\(number)'::int8") {
                    $0.appendInt8(number)
                } element: {
                    $0.appendInt8(number)
                } field: {
                    $0.appendInt8(number)
                })
        }
        for number in [0, -0.0, 0.1, 1e308, .leastNonzeroMagnitude, .infinity, -.infinity, .nan] as [Double] {
            values.append(
                Value(type: .float8, sql: "'\(number)'::float8") {
                    $0.appendFloat8(number)
                } element: {
                    $0.appendFloat8(number)
                } field: {
                    $0.appendFloat8(number)
                })
        }
        for text in ["", "x", "é 😀", "tab\t\\ \n", "\u{1}"] {
            let bytes = Array(text.utf8)
            let literal =
                "convert_from('\\x\(bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())', 'UTF8')"
            values.append(
                Value(type: .text, sql: literal) {
                    $0.appendText(text)
                } element: {
                    $0.appendText(text)
                } field: {
                    try $0.appendText(text)
                })
            values.append(
                Value(type: .text, sql: literal) {
                    $0.appendText(bytes)
                } element: {
                    $0.appendText(bytes)
                } field: {
                    try $0.appendText(bytes)
                })
            values.append(
                Value(type: .bytea, sql: "convert_to(\(literal), 'UTF8')") {
                    $0.appendBytea(bytes)
                } element: {
                    $0.appendBytea(bytes)
                } field: {
                    $0.appendBytea(bytes)
                })
        }
        values.append(
            Value(type: .uuid, sql: "'11111111-1111-1111-1111-111111111111'::uuid") {
                $0.appendUUID(Self.uuid(0x11))
            } element: {
                $0.appendUUID(Self.uuid(0x11))
            } field: {
                $0.appendBytea(Self.uuid(0x11))
            })
        let json = Array(#"{"b": 1.0, "a": [null]}"#.utf8)
        values.append(
            Value(type: .jsonb, sql: #"'{"b": 1.0, "a": [null]}'::jsonb"#) {
                $0.appendJSONB(json)
            } element: { array in
                json.withUnsafeBytes { array.appendJSONB($0) }
            } field: {
                try $0.appendJSONB(json)
            })
        for (time, text) in [
            (0, "1970-01-01"), (946_684_800_000_000, "2000-01-01"), (946_684_799_999_999, "1999-12-31 23:59:59.999999"),
            (1_700_000_000_123_456, "2023-11-14 22:13:20.123456"), (-62_135_596_800_000_000, "0001-01-01"),
        ] as [(Int64, String)] {
            values.append(
                Value(type: .timestamptz, sql: "'\(text)+00'::timestamptz") {
                    $0.appendTimestamp(unixMicroseconds: time)
                } element: {
                    $0.appendTimestamp(unixMicroseconds: time)
                } field: {
                    try $0.appendTimestamp(unixMicroseconds: time)
                })
        }
        return values
    }

    @Test func oneFormEveryWay() throws {
        let connection = try TestDatabase.connect()
        for value in values {
            var parameters = PostgresParameters()
            value.parameter(&parameters)
            var array = PostgresArray(of: value.type)
            value.element(&array)
            array.appendNull()
            parameters.append(array)
            try connection.executeScript(
                "DROP TABLE IF EXISTS pg_temp.f; CREATE TEMP TABLE f (v \(value.type))")
            _ = try connection.copyIn("COPY f FROM STDIN (FORMAT binary)") { writer in
                writer.beginRow()
                try value.field(&writer)
                try writer.endRow()
                writer.beginRow()
                writer.appendNull()
                try writer.endRow()
            }
            let result = try connection.execute(
                """
                SELECT $1 IS NOT DISTINCT FROM x.v, ($2)[1] IS NOT DISTINCT FROM x.v, ($2)[2] IS NULL,
                    (SELECT count(*) FROM f WHERE v IS NOT DISTINCT FROM x.v), (SELECT count(*) FROM f WHERE v IS NULL),
                    $1::text = x.v::text AND ($2)[1]::text = x.v::text
                FROM (SELECT \(value.sql)) AS x (v)
                """, parameters)
            #expect(try result.bool(0, 0), "\(value.sql) as a parameter")
            #expect(try result.bool(0, 1), "\(value.sql) in an array")
            #expect(try result.bool(0, 2))
            #expect(try result.int64(0, 3) == 1, "\(value.sql) in a COPY")
            #expect(try result.int64(0, 4) == 1)
            #expect(try result.bool(0, 5), "\(value.sql) as text")
        }
    }

    // MARK: COPY only

    @Test(arguments: [
        (0, "1970-01-01"), (10_957, "2000-01-01"), (10_956, "1999-12-31"), (-719_162, "0001-01-01"),
        (2_932_896, "9999-12-31"),
    ])
    func datesInACopy(days: Int, text: String) throws {
        let connection = try TestDatabase.connect()
        try connection.executeScript("CREATE TEMP TABLE d (v date)")
        _ = try connection.copyIn("COPY d FROM STDIN (FORMAT binary)") { writer in
            writer.beginRow()
            writer.appendDate(unixDays: days)
            try writer.endRow()
        }
        #expect(try connection.execute("SELECT to_char(v, 'YYYY-MM-DD') FROM d").string(0, 0) == text)
    }

    @Test func arraysInACopy() throws {
        let connection = try TestDatabase.connect()
        try connection.executeScript("CREATE TEMP TABLE a (t text[], n int8[])")
        var texts = PostgresArray(of: .text)
        for text in ["a,b", "\"", "\\", "", "é"] { texts.appendText(text) }
        texts.appendNull()
        var numbers = PostgresArray(of: .int8)
        numbers.appendInt8(-1)
        _ = try connection.copyIn("COPY a FROM STDIN (FORMAT binary)") { writer in
            writer.beginRow()
            try writer.append(texts)
            try writer.append(PostgresArray(of: .int8))
            try writer.endRow()
            writer.beginRow()
            try writer.append(PostgresArray(of: .text))
            try writer.append(numbers)
            try writer.endRow()
        }
        let found = try connection.execute(
            #"""
            SELECT count(*) FILTER (WHERE t = ARRAY['a,b', '"', E'\\', '', 'é', NULL] AND n = '{}'),
                count(*) FILTER (WHERE t = '{}' AND n = '{-1}') FROM a
            """#)
        #expect(try found.int64(0, 0) == 1)
        #expect(try found.int64(0, 1) == 1)
    }

    /// Checks that a text that PostgreSQL cannot store is refused with its position in every text format, and that
    /// nothing is written.
    @Test(arguments: ["COPY n FROM STDIN (FORMAT binary)", "COPY n FROM STDIN"])
    func textWithNULIsRefused(copy: String) throws {
        let connection = try TestDatabase.connect()
        try connection.executeScript("CREATE TEMP TABLE n (a int8, b text)")
        for way in 0..<3 {
            let error = #expect(throws: PostgresError.self) {
                try connection.copyIn(copy) { writer in
                    writer.beginRow()
                    writer.appendInt8(1)
                    try writer.appendText("fine")
                    try writer.endRow()
                    writer.beginRow()
                    writer.appendInt8(2)
                    switch way {
                    case 0: try writer.appendText("se\0cret")
                    case 1: try writer.appendText(Array("se\0cret".utf8))
                    default: try Array("se\0cret".utf8).withUnsafeBytes { try writer.appendText($0) }
                    }
                    try writer.endRow()
                }
            }
            #expect(error?.message == "column 2 of row 2 holds U+0000, which PostgreSQL text cannot store")
            #expect(try connection.execute("SELECT count(*) FROM n").int64(0, 0) == 0)
        }
        var array = PostgresArray(of: .text)
        array.appendText("a\0b")
        #expect(throws: PostgresError.self) {
            try connection.copyIn("COPY n (b) FROM STDIN (FORMAT binary)") { writer in
                writer.beginRow()
                try writer.append(array)
                try writer.endRow()
            }
        }
    }

    // MARK: Lists of parameters

    @Test func parametersAreReusable() throws {
        let connection = try TestDatabase.connect()
        var parameters = PostgresParameters()
        parameters.reserveCapacity(bytes: 100)
        for round in 1...3 as ClosedRange<Int64> {
            parameters.removeAll()
            #expect(parameters.count == 0)
            #expect(parameters.byteCount == 0)
            parameters.appendInt8(round)
            parameters.appendText("\(round)")
            parameters.appendNull(.int8)
            #expect(parameters.count == 3)
            #expect(parameters.byteCount == 9)
            let result = try connection.execute("SELECT $1, $2, $3 IS NULL", parameters)
            #expect(try result.int64(0, 0) == round)
            #expect(try result.string(0, 1) == "\(round)")
            #expect(try result.bool(0, 2))
        }
        // A value that could not be sent is removed with the others.
        parameters.appendText("a\0b")
        #expect(throws: PostgresError.self) { try connection.execute("SELECT 1", parameters) }
        parameters.removeAll()
        #expect(try connection.execute("SELECT 1", parameters).rowCount == 1)
    }

    @Test func aUUIDHasSixteenBytes() throws {
        let connection = try TestDatabase.connect()
        for count in [0, 15, 17] {
            var parameters = PostgresParameters()
            parameters.appendUUID([UInt8](repeating: 0, count: count))
            let error = #expect(throws: PostgresError.self) { try connection.execute("SELECT $1", parameters) }
            #expect(error?.kind == .invalidParameter)
            #expect(error?.message == "parameter $1 is not a UUID: it has \(count) bytes, not 16")
        }
    }

    /// Checks that the first problem is reported, regardless of later parameters.
    @Test func theFirstProblemIsNamed() throws {
        var parameters: PostgresParameters = [.text("a\0"), .uuid([1]), .text("b\0")]
        parameters.appendJSON(Array("\"\0\"".utf8))
        let error = #expect(throws: PostgresError.self) {
            try TestDatabase.connect().execute("SELECT $1, $2, $3, $4", parameters)
        }
        #expect(error?.message == "parameter $1 holds U+0000, which PostgreSQL text cannot store")
    }

    @Test(arguments: [
        (PostgresType.bool, PostgresType.boolArray), (.int2, .int2Array), (.int4, .int4Array), (.int8, .int8Array),
        (.text, .textArray),
        (.float4, .float4Array), (.float8, .float8Array), (.bytea, .byteaArray), (.timestamptz, .timestamptzArray),
        (.json, .jsonArray),
        (.jsonb, .jsonbArray), (.uuid, .uuidArray),
    ])
    func typesAreThoseOfTheServer(type: PostgresType, array: PostgresType) throws {
        let connection = try TestDatabase.connect()
        #expect(type.arrayType == array)
        let found = try connection.execute(
            "SELECT '\(type)'::regtype::oid::int8, '\(array)'::regtype::oid::int8, format_type($1::int8::oid, NULL)",
            [.int8(Int64(type.oid))])
        #expect(try found.int64(0, 0) == Int64(type.oid))
        #expect(try found.int64(0, 1) == Int64(array.oid))
    }

    @Test func aTypeThatIsNotKnownHasANumber() {
        #expect(PostgresType(oid: 600).description == "oid 600")
        #expect(PostgresType(oid: 600).arrayType == nil)
        #expect(PostgresType(oid: 20) == .int8)
    }
}
