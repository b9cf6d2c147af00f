import PathmirrorClient
import TestSupport
import Testing

/// Checks that the table of error codes in docs/reference/client.md has the cases of `DatabaseError.Code`, and no others.
@Suite struct ErrorCodeTests {
    @Test func theTableHasTheCodes() {
        let rows = RepositoryFile("docs/reference/client.md").text
            .matches(of: #/^\| ([0-9]+) \| `([A-Za-z]+)` \| /#.anchorsMatchLineEndings())
            .map { "\($0.1) \($0.2)" }
        #expect(rows == DatabaseError.Code.allCases.map { "\($0.rawValue) \($0)" })
    }
}
