import Mirrors

/// A JSON value with its expected result for each column type.
struct ValueCase: CustomStringConvertible {
    /// The name of a kind of value in messages.
    enum Kind: String {
        case boolean = "a boolean"
        case number = "a number"
        case text = "a text"
        case object = "an object"
    }

    let json: String
    let kind: Kind
    /// The column's value as PostgreSQL writes it, or a `!` followed by the conversion error. Types that are not listed
    /// refuse the value with their usual reason for its kind.
    let outcomes: [ColumnType: String]

    init(_ json: String, _ kind: Kind, _ outcomes: [ColumnType: String]) {
        self.json = json
        self.kind = kind
        self.outcomes = outcomes
    }

    var description: String { String(json.prefix(60)) }

    /// Returns the column's value, or nil if the value does not fit.
    func value(_ type: ColumnType) -> String? {
        guard let outcome = outcomes[type], !outcome.hasPrefix("!") else { return nil }
        return outcome
    }

    /// Returns the conversion error, or nil if the value fits.
    func reason(_ type: ColumnType) -> String? {
        if let outcome = outcomes[type] { return outcome.hasPrefix("!") ? String(outcome.dropFirst()) : nil }
        if kind == .object {
            return type == .textArray
                ? "an object that is neither a set of keys nor a list of strings"
                : "an object where a single value should be"
        }
        switch (type, kind) {
        case (.numeric, .text): return "the text is not a decimal number"
        case (.timestamp, .text): return "the text is not an ISO 8601 time"
        case (.date, .text): return "the text is not a date such as 2026-01-31, nor an ISO 8601 time"
        case (.timestamp, .number), (.date, .number): return "the time is outside the years 1 to 9999"
        case (.bigint, .number): return "the number is not a whole number of 64 bits"
        case (.bigint, _): return "\(kind.rawValue) where a whole number should be"
        case (.double, _), (.numeric, _): return "\(kind.rawValue) where a number should be"
        case (.boolean, _): return "\(kind.rawValue) where a boolean should be"
        case (.timestamp, _): return "\(kind.rawValue) where a time should be"
        case (.date, _): return "\(kind.rawValue) where a date should be"
        case (.uuid, _): return "\(kind.rawValue) where a UUID should be"
        case (.textArray, _): return "\(kind.rawValue) where a set of keys should be"
        case (.text, _), (.jsonb, _): return nil
        }
    }

    static let all = booleans + wholeNumbers + numbers + texts + decimals + times + uuids + objects

    private static let booleans = [
        ValueCase("true", .boolean, [.text: "true", .boolean: "true", .jsonb: "true"]),
        ValueCase("false", .boolean, [.text: "false", .boolean: "false", .jsonb: "false"]),
    ]

    private static func whole(_ json: String, time: String? = nil, _ others: [ColumnType: String] = [:]) -> ValueCase {
        var outcomes: [ColumnType: String] = [
            .text: json, .bigint: json, .double: json, .numeric: json, .jsonb: json,
        ]
        if let time {
            outcomes[.timestamp] = time + "+00"
            outcomes[.date] = String(time.prefix(10))
        }
        return ValueCase(json, .number, outcomes.merging(others) { $1 })
    }

    private static let wholeNumbers = [
        whole("0", time: "1970-01-01 00:00:00"),
        whole("1", time: "1970-01-01 00:00:00.001"),
        whole("-1", time: "1969-12-31 23:59:59.999"),
        whole("-86400001", time: "1969-12-30 23:59:59.999"),
        whole("951782400000", time: "2000-02-29 00:00:00", [.double: "951782400000"]),
        whole("1700000000123", time: "2023-11-14 22:13:20.123"),
        // The first and last times that a table accepts, and their neighbors outside the range.
        whole("-62135596800000", time: "0001-01-01 00:00:00"),
        whole("-62135596800001"),
        whole("253402300799999", time: "9999-12-31 23:59:59.999"),
        whole("253402300800000"),
        whole("9007199254740993", [.double: "9.007199254740992e+15"]),
        whole("9223372036854775807", [.double: "9.223372036854776e+18"]),
        whole("-9223372036854775808", [.double: "-9.223372036854776e+18"]),
    ]

