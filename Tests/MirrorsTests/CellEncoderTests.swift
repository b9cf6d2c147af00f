import Postgres
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Checks that rows reach a table as the same values by an upsert with arrays, a binary COPY or a text COPY. PostgreSQL
/// compares them with its own literals.
@Suite struct CellEncoderTests {
    /// A cell of a column type, and the SQL expression of its expected value.
    struct Sample: Sendable, CustomTestStringConvertible {
        let type: ColumnType
        let cell: Cell
        let sql: String

        init(_ type: ColumnType, _ cell: Cell, _ sql: String) {
            self.type = type
            self.cell = cell
            self.sql = sql
        }

        var testDescription: String { "\(type.rawValue) \(sql)" }
    }

    static func day(_ year: Int, _ month: Int, _ day: Int) -> Cell {
        CalendarDay(year: year, month: month, day: day).map { .day($0) } ?? .null
    }

    static let samples: [Sample] = [
        Sample(.text, .null, "null"), Sample(.text, .text(""), "''"), Sample(.text, .text("x"), "'x'"),
        Sample(
            .text, .text("tab\tnewline\nreturn\rback\\slash \\N \\. é 😀"),
            "E'tab\\tnewline\\nreturn\\rback\\\\slash \\\\N \\\\. é 😀'"),
        Sample(.text, .text("\\N"), "E'\\\\N'"), Sample(.text, .text("NULL"), "'NULL'"),
        Sample(.text, .text("\u{1}\u{7F}"), "E'\\x01\\x7f'"),
        Sample(.bigint, .int(0), "0"), Sample(.bigint, .int(.max), "9223372036854775807"),
        Sample(.bigint, .int(.min), "(-9223372036854775808)"), Sample(.bigint, .null, "null"),
        Sample(.double, .double(0.1), "0.1::float8"), Sample(.double, .double(-0.0), "'-0'::float8"),
        Sample(.double, .double(1.7976931348623157e308), "1.7976931348623157e308::float8"),
        Sample(.double, .double(.leastNonzeroMagnitude), "5e-324::float8"),
        Sample(.double, .double(1e21), "1e21::float8"),
        Sample(.double, .double(-123456789.125), "(-123456789.125)::float8"),
        Sample(.numeric, .decimal("12345678901234567890.0123456789"), "12345678901234567890.0123456789"),
        Sample(.numeric, .decimal("-0.5"), "(-0.5)"), Sample(.numeric, .null, "null::numeric"),
        Sample(.boolean, .bool(true), "true"), Sample(.boolean, .bool(false), "false"),
        Sample(.boolean, .null, "null::boolean"),
        Sample(.timestamp, .timestamp(0), "'1970-01-01 00:00:00+00'::timestamptz"),
        Sample(.timestamp, .timestamp(-1), "'1969-12-31 23:59:59.999999+00'::timestamptz"),
        Sample(.timestamp, .timestamp(1_769_903_999_123_456), "'2026-01-31 23:59:59.123456+00'::timestamptz"),
        Sample(.timestamp, .timestamp(946_684_800_000_000), "'2000-01-01 00:00:00+00'::timestamptz"),
        Sample(.timestamp, .timestamp(946_684_799_999_999), "'1999-12-31 23:59:59.999999+00'::timestamptz"),
        Sample(.timestamp, .timestamp(-62_135_596_800_000_000), "'0001-01-01 00:00:00+00'::timestamptz"),
        Sample(.timestamp, .timestamp(253_402_300_799_999_999), "'9999-12-31 23:59:59.999999+00'::timestamptz"),
        Sample(.date, day(1970, 1, 1), "'1970-01-01'::date"), Sample(.date, day(2000, 1, 1), "'2000-01-01'::date"),
        Sample(.date, day(1999, 12, 31), "'1999-12-31'::date"), Sample(.date, day(2024, 2, 29), "'2024-02-29'::date"),
        Sample(.date, day(1, 1, 1), "'0001-01-01'::date"), Sample(.date, day(9999, 12, 31), "'9999-12-31'::date"),
        Sample(.date, .null, "null::date"),
        Sample(
            .jsonb, .json(Array(#"{"b": 1.0, "a": [true, null, "x\"y\\z\u00e9"]}"#.utf8)),
            #"'{"b": 1.0, "a": [true, null, "x\"y\\z\u00e9"]}'::jsonb"#),
        Sample(.jsonb, .json(Array("3".utf8)), "'3'::jsonb"), Sample(.jsonb, .null, "null::jsonb"),
        Sample(.textArray, .texts([]), "'{}'::text[]"), Sample(.textArray, .texts(["a"]), "array['a']"),
        Sample(
            .textArray, .texts(["", "NULL", "a,b", "{}", "q\"uote", "back\\slash", "é 😀", " s ", "\t\n"]),
            "array['', 'NULL', 'a,b', '{}', 'q\"uote', E'back\\\\slash', 'é 😀', ' s ', E'\\t\\n']"),
        Sample(.textArray, .null, "null::text[]"),
        Sample(.uuid, .uuid("0123abcd-4567-89ef-0000-ffffffffffff"), "'0123abcd-4567-89ef-0000-ffffffffffff'::uuid"),
        Sample(.uuid, .null, "null::uuid"),
    ]

    /// The ways in which rows are written.
    enum Way: String, CaseIterable, Sendable {
        case upsert, binary, text
    }

    /// Checks that tables with one column per sample, written in the given way, hold exactly the samples.
    private func check(_ some: [Sample], by way: Way) throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            // A numeric column forces a text COPY.
            let forcing = way == .text ? #", "n": "numeric""# : ""
            for (number, sample) in some.enumerated() {
                let definition = try MirrorDefinition.read(
                    Array(
                        #"{"name": "m\#(number)", "path": "/m/{k}", "columns": {"c": "\#(sample.type.rawValue)"\#(forcing)}}"#
                            .utf8),
                    source: "test")[0]
                let table = MirrorTable(definition, name: "m\(number)", label: "m\(number)")
                for sql in table.createSQL + table.indexSQL { try connection.executeScript(sql) }
                let rows = [("one", 1_000 as Int64?), ("two", nil)].map { key, time in
                    ProjectedRow(
                        keys: [Key(key)], cells: [sample.cell] + (way == .text ? [.null] : []),
                        stamp: Stamp(seq: 7, committedAt: time), conversionErrors: time == nil ? ["c", "é\""] : [])
                }
                switch way {
                case .upsert: _ = try connection.executePrepared(table.upsert, RowEncoder.upsert(table, rows))
                case .binary, .text:
                    _ = try connection.copyIn(table.copySQL) { writer in
                        #expect(writer.isBinary == (way == .binary))
                        for row in rows { try RowCopier.copy(row, table, to: &writer) }
                    }
                }
                let found = try connection.execute(
                    """
                    select count(*), count(*) filter (where c is not distinct from \(sample.sql)),
                        count(*) filter (where _seq = 7),
                        count(*) filter (where k = 'one' and _updated_at = '1970-01-01 00:00:01+00' and _misfits is null),
                        count(*) filter (where k = 'two' and _updated_at is null and _misfits = array['c', 'é"'])
                    from \(table.qualifiedName)
                    """)
                #expect(try found.int64(0, 0) == 2)
                #expect(try found.int64(0, 1) == 2, "\(sample.testDescription) by \(way)")
                #expect(try (2..<5).map { try found.int64(0, $0) } == [2, 1, 1], "\(sample.testDescription) by \(way)")
            }
        }
    }

    @Test(arguments: Way.allCases) func everySampleArrives(way: Way) throws {
        // A numeric column has no binary COPY. All other types have both.
        try check(Self.samples.filter { way != .binary || $0.type != .numeric }, by: way)
    }

    /// Checks that every type has a sample, so that a new type is not forgotten.
    @Test(arguments: ColumnType.allCases) func everyTypeHasASample(type: ColumnType) {
        #expect(Self.samples.contains { $0.type == type && $0.cell != .null })
    }

    /// Checks that negative zero keeps its sign, which equality alone would not show.
    @Test(arguments: Way.allCases) func minusZeroKeepsItsSign(way: Way) throws {
        try check([Sample(.double, .double(-0.0), "'-0'::float8")], by: way)
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            var array = PostgresArray(of: .float8)
            CellEncoder.append(.double(-0.0), to: &array)
            #expect(try connection.execute("select ($1)[1]::text", [.array(array)]).string(0, 0) == "-0")
        }
    }

