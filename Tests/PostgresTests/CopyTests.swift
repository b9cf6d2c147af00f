import Postgres
import Testing

/// Checks that COPY transfers many rows in both directions, and that a failure on either side leaves no trace.
@Suite struct CopyTests {
    private struct Stop: Error, Equatable {}

    private func connect() throws -> PostgresConnection {
        let connection = try TestDatabase.connect()
        try connection.execute("CREATE TEMP TABLE c (id int8 PRIMARY KEY, t text, b bytea, ok bool, f float8, n int4)")
        return connection
    }

    private func write(_ writer: inout CopyWriter, _ id: Int64) throws {
        writer.beginRow()
        writer.appendInt8(id)
        try writer.appendText("tab\tnewline\nreturn\rback\\slash \(id) 🐘")
        if id % 2 == 0 { writer.appendNull() } else { writer.appendBytea([0, UInt8(id & 0xFF), 0x5C]) }
        writer.appendBool(id % 3 == 0)
        writer.appendFloat8(Double(id) / 8)
        writer.appendInt4(Int32(id))
        try writer.endRow()
    }

    @Test(arguments: ["text", "binary"]) func aHundredThousandRows(format: String) throws {
        let connection = try connect()
        let taken = try connection.copyIn("COPY c FROM STDIN WITH (FORMAT \(format))") { writer in
            #expect(writer.isBinary == (format == "binary"))
            #expect(writer.columnCount == 6)
            for id in 1...100_000 as ClosedRange<Int64> { try write(&writer, id) }
            #expect(writer.rowCount == 100_000)
        }
        #expect(taken == 100_000)
        let wrong = try connection.execute(
            """
            SELECT count(*) FROM c WHERE t <> E'tab\\tnewline\\nreturn\\rback\\\\slash ' || id || ' 🐘'
                OR b IS DISTINCT FROM CASE WHEN id % 2 = 1
                    THEN '\\x00'::bytea || set_byte('\\x00'::bytea, 0, (id % 256)::int) || '\\x5c'::bytea END
                OR ok <> (id % 3 = 0) OR f <> id / 8.0 OR n <> id
            """)
        #expect(try wrong.int64(0, 0) == 0)
        var sum: Int64 = 0
        var nulls = 0
        try connection.copyOutRows("COPY c TO STDOUT WITH (FORMAT binary)") { row in
            #expect(row.columnCount == 6)
            sum += try row.int64(0)
            nulls += row.isNull(2) ? 1 : 0
            let id = try row.int64(0)
            #expect(row.withBytes(1) { $0.count } ?? 0 > 20)
            if try row.bool(3) != (id % 3 == 0) || row.double(4) != Double(id) / 8 || row.int64(5) != id {
                throw Stop()
            }
        }
        #expect(sum == 100_000 * 100_001 / 2)
        #expect(nulls == 50_000)
        var pieces = 0
        try connection.copyOut("COPY c (id) TO STDOUT") { _ in pieces += 1 }
        #expect(pieces == 100_000)
    }

    @Test func nothingAtAll() throws {
        let connection = try connect()
        #expect(try connection.copyIn("COPY c FROM STDIN WITH (FORMAT binary)") { _ in } == 0)
        try connection.copyOutRows("COPY c TO STDOUT WITH (FORMAT binary)") { _ in Issue.record("a row") }
        try connection.copyOut("COPY c TO STDOUT") { _ in Issue.record("a row") }
    }

