import Testing
import Tree

@testable import Mirrors

/// Tests of the projection of one record: defaults, missing values, conversion errors and the rest column.
@Suite struct ProjectorTests {
    private func project(
        _ columns: String, _ record: String, rest: String? = nil, keys: [String] = ["r"]
    ) throws -> (row: ProjectedRow?, errors: [ConversionError]) {
        let rest = rest.map { ", \"rest\": \"\($0)\"" } ?? ""
        let projector = Projector(
            try definition("{\"name\": \"m\", \"path\": \"/a/{k}\", \"columns\": {\(columns)}\(rest)}"))
        var errors: [ConversionError] = []
        let row = projector.row(
            try node(record), keys: keys.map { Key($0) }, stamp: Stamp(seq: 7, committedAt: 1),
            conversionErrors: &errors)
        return (row, errors)
    }

    private static let plain = #""x": "bigint""#
    private static let defaulted = #""x": {"type": "bigint", "default": 5}"#
    private static let standIn = #""x": {"type": "bigint", "default": 5, "not null": "default"}"#
    private static let skip = #""x": {"type": "bigint", "not null": "skip"}"#
    private static let skipDefault = #""x": {"type": "bigint", "default": 5, "not null": "skip"}"#
    private static let error = #""x": {"type": "bigint", "not null": "error"}"#
    private static let missing = "a required value is missing"
    private static let unfit = "a text where a whole number should be"