    // MARK: Keys

    @Test(arguments: Way.allCases) func keysOfEveryType(way: Way) throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let forcing = way == .text ? #""columns": {"n": "numeric"}, "# : ""
            let definition = try MirrorDefinition.read(
                Array(
                    #"{"name": "m", "path": "/{t}/{b}/{u}/{d}", \#(forcing)"keys": {"b": "bigint", "u": "uuid", "d": "date"}}"#
                        .utf8),
                source: "test")[0]
            let table = MirrorTable(definition, name: "m", label: "m")
            for sql in table.createSQL + table.indexSQL { try connection.executeScript(sql) }
            let uuid = "0123abcd-4567-89ef-0000-ffffffffffff"
            let keys = ["a\\N é", "-9223372036854775808", uuid, "2024-02-29"].map { Key($0) }
            let rows = [
                ProjectedRow(keys: keys, cells: way == .text ? [.null] : [], stamp: Stamp(seq: 1, committedAt: nil))
            ]
            switch way {
            case .upsert: _ = try connection.executePrepared(table.upsert, RowEncoder.upsert(table, rows))
            case .binary, .text:
                _ = try connection.copyIn(table.copySQL) { writer in
                    for row in rows { try RowCopier.copy(row, table, to: &writer) }
                }
            }
            let found = try connection.execute(
                #"select count(*) from mirror.m where t = E'a\\N é' and b = -9223372036854775808 and u = '\#(uuid)' and d = '2024-02-29'"#
            )
            #expect(try found.int64(0, 0) == 1)
            // The same keys select the row for deletion, both as complete keys and as prefixes.
            for count in [2, 3, 4] {
                try connection.executeScript("begin")
                let beginnings = RowEncoder.keys(table, [Array(keys.prefix(count))])
                let gone = try connection.executePrepared(table.deleteRanges(keyCount: count), beginnings)
                #expect(gone.affectedRows == 1)
                try connection.executeScript("rollback")
            }
        }
    }

    /// Checks that a key that its column cannot hold selects no row, and is not converted into another key.
    @Test(arguments: [
        (KeyType.bigint, "7", true), (.bigint, "-7", true), (.bigint, "07", false), (.bigint, "+7", false),
        (.bigint, "7.0", false),
        (.bigint, "", false), (.bigint, "x", false), (.bigint, "9223372036854775808", false), (.bigint, "-0", false),
        (.uuid, "0123abcd-4567-89ef-0000-ffffffffffff", true), (.uuid, "0123ABCD-4567-89ef-0000-ffffffffffff", false),
        (.uuid, "0123abcd456789ef0000ffffffffffff", false), (.uuid, "x", false), (.text, "anything", true),
        (.date, "2026-01-31", true), (.date, "0001-01-01", true), (.date, "9999-12-31", true),
        (.date, "2026-02-30", false), (.date, "2026-1-31", false), (.date, "0000-01-01", false),
        (.date, "2026-01", false), (.date, "2026-01-31T00:00:00Z", false), (.date, "infinity", false),
        (.text, "", true),
    ])
    func whatAKeyColumnHolds(type: KeyType, key: String, isHeld: Bool) throws {
        #expect(type.holds(Key(key)) == isHeld)
        let definition = try MirrorDefinition.read(
            Array(#"{"name": "m", "path": "/m/{k}", "keys": {"k": "\#(type.rawValue)"}}"#.utf8), source: "test")[0]
        let table = MirrorTable(definition, name: "m", label: "m")
        let one = RowEncoder.keys(table, [[Key(key)]])
        let none = RowEncoder.keys(table, [[Key("not a \u{1}number")], [Key(key)]])
        #expect(one.count == 1)
        if type != .text { #expect(none.byteCount == one.byteCount) }
        let empty = RowEncoder.keys(table, [])
        #expect(empty.count == 0)
    }

    // MARK: Times as text

    /// Checks that PostgreSQL reads each text as the same time.
    @Test func timesAsTextAreReadBack() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            var generator = SeededGenerator(seed: 5)
            var times = PostgresArray(of: .timestamptz)
            var texts = PostgresArray(of: .text)
            for _ in 0..<5_000 {
                let time = Int64.random(in: CalendarDay.microseconds, using: &generator)
                times.appendTimestamp(unixMicroseconds: time)
                texts.appendText(TimestampText.utf8(unixMicroseconds: time))
            }
            let wrong = try connection.execute(
                "select count(*) from unnest($1, $2) as x (a, b) where a is distinct from b::timestamptz",
                [.array(times), .array(texts)])
            #expect(try wrong.int64(0, 0) == 0)
        }
    }

    /// Checks conversions between days and their numbers against PostgreSQL's dates.
    @Test func daysAreThoseOfTheCalendar() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            let rows = try connection.execute(
                """
                select to_char(d, 'YYYY-MM-DD'), (d - date '1970-01-01')::bigint
                from (select date '0001-01-01' + n * 37 from generate_series(0, 98000) as n) as days (d)
                where d <= date '9999-12-31'
                """)
            #expect(rows.rowCount > 90_000)
            for row in 0..<rows.rowCount {
                let (text, number) = (try rows.string(row, 0), try rows.int64(row, 1))
                let day = CalendarDay(milliseconds: number * 86_400_000)
                if day.description != text || Int64(day.number) != number {
                    Issue.record("\(text) is day \(number), not \(day) with the number \(day.number)")
                    return
                }
            }
        }
    }
}