    @Test func anErrorOfTheBodyUndoesTheCopy() throws {
        let connection = try connect()
        #expect(throws: Stop.self) {
            try connection.copyIn("COPY c FROM STDIN") { writer in
                for id in 1...20_000 as ClosedRange<Int64> { try write(&writer, id) }
                throw Stop()
            }
        }
        #expect(try connection.execute("SELECT count(*) FROM c").int64(0, 0) == 0)
    }

    @Test(arguments: [10, 100_000]) func anErrorOfTheServerIsThrown(rows: Int64) throws {
        let connection = try connect()
        let error = #expect(throws: PostgresError.self) {
            try connection.copyIn("COPY c FROM STDIN") { writer in
                try write(&writer, 1)
                for id in 1...rows { try write(&writer, id) }
            }
        }
        #expect(error?.kind == .server(sqlState: "23505"))
        #expect(try connection.execute("SELECT count(*) FROM c").int64(0, 0) == 0)
    }

    @Test func unfittingRowsAndTextsAreRefused() throws {
        let connection = try connect()
        let short = #expect(throws: PostgresError.self) {
            try connection.copyIn("COPY c FROM STDIN") { writer in
                writer.beginRow()
                writer.appendInt8(1)
                try writer.endRow()
            }
        }
        #expect(short?.message == "row 1 has 1 values for 6 columns")
        let nul = #expect(throws: PostgresError.self) {
            try connection.copyIn("COPY c (t) FROM STDIN") { writer in
                writer.beginRow()
                try writer.appendText("a\0")
            }
        }
        #expect(nul?.kind == .invalidParameter)
        #expect(try connection.execute("SELECT count(*) FROM c").int64(0, 0) == 0)
    }

    @Test func wrongStatements() throws {
        let connection = try connect()
        #expect(throws: PostgresError.self) { try connection.copyIn("SELECT 1") { _ in } }
        #expect(throws: PostgresError.self) { try connection.copyOut("SELECT 1") { _ in } }
        #expect(throws: PostgresError.self) { try connection.copyIn("COPY no_such_table FROM STDIN") { _ in } }
        #expect(throws: PostgresError.self) { try connection.copyOutRows("COPY (SELECT 1) TO STDOUT") { _ in } }
        #expect(throws: PostgresError.self) {
            try connection.copyOut("COPY (SELECT 1) TO STDOUT") { _ in try connection.execute("SELECT 1") }
        }
        #expect(try connection.execute("SELECT 1").rowCount == 1)
        #expect(throws: PostgresError.self) { try connection.execute("COPY c FROM STDIN") }
        #expect(!connection.isOpen)
    }

    @Test func stoppingEarlyLeavesTheConnectionUsable() throws {
        let connection = try connect()
        var seen = 0
        #expect(throws: Stop.self) {
            try connection.copyOut("COPY (SELECT generate_series(1, 3000000)) TO STDOUT") { _ in
                seen += 1
                if seen == 10 { throw Stop() }
            }
        }
        #expect(seen == 10)
        #expect(throws: Stop.self) {
            try connection.forEachRow("SELECT generate_series(1, 3000000)") { row in
                if try row.int64(0) == 20 { throw Stop() }
            }
        }
        #expect(try connection.execute("SELECT 1").int64(0, 0) == 1)
    }

    @Test func closingInTheMiddleIsSafe() throws {
        let copying = try connect()
        let error = #expect(throws: PostgresError.self) {
            try copying.copyIn("COPY c FROM STDIN") { writer in
                for id in 1...50_000 as ClosedRange<Int64> {
                    if id == 10 { copying.close() }
                    // Continuing after an error is a mistake, but must have no further effect.
                    try? write(&writer, id)
                }
            }
        }
        #expect(error?.isConnectionLost == true)
        let streaming = try connect()
        let second = #expect(throws: PostgresError.self) {
            try streaming.forEachRow("SELECT generate_series(1, 3000000)") { _ in streaming.close() }
        }
        #expect(second?.isConnectionLost == true)
        #expect(!streaming.isOpen)
    }

    @Test func rowsStream() throws {
        let connection = try connect()
        var sum: Int64 = 0
        try connection.forEachRow("SELECT generate_series(1, $1), 'text', NULL", [.int8(100_000)]) { row in
            sum += try row.int64(0)
            if try row.string(1) != "text" || !row.isNull(2) { throw Stop() }
        }
        #expect(sum == 100_000 * 100_001 / 2)
        let error = #expect(throws: PostgresError.self) {
            try connection.forEachRow("SELECT 10 / (5 - generate_series(1, 10))") { _ in }
        }
        #expect(error?.sqlState == "22012")
        try connection.forEachRow("SELECT 1 WHERE false") { _ in Issue.record("a row") }
        #expect(try connection.execute("SELECT 1").rowCount == 1)
    }
}
