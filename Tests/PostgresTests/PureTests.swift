import Testing

@testable import Postgres

/// Tests without a server: labels of statements, the hosts of a URL, texts of errors, and binary COPY data that is
/// truncated or contains wrong lengths.
@Suite struct PureTests {
    // MARK: Labels

    /// Checks that a label ends before the first literal, which may be data, and is a short single line.
    @Test(arguments: [
        ("select 1", "select 1"), ("  select\n\t1  ", "select 1 "), ("select 'secret'", "select …"),
        ("select E'x'", "select E…"),
        ("do $$ secret $$", "do $…"), ("do $tag$ x", "do $tag$ x"), ("select $1", "select $1"), ("", ""), ("\n", ""),
        ("insert into t values ('a', 'b')", "insert into t values (…"),
    ])
    func labelsEndBeforeLiterals(sql: String, label: String) {
        #expect(statementLabel(sql) == label)
    }

    @Test func labelsAreShort() {
        let label = statementLabel("select " + String(repeating: "é, ", count: 1_000))
        #expect(label.unicodeScalars.count == 61)
        #expect(label.hasSuffix("…"))
    }

    // MARK: Hosts

    /// Checks each host with its options, in order, and its share of the connection time.
    @Test(arguments: [
        ("host=a", ["a:- 1"]), ("", ["-:- 1"]), ("host=a port=7", ["a:7 1"]), ("host=a,b", ["a:- 2", "b:- 1"]),
        ("host=a,b port=7", ["a:7 2", "b:7 1"]), ("host=a,b,c port=1,2,3", ["a:1 3", "b:2 2", "c:3 1"]),
        ("host=a,b port=1,2", ["a:1 2", "b:2 1"]), ("host=/run/a,b", ["/run/a:- 2", "b:- 1"]),
        ("host=a,,c", ["a:- 3", "-:- 2", "c:- 1"]), ("host=a port=1", ["a:1 1"]),
    ])
    func hostsAreTriedOneByOne(text: String, expected: [String]) throws {
        let attempts = try PostgresURL(text).attempts
        #expect(
            attempts.map { "\($0.options["host"] ?? "-"):\($0.options["port"] ?? "-") \($0.attemptsLeft)" } == expected)
    }

    /// Checks that `prefer-standby` gives two passes, as in libpq: first standbys, then any server.
    @Test func standbysFirst() throws {
        let attempts = try PostgresURL("host=a,b target_session_attrs=prefer-standby").attempts
        let shown = attempts.map {
            "\($0.options["host"] ?? "") \($0.options["target_session_attrs"] ?? "") \($0.attemptsLeft)"
        }
        #expect(shown == ["a standby 4", "b standby 3", "a any 2", "b any 1"])
        let one = try PostgresURL("host=a,b target_session_attrs=read-write").attempts
        #expect(one.allSatisfy { $0.options["target_session_attrs"] == "read-write" })
    }

    @Test func addressesGoWithTheirNames() throws {
        let attempts = try PostgresURL("host=a,b hostaddr=10.0.0.1,10.0.0.2 user=me").attempts
        #expect(attempts.map { $0.options["hostaddr"] } == ["10.0.0.1", "10.0.0.2"])
        #expect(attempts.allSatisfy { $0.options["user"] == "me" })
        #expect(PostgresURL.list(nil) == [])
        #expect(PostgresURL.list("a,,b,") == ["a", "", "b", ""])
    }

    @Test func urlsAreChangedAsValues() throws {
        let url = try PostgresURL("postgresql://me:hunter2@db/shop")
        let other = url.withDatabase("x").withApplicationName("y")
        #expect(url.databaseName == "shop")
        #expect(other.databaseName == "x")
        #expect(other.options["application_name"] == "y")
        #expect(other.options["password"] == "hunter2")
        #expect(other != url)
        #expect(try PostgresURL("dbname=shop host=db user=me password=hunter2") == url)
        #expect(PostgresURL(socketDirectory: "/run", user: "u", database: "d").description == "u@/run:5432/d")
    }

    // MARK: Errors

    @Test(arguments: [
        ("40001", true), ("40P01", true), ("26000", true), ("55P03", false), ("23505", false), ("57014", false),
        ("", false), ("0A000", false),
    ])
    func whatMayBeTriedAgain(state: String, isRetriable: Bool) {
        let error = PostgresError(.server(sqlState: state), "m")
        #expect(error.isRetriable == isRetriable)
        #expect(error.sqlState == state)
        #expect(!error.isConnectionLost)
        // The same state with a lost connection does not make an error retriable.
        #expect(!PostgresError(.connectionLost, "m").isRetriable)
    }

    @Test func aPlanThatChangedMayBeTriedAgain() {
        #expect(PostgresError(.server(sqlState: "0A000"), "cached plan must not change result type").isRetriable)
    }

    @Test(arguments: [
        (PostgresError.Kind.connectionLost, true), (.timeout, true), (.cancelled, true), (.connect, false),
        (.server(sqlState: "57P01"), false),
        (.invalidURL, false), (.invalidParameter, false), (.decoding, false), (.protocol, false),
    ])
    func whatLeavesACommitUnknown(kind: PostgresError.Kind, isLost: Bool) {
        #expect(PostgresError(kind, "m").isConnectionLost == isLost)
    }

    /// Checks that an error's text contains each known detail once, and nothing else.
    @Test func errorsAsText() {
        var error = PostgresError(.server(sqlState: "23505"), "m", hint: "h", statement: "s")
        #expect("\(error)" == "m [SQLSTATE 23505] in «s»; h")
        error.step = 2
        error.detail = "d"
        #expect("\(error)" == "m [SQLSTATE 23505] in «s» (step 2 of the pipeline); d; h")
        #expect("\(PostgresError(.timeout, "only this"))" == "only this")
        #expect(PostgresError.firstLine("one\ntwo") == "one")
        #expect(PostgresError.firstLine("\n\n") == "no message")
        #expect(PostgresError.firstLine(nil) == "no message")
    }

    // MARK: Identifiers

    @Test(arguments: [
        ("a", "\"a\""), ("", "\"\""), ("A b", "\"A b\""), ("\"", "\"\"\"\""), ("a\"\"b", "\"a\"\"\"\"b\""),
        ("é\u{301}", "\"é\u{301}\""),
        ("x\0y", "\"xy\""), ("select; --", "\"select; --\""),
    ])
    func identifiers(name: String, quoted: String) {
        #expect(Array(quotedIdentifier(name).unicodeScalars) == Array(quoted.unicodeScalars))
    }

    // MARK: Binary COPY

    private func header(extensionLength: UInt32 = 0) -> [UInt8] {
        copySignature + [0, 0, 0, 0] + withUnsafeBytes(of: extensionLength.bigEndian) { Array($0) }
    }

    /// The bytes of a row: the length and bytes of each field. Nil is NULL.
    private func row(_ fields: [[UInt8]?]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.appendBigEndian(Int16(fields.count))
        for field in fields {
            bytes.appendBigEndian(Int32(field?.count ?? -1))
            bytes += field ?? []
        }
        return bytes
    }

    private func decode(_ pieces: [[UInt8]]) throws -> [[[UInt8]?]] {
        var decoder = BinaryCopyDecoder()
        var rows: [[[UInt8]?]] = []
        for piece in pieces {
            try piece.withUnsafeBytes { buffer in
                guard try decoder.decode(buffer) else { return }
                rows.append(decoder.fields.map { range in range.map { Array(buffer[$0]) } })
            }
        }
        return rows
    }

    @Test func rowsOfACopy() throws {
        let first: [[UInt8]?] = [[1, 2], nil, []]
        let second: [[UInt8]?] = [[UInt8](repeating: 7, count: 300)]
        let trailer: [UInt8] = [0xFF, 0xFF]
        #expect(try decode([header() + row(first), row(second), trailer]) == [first, second])
        // The header may arrive alone, and may have an extension.
        #expect(try decode([header(), row(first), trailer]) == [first])
        #expect(try decode([header(extensionLength: 3) + [9, 9, 9] + row(second)]) == [second])
        #expect(try decode([header() + row([])]) == [[]])
        #expect(try decode([header() + trailer]) == [])
    }

    /// Checks that truncated data and wrong lengths throw, without a read beyond the data.
    @Test func dataThatLies() throws {
        let whole = header() + row([[1, 2, 3], nil, [4]])
        for count in 0..<whole.count where count != header().count {
            #expect(throws: PostgresError.self, "cut at \(count)") { try decode([Array(whole[..<count])]) }
        }
        #expect(throws: PostgresError.self) { try decode([whole + [0]]) }
        var wrong = whole
        wrong[0] ^= 1
        #expect(throws: PostgresError.self) { try decode([wrong]) }
        #expect(throws: PostgresError.self) { try decode([header(extensionLength: .max) + row([])]) }
        #expect(throws: PostgresError.self) { try decode([header(), [0, 1, 0x7F, 0xFF, 0xFF, 0xFF, 1]]) }
        #expect(throws: PostgresError.self) { try decode([header(), [0x7F, 0xFF]]) }
        // Any negative length is NULL.
        #expect(try decode([header(), [0, 1, 0x80, 0, 0, 0]]) == [[nil]])
    }

    /// Returns the kind of error that reading a row throws, or nil if reading succeeds.
    private func failure(_ body: () throws -> Void) -> PostgresError.Kind? {
        do {
            try body()
            return nil
        } catch {
            return (error as? PostgresError)?.kind
        }
    }

    @Test func fieldsOfARowAreChecked() throws {
        let bytes: [UInt8] = [1, 0, 0, 0, 2, 0xC3, 0x28]
        let ranges: [Range<Int>?] = [0..<1, 1..<5, nil, 5..<7, 5..<5]
        try bytes.withUnsafeBytes { buffer in
            let row = BinaryCopyRow(buffer, ranges)
            let count = row.columnCount
            #expect(count == 5)
            let flag = try row.bool(0)
            #expect(flag)
            let number = try row.int64(1)
            #expect(number == 2)
            let nulls = [row.isNull(0), row.isNull(2), row.isNull(5), row.isNull(-1)]
            #expect(nulls == [false, true, true, true])
            let raw = try row.bytes(3)
            #expect(raw == [0xC3, 0x28])
            let text = try row.string(4)
            #expect(text == "")
            let sizes = [row.withBytes(2) { $0.count }, row.withBytes(9) { $0.count }, row.withBytes(3) { $0.count }]
            #expect(sizes == [nil, nil, 2])
            let failures = [
                failure { _ = try row.int64(0) }, failure { _ = try row.int64(2) }, failure { _ = try row.int64(7) },
                failure { _ = try row.double(0) }, failure { _ = try row.unixMicroseconds(1) },
                failure { _ = try row.bool(1) },
            ]
            #expect(failures == Array(repeating: .decoding, count: 6))
        }
    }
}
