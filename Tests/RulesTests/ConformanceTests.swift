import Foundation
import Rules
import Testing

/// Checks the reference's complete table of cases.
@Suite struct ConformanceTests {
    @Test func everyCaseOfTheReferenceHolds() throws {
        let url = try #require(Bundle.module.url(forResource: "Fixtures/rules-conformance", withExtension: "json"))
        let report = try RulesConformance.run(Array(try Data(contentsOf: url)))
        #expect(report.results.count == 533)
        #expect(report.failed == 0, "\(report.description)")
    }
}
