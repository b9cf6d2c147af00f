import Testing
import Tree

@testable import Mirrors

/// What values suggest for a column.
@Suite struct SurveyTests {
    private func best(_ values: [String]) throws -> String {
        var survey = Survey()
        for value in values { survey.take(try node(value)) }
        let place = try #require(survey.places[Path(splitting: "x")])
        #expect(place.present == values.count { $0.contains("\"x\"") })
        return place.best.map { "\($0.type.rawValue), \($0.misfits)" } ?? "none"
    }

    @Test(arguments: [
        (["true", "false"], "boolean, 0"), (["1", "2"], "bigint, 0"), (["1", "2.5"], "double precision, 0"),
        (["1", "2", "2.5"], "double precision, 0"),
        (["1.5"], "double precision, 0"), (["\"a\"", "\"b\""], "text, 0"), (["1700000000000"], "timestamptz, 0"),
        (["1700000000000", "5"], "bigint, 0"), (["978307199999"], "bigint, 0"), (["978307200000"], "timestamptz, 0"),
        (["\"2026-01-31\""], "date, 0"), (["\"2026-01-31T00:00:00Z\""], "timestamptz, 0"),
        (["\"2026-01-31\"", "\"x\""], "text, 0"),
        (["\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\""], "uuid, 0"),
        (["\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\"", "\"x\"", "\"y\""], "text, 0"),
        (["{\"a\":true}", "{\"b\":true,\"c\":true}"], "text[], 0"),
        // The most of them decide; the others don't fit.
        (["1", "2", "\"x\""], "bigint, 1"), (["true", "true", "1"], "boolean, 1"), (["\"x\"", "1"], "none"),
        (["true", "1", "\"x\""], "none"),
    ])
    func theTypeThatMostValuesFit(values: [String], expected: String) throws {
        #expect(try best(values.map { "{\"x\":\($0)}" }) == expected)
    }

    @Test func absentValuesCountForNothing() throws {
        #expect(try best(["{\"x\":1}", "{\"y\":1}", "{\"y\":\"t\"}"]) == "bigint, 0")
    }

    @Test func placesAreThoseOfLeavesAndSetsDownToFourLevels() throws {
        var survey = Survey()
        survey.take(
            try node(
                #"{"a":1,"b":{"c":{"d":{"e":1,"f":{"g":1}}}},"tags":{"x":true},"mixed":{"x":true,"y":1},"p":{".value":1,".priority":2}}"#
            ))
        survey.take(try node("\"leaf\""))
        let places = Set(survey.places.keys.map(\.description))
        #expect(places == ["/a", "/b/c/d/e", "/tags", "/mixed/x", "/mixed/y", "/p", "/"])
        #expect(survey.recordCount == 2)
    }

    @Test func recordsWithKeysOfTheirOwnAreNotFollowedForEver() throws {
        var survey = Survey()
        for number in 0..<3_000 { survey.take(try node("{\"k\(number)\":1}")) }
        #expect(survey.places.count == 2_000)
        #expect(survey.recordCount == 3_000)
    }

    @Test func placesKeepTheOrderOfTheirAppearance() throws {
        var survey = Survey()
        survey.take(try node(#"{"b":1,"c":1}"#))
        survey.take(try node(#"{"a":1,"b":1}"#))
        let order = survey.places.sorted { $0.value.order < $1.value.order }.map(\.key.description)
        #expect(order == ["/b", "/c", "/a"])
    }
}