    private static let numbers = [
        ValueCase(
            "0.5", .number,
            [
                .text: "0.5", .double: "0.5", .numeric: "0.5", .timestamp: "1970-01-01 00:00:00.0005+00",
                .date: "1970-01-01", .jsonb: "0.5",
            ]),
        ValueCase(
            "-0.25", .number,
            [
                .text: "-0.25", .double: "-0.25", .numeric: "-0.25", .timestamp: "1969-12-31 23:59:59.99975+00",
                .date: "1969-12-31", .jsonb: "-0.25",
            ]),
        ValueCase(
            "1700000000000.125", .number,
            [
                .text: "1700000000000.125", .double: "1700000000000.125", .numeric: "1700000000000.125",
                .timestamp: "2023-11-14 22:13:20.000125+00", .date: "2023-11-14", .jsonb: "1700000000000.125",
            ]),
        ValueCase(
            "9223372036854775808", .number,
            [
                .text: "9.223372036854776e+18", .double: "9.223372036854776e+18", .numeric: "9223372036854776000",
                .jsonb: "9223372036854776000",
            ]),
        ValueCase(
            "1e300", .number,
            [
                .text: "1e+300", .double: "1e+300", .numeric: "1" + String(repeating: "0", count: 300),
                .jsonb: "1" + String(repeating: "0", count: 300),
            ]),
        ValueCase(
            "5e-300", .number,
            [
                .text: "5e-300", .double: "5e-300", .numeric: "0." + String(repeating: "0", count: 299) + "5",
                .timestamp: "1970-01-01 00:00:00+00", .date: "1970-01-01",
                .jsonb: "0." + String(repeating: "0", count: 299) + "5",
            ]),
    ]

    private static func text(_ json: String, _ text: String, _ others: [ColumnType: String] = [:]) -> ValueCase {
        ValueCase(json, .text, [.text: text, .jsonb: json].merging(others) { $1 })
    }

