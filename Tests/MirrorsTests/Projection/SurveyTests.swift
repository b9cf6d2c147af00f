import Testing
import Tree

@testable import Mirrors

/// Tests of the column type that values suggest.
@Suite struct SurveyTests {
    private func best(_ values: [String]) throws -> String {
        let found = try values.enumerated().map {
            ColumnSurvey.Found(record: $0.offset, value: try JSONParser.parse(Array($0.element.utf8)).node)
        }
        guard let survey = ColumnSurvey(found) else { return "none" }
        let others = survey.alternatives.map { " or \($0.rawValue)" }.joined()
        return "\(survey.type.rawValue)\(others), \(survey.conversionErrors.count)"
    }

    @Test(arguments: [
        (["true", "false"], "boolean, 0"), (["1", "2"], "bigint, 0"), (["1", "2.5"], "double precision, 0"),
        (["1", "2", "2.5"], "double precision, 0"),
        (["1.5"], "double precision, 0"), (["\"a\"", "\"b\""], "text, 0"),
        (["1700000000000"], "timestamptz or bigint, 0"),
        (["1700000000000", "5"], "bigint, 0"), (["978307199999"], "bigint, 0"),
        (["978307200000"], "timestamptz or bigint, 0"),
        (["\"2026-01-31\""], "date, 0"), (["\"2026-01-31T00:00:00Z\""], "timestamptz, 0"),
        (["\"2026-01-31\"", "\"x\""], "text, 0"),
        (["\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\""], "uuid, 0"),
        (["\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"", "\"x\"", "\"y\""], "text, 0"),
        (["{\"a\":true}", "{\"b\":true,\"c\":true}"], "text[], 0"),
        // Amounts of money are numbers. Codes are texts that could be numbers.
        (["\"12.50\"", "\"0.99\"", "\"-3.00\""], "numeric or text, 0"), (["\"12.50\"", "3"], "numeric or text, 0"),
        // Version numbers are not numbers.
        (["\"1.1\"", "\"1.10\""], "text or numeric, 0"), (["\"1.1\"", "\"1.1\"", "\"1.2\""], "numeric or text, 0"),
        (["\"004\"", "\"276\""], "text or numeric, 0"), (["\"01.5\""], "text or numeric, 0"),
        (["\"12.50\"", "\"free\"", "\"?\""], "text, 0"),
        // A type that fits all values is better than one that fits most.
        (["1", "2", "\"x\""], "text, 0"), (["true", "true", "1"], "text, 0"), (["\"x\"", "1"], "none"),
        (["1", "2", "\"1.50\""], "numeric or text, 0"), (["1", "2", "{\"a\":1}"], "jsonb, 0"),
        (["{\"a\":true}", "{\"b\":true}", "1"], "jsonb, 0"), (["\"x\"", "\"y\"", "{\"a\":1}"], "jsonb, 0"),
        (["\"x\"", "\"y\"", "1"], "text, 0"), (["true", "1", "\"x\""], "none"),
    ])
    func theTypeThatMostValuesFit(values: [String], expected: String) throws {
        #expect(try best(values) == expected)
    }

    /// Checks that one value of fifty may be left as a conversion error of the type that fits all others.
    @Test(arguments: [(49, 1, "bigint"), (48, 1, "text"), (98, 2, "bigint"), (97, 2, "text"), (51, 49, "text")])
    func aFewThatDoNotFit(numbers: Int, texts: Int, type: String) throws {
        let values = Array(repeating: Node.int(1), count: numbers) + Array(repeating: .string("x"), count: texts)
        let survey = try #require(
            ColumnSurvey(values.enumerated().map { ColumnSurvey.Found(record: $0.offset, value: $0.element) }))
        #expect(survey.type.rawValue == type && survey.conversionErrors.count == (type == "text" ? 0 : texts))
    }

    @Test(arguments: [
        ("12", "free", ColumnType.numeric), ("2026-01-31", "soon", .date), ("2026-01-31T00:00:00Z", "", .timestamp),
        ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "none", .uuid),
    ])
    func theTypeThatNearlyAllFit(value: String, other: String, type: ColumnType) throws {
        // One of ten is reported, one of nine is too many, and zero is no exception.
        for (count, others, expected) in [(9, 1, [9]), (8, 1, nil), (10, 0, nil)] as [(Int, Int, [Int]?)] {
            let texts = Array(repeating: value, count: count) + Array(repeating: other, count: others)
            let found = texts.enumerated().map { ColumnSurvey.Found(record: $0.offset, value: .string($0.element)) }
            let nearly = ColumnSurvey(found, as: .text).nearly
            #expect(nearly?.conversionErrors == expected && (nearly == nil || nearly?.type == type))
        }
    }

    @Test func numbersWithOneFraction() throws {
        let found = (0..<10).map { ColumnSurvey.Found(record: $0, value: $0 == 4 ? .double(1.5) : .int(7)) }
        let survey = try #require(ColumnSurvey(found))
        #expect(survey.type == .double && survey.nearly?.type == .bigint && survey.nearly?.conversionErrors == [4])
    }

    @Test(arguments: [Node.int(-5), .int(5), .int(253_402_300_800_000), .double(1.5)])
    func numbersThatAreTimesButOne(other: Node) throws {
        for (count, isSaid) in [(9, true), (8, false)] {
            let found = (0...count).map {
                ColumnSurvey.Found(record: $0, value: $0 == 3 ? other : .int(1_700_000_000_000 + Int64($0)))
            }
            let survey = try #require(ColumnSurvey(found))
            #expect(survey.conversionErrors.isEmpty, "the type that is proposed takes all of them")
            #expect(
                survey.nearly?.conversionErrors == (isSaid ? [3] : nil)
                    && (!isSaid || survey.nearly?.type == .timestamp))
        }
    }

    /// Checks that one text among times makes the column a timestamp, including the number that then means 1970.
    @Test func anOddNumberAmongTimes() throws {
        let found = (0..<20).map { number -> ColumnSurvey.Found in
            let value: Node =
                switch number {
                case 5: .int(1_793_606_400)
                case 6: .string("2026-11-05T10:00:00Z")
                default: .int(1_793_606_400_000 + Int64(number))
                }
            return .init(record: number, value: value)
        }
        let survey = try #require(ColumnSurvey(found))
        #expect(survey.type == .timestamp && survey.conversionErrors.isEmpty)
        #expect(survey.nearly?.type == .timestamp && survey.nearly?.conversionErrors == [5])
    }

    @Test func secondsButOne() throws {
        for (count, expected) in [(9, true), (8, false)] {
            let found = (0...count).map { ColumnSurvey.Found(record: $0, value: .int($0 == 3 ? 0 : 1_700_000_000)) }
            #expect(try #require(ColumnSurvey(found)).areSeconds == expected)
        }
    }

    @Test(arguments: [
        ([1_700_000_000], true), ([978_307_200, 4_102_444_800], true), ([978_307_199], false),
        ([1_700_000_000, 5], false),
        ([1_700_000_000_000], false),
    ])
    func secondsSince1970(numbers: [Int64], expected: Bool) throws {
        let found = numbers.enumerated().map { ColumnSurvey.Found(record: $0.offset, value: .int($0.element)) }
        #expect(try #require(ColumnSurvey(found)).areSeconds == expected)
    }
}