    /// Checks each option with a value that is present, absent, or of the wrong type. A nil row means no row.
    @Test(
        arguments: [
            (plain, #"{"x": 1}"#, "1", [], []),
            (plain, #"{"y": 1}"#, "NULL", [], []),
            (plain, #"{"x": "t"}"#, "NULL", ["x"], [unfit]),
            (defaulted, #"{"x": 1}"#, "1", [], []),
            (defaulted, #"{"y": 1}"#, "5", [], []),
            // A present but wrong value is not replaced by the default of a column that allows NULL.
            (defaulted, #"{"x": "t"}"#, "NULL", ["x"], [unfit]),
            (standIn, #"{"x": 1}"#, "1", [], []),
            (standIn, #"{"y": 1}"#, "5", [], []),
            (standIn, #"{"x": "t"}"#, "5", ["x"], [unfit]),
            (skip, #"{"x": 1}"#, "1", [], []),
            (skip, #"{"y": 1}"#, nil, [], []),
            (skip, #"{"x": "t"}"#, nil, [], [unfit]),
            (skipDefault, #"{"y": 1}"#, "5", [], []),
            (error, #"{"x": 1}"#, "1", [], []),
            (error, #"{"y": 1}"#, nil, [], [missing]),
            (error, #"{"x": "t"}"#, nil, [], [unfit]),
        ] as [(String, String, String?, [String], [String])])
    func oneColumn(column: String, record: String, cell: String?, conversionErrors: [String], reasons: [String]) throws
    {
        let (row, errors) = try project(column, record)
        #expect(row.map { shown($0.cells[0]) } == cell)
        if let row { #expect(row.conversionErrors == conversionErrors && row.stamp == Stamp(seq: 7, committedAt: 1)) }
        #expect(errors.map(\.reason) == reasons)
        for error in errors {
            #expect((error.record, error.column, error.path, error.seq) == ("/a/r", "x", "/a/r/x", 7))
            #expect(error.value == (error.reason == Self.missing ? nil : #""t""#))
        }
    }

    @Test(arguments: [
        (#"{"x": 1, "y": 2}"#, #"{"y":2}"#), (#"{"x": 1}"#, "NULL"), (#"{"x": "t", "y": 2}"#, #"{"x":"t","y":2}"#),
        (#"{"x": 1, "d": {"e": 2, "f": 3}}"#, #"{"d":{"f":3}}"#), (#"{"d": {"e": 2}}"#, "NULL"),
        (#"{"d": "leaf"}"#, #"{"d":"leaf"}"#),
        (#""leaf""#, #""leaf""#), ("5", "5"), (#"{"x": 1, "list": [1, null, 3]}"#, #"{"list":[1,null,3]}"#),
        (#"{"x": {".value": 1, ".priority": 2}, "y": {".value": 3, ".priority": 4}}"#, #"{"y":3}"#),
    ])
    func theRestIsWhatNoColumnTakes(record: String, rest: String) throws {
        let (row, errors) = try project(#""x": "bigint", "e": {"type": "bigint", "path": "d/e"}"#, record, rest: "rest")
        #expect(row.map { shown($0.cells[2]) } == rest)
        #expect(errors.count == (record.contains("\"t\"") ? 1 : 0))
    }

    /// Checks that the faster path for columns directly in the record gives the same result.
    @Test(arguments: [
        (#"{"x": 1, "y": 2}"#, "NULL"), (#"{"x": 1, "y": 2, "z": 3}"#, #"{"z":3}"#),
        (#"{"x": "t", "y": 2}"#, #"{"x":"t"}"#), (#"{"z": {"x": 1}}"#, #"{"z":{"x":1}}"#),
        (#""leaf""#, #""leaf""#), (#"{".priority": 5, "x": 1}"#, "NULL"),
    ])
    func theRestBesideShallowColumns(record: String, rest: String) throws {
        let (row, _) = try project(#""x": "bigint", "y": "bigint""#, record, rest: "rest")
        #expect(row.map { shown($0.cells[2]) } == rest)
    }

    @Test func aRestThatJSONBCannotHoldIsAnError() throws {
        let (row, errors) = try project(#""x": "bigint""#, #"{"x": 1, "y": "a\u0000"}"#, rest: "rest")
        #expect(row?.conversionErrors == ["rest"] && row.map { shown($0.cells[1]) } == "NULL")
        #expect(errors.map(\.column) == ["rest"] && errors[0].path == "/a/r" && errors[0].value == #"{"y":"a\u0000"}"#)
    }

    /// Checks that only the text that `jsonb` cannot hold is omitted.
    @Test func onlyTheTextIsLeftOutOfTheRest() throws {
        let record = #"{"x": 1, "bad": "a\u0000", "deep": {"ok": [1, "\u0000", 3], "no": "\u0000b", "yes": true}}"#
        let (row, errors) = try project(#""x": "bigint""#, record, rest: "rest")
        #expect(row?.conversionErrors == ["rest"])
        #expect(row.map { shown($0.cells[1]) } == #"{"deep":{"ok":[1,null,3],"yes":true}}"#)
        #expect(errors.map(\.column) == ["rest"] && errors[0].path == "/a/r/bad" && errors[0].value == #""a\u0000""#)
        #expect(
            errors[0].reason
                == "the text holds U+0000, which jsonb can't store, and so do 2 more in the value: left out")
    }

    @Test func onlyTheTextIsLeftOutOfAColumn() throws {
        let columns =
            #""j": {"type": "jsonb", "not null": "skip"}, "n": {"type": "jsonb", "default": "d", "not null": "default"}"#
        let (row, errors) = try project(
            columns, #"{"j": {"a": "\u0000", "b": 1}, "n": {"a": "\u0000"}, "z": 1}"#, rest: "rest")
        // Nothing remains of the second value. It has a conversion error, and stays in the rest column, which cannot
        // hold it either.
        #expect(row.map { $0.cells.map(shown) } == [#"{"b":1}"#, #""d""#, #"{"z":1}"#])
        #expect(row?.conversionErrors == ["j", "n", "rest"])
        #expect(errors.map(\.path) == ["/a/r/j/a", "/a/r/n", "/a/r/n/a"])
    }

    @Test func theRecordItselfAndPriorities() throws {
        let columns =
            #""all": {"type": "jsonb", "path": "."}, "p": {"type": "bigint", "path": ".priority"}, "q": {"type": "text", "path": "x/.priority"}"#
        let (row, errors) = try project(columns, #"{".priority": 9, "x": {".value": 1, ".priority": "low"}}"#)
        #expect(row.map { $0.cells.map(shown) } == [#"{"x":1}"#, "9", "'low'"])
        #expect(errors.isEmpty)
        let (leaf, _) = try project(columns, #"{".value": true, ".priority": 3}"#)
        #expect(leaf.map { $0.cells.map(shown) } == ["true", "3", "NULL"])
    }

    @Test func severalConversionErrorsAreAllNamed() throws {
        let columns = #""a": "bigint", "b": "boolean", "c": {"type": "text", "not null": "error"}, "d": "date""#
        let (row, errors) = try project(columns, #"{"a": "x", "b": 1, "d": {"e": 1}}"#)
        #expect(row == nil)
        #expect(errors.map(\.column) == ["a", "b", "c", "d"])
        #expect(errors.map(\.value) == [#""x""#, "1", nil, #"{"e":1}"#])
    }

    /// Checks that records that the filter excludes have neither a row nor errors.
    @Test(arguments: [
        ("data.child('x').val() > 5", #"{"x": 6}"#, true), ("data.child('x').val() > 5", #"{"x": 5}"#, false),
        ("data.child('x').val() > 5", #"{"x": "t"}"#, false), ("$k == 'r'", #"{"x": 1}"#, true),
        ("$k != 'r'", #"{"x": "t"}"#, false), ("data.getPriority() == 2", #"{".priority": 2, "x": 1}"#, true),
        ("data.isString()", #""leaf""#, true), ("!data.hasChild('gone')", #"{"x": 1, "gone": {"at": 5}}"#, false),
        ("data.child('a/b').val().matches(/^o/)", #"{"a": {"b": "open"}}"#, true),
    ])
    func filters(text: String, record: String, isWanted: Bool) throws {
        let projector = Projector(
            try definition(#"{"name": "m", "path": "/a/{k}", "filter": "\#(text)", "columns": {"x": "bigint"}}"#))
        var errors: [ConversionError] = []
        let row = projector.row(
            try node(record), keys: [Key("r")], stamp: Stamp(seq: 7, committedAt: 1), conversionErrors: &errors)
        #expect((row != nil) == isWanted && (isWanted || errors.isEmpty))
    }

    @Test func nothingMakesNoRow() throws {
        let (row, errors) = try project(Self.error, "null")
        #expect(row == nil && errors.isEmpty)
    }

    /// Checks that a row's key must fit into an index.
    @Test(arguments: [(2_400, true), (2_401, false)]) func keysEndSomewhere(bytes: Int, fits: Bool) throws {
        let projector = Projector(try definition(#"{"name": "m", "path": "/{i}/{j}/{k}/{l}"}"#))
        let lengths = [700, 700, 700, bytes - 2_100]
        var errors: [ConversionError] = []
        let row = projector.row(
            try node(#"{"x": 1}"#), keys: lengths.map { Key(String(repeating: "k", count: $0)) },
            stamp: Stamp(seq: 1, committedAt: nil),
            conversionErrors: &errors)
        #expect((row != nil) == fits)
        #expect(
            errors.map(\.reason)
                == (fits ? [] : ["the captured keys have 2401 bytes together; a row's key has at most 2400"]))
        #expect(errors.allSatisfy { $0.column == "" && $0.path == $0.record && $0.value == #"{"x":1}"# })
    }

    /// Checks that long values are cut between characters.
    @Test(arguments: ["", "x", "xy", "xyz"]) func longValuesAreCut(shift: String) throws {
        let text = shift + String(repeating: "🎈", count: 2_000)
        let cut = Projector.shown(.string(text))
        #expect(cut.hasPrefix("\"" + shift + "🎈") && cut.hasSuffix("🎈…"))
        #expect((4_090...4_100).contains(cut.utf8.count))
        #expect(!cut.unicodeScalars.contains("\u{FFFD}"))
        #expect(Projector.shown(.string("short")) == "\"short\"")
        let edge = String(repeating: "x", count: 4_094)
        #expect(Projector.shown(.string(edge)) == "\"\(edge)\"")
        #expect(Projector.shown(.string(edge + "x")).hasSuffix("…"))
    }
}