    private static let texts = [
        text("\"\"", ""),
        text("\"plain\"", "plain"),
        text("\"NULL\"", "NULL"),
        text(#""\\N""#, "\\N"),
        text(#""{\"a\",b}""#, "{\"a\",b}"),
        text(#""tab\tline\nreturn\rback\\slash""#, "tab\tline\nreturn\rback\\slash"),
        text("\"é€🎈\"", "é€🎈"),
        text("\"e\u{301} \u{FEFF}\u{2028}\"", "e\u{301} \u{FEFF}\u{2028}"),
        text("\"\u{7F}\"", "\u{7F}"),
        text(#""'; drop table x; --""#, "'; drop table x; --"),
        text("\"true\"", "true"),
        text("\"\(String(repeating: "long ", count: 2_000))\"", String(repeating: "long ", count: 2_000)),
        ValueCase(
            #""a\u0000b""#, .text,
            [
                .text: "!the text holds U+0000, which PostgreSQL can't store",
                .jsonb: "!a text holds U+0000, which jsonb can't store",
            ]),
        // A backslash followed by the text u0000.
        text(#""\\u0000""#, "\\u0000"),
    ]

    private static let decimals = [
        text("\"12\"", "12", [.numeric: "12"]),
        text("\"12.50\"", "12.50", [.numeric: "12.50"]),
        text("\"-0.00\"", "-0.00", [.numeric: "0.00"]),
        text("\"+7\"", "+7", [.numeric: "7"]),
        text("\"1e5\"", "1e5", [.numeric: "100000"]),
        text("\"1E-5\"", "1E-5", [.numeric: "0.00001"]),
        text("\"00012\"", "00012", [.numeric: "12"]),
        text(
            "\"123456789012345678901234567890.123456789\"", "123456789012345678901234567890.123456789",
            [.numeric: "123456789012345678901234567890.123456789"]),
        text("\"1e1001\"", "1e1001"),
        text("\"NaN\"", "NaN"),
        text("\"Infinity\"", "Infinity"),
        text("\"1.\"", "1."),
        text("\".5\"", ".5"),
        text("\" 1\"", " 1"),
        text("\"1 \"", "1 "),
        text("\"0x10\"", "0x10"),
        text("\"1_000\"", "1_000"),
        text("\"１\"", "１"),
    ]

    private static func time(_ text: String, _ stored: String?) -> ValueCase {
        guard let stored else { return Self.text("\"\(text)\"", text) }
        return Self.text("\"\(text)\"", text, [.timestamp: stored + "+00", .date: String(stored.prefix(10))])
    }

    private static let times = [
        time("2026-01-31", "2026-01-31 00:00:00"),
        time("2026-01-31T23:59:59Z", "2026-01-31 23:59:59"),
        time("2026-01-31t23:59z", "2026-01-31 23:59:00"),
        time("2026-01-31 23:59", "2026-01-31 23:59:00"),
        time("2026-01-31T23:59:59.5Z", "2026-01-31 23:59:59.5"),
        time("2026-01-31T23:59:59,123456789Z", "2026-01-31 23:59:59.123456"),
        time("2026-01-31T23:59:59+01:00", "2026-01-31 22:59:59"),
        // The day in UTC.
        time("2026-01-31T23:30:00-01:00", "2026-02-01 00:30:00"),
        time("2026-01-01T00:30:00+0100", "2025-12-31 23:30:00"),
        time("2026-01-31T12:00:00+14", "2026-01-30 22:00:00"),
        time("2024-02-29", "2024-02-29 00:00:00"),
        time("0001-01-01", "0001-01-01 00:00:00"),
        time("9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59.999999"),
        time("0001-01-01T00:00:00+00:01", nil),
        time("9999-12-31T23:59:59-00:01", nil),
        time("2023-02-29", nil),
        time("2026-13-01", nil),
        time("2026-00-10", nil),
        time("0000-01-01", nil),
        time("2026-1-1", nil),
        time("2026-01-31T24:00:00Z", nil),
        time("2026-01-31T23:60:00Z", nil),
        time("2026-01-31T23:59:60Z", nil),
        time("2026-01-31T23:59:59.Z", nil),
        time("2026-01-31T", nil),
        time("2026-01-31T23", nil),
        time("2026-01-31Z", nil),
        time("2026-01-31T23:59:59+25:00", nil),
        time("2026-01-31T23:59:59+01:60", nil),
        time("2026-01-31T23:59:59 UTC", nil),
        time(" 2026-01-31", nil),
        // Not a date, but a number.
        text("\"20260131\"", "20260131", [.numeric: "20260131"]),
        time("infinity", nil),
        time("now", nil),
    ]

    private static let uuids = [
        text(
            "\"00000000-0000-0000-0000-000000000000\"", "00000000-0000-0000-0000-000000000000",
            [.uuid: "00000000-0000-0000-0000-000000000000"]),
        text(
            "\"A0EEBC99-9c0b-4ef8-BB6D-6bb9bd380a11\"", "A0EEBC99-9c0b-4ef8-BB6D-6bb9bd380a11",
            [.uuid: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
        text("\"a0eebc999c0b4ef8bb6d6bb9bd380a11\"", "a0eebc999c0b4ef8bb6d6bb9bd380a11"),
        text("\"{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}\"", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"),
        text("\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g\"", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g"),
        text("\"a0eebc999-c0b-4ef8-bb6d-6bb9bd380a11\"", "a0eebc999-c0b-4ef8-bb6d-6bb9bd380a11"),
    ]

    private static func object(_ json: String, _ members: String?, stored: String? = nil) -> ValueCase {
        var outcomes: [ColumnType: String] = [.jsonb: stored ?? json]
        if let members { outcomes[.textArray] = members }
        return ValueCase(json, .object, outcomes)
    }

    /// PostgreSQL writes objects with spaces, and sorts members by the length of their keys.
    private static let objects = [
        object(#"{"a": true, "b": true}"#, "{a,b}"),
        object(#"{"a": true, "b": false}"#, "{a}"),
        object(#"{"a": false}"#, "{}"),
        object(#"["x", "y"]"#, "{x,y}"),
        object(#"["", "NULL", "a b", "q\"\\", "{},"]"#, #"{"","NULL","a b","q\"\\","{},"}"#),
        object(#"["é🎈"]"#, "{é🎈}"),
        object(
            #"{"a b": true, "NULL": true, "q\"\\": true, "{},": true}"#, #"{"NULL","a b","q\"\\","{},"}"#, stored: nil),
        object(#"{"a": true, "b": 1}"#, nil),
        object(#"{"a": "x"}"#, nil),
        object(#"["x", 1]"#, nil),
        object(#"["x", null, "z"]"#, "{x,NULL,z}"),
        object(#"[["x"]]"#, nil),
        object(
            #"{"deep": {"er": [1, 2.5, {"x": null, "y": "é"}]}}"#, nil,
            stored: #"{"deep": {"er": [1, 2.5, {"y": "é"}]}}"#),
        object(#"[true, true]"#, "{0,1}"),
        ValueCase(
            #"["a\u0000"]"#, .object,
            [.jsonb: "!a text holds U+0000, which jsonb can't store"]),
    ]
}
