import TestSupport
import Testing

@testable import LogStore

/// Checks the SQLSTATEs of the schema's functions against the table from which docs/reference/sqlstates.md is
/// generated.
///
/// `PATHMIRROR_WRITE_REFERENCE=1` writes the page before the comparison.
@Suite struct SchemaErrorCodeTests {
    @Test func thePageIsPrintedFromTheTable() {
        var text = """
            # SQLSTATEs

            Functions of schema `pathmirror` raise these codes, and PostgreSQL's own.
            `SchemaErrorCode` in `Sources/LogStore` has the table from which this page is printed.

            | code | meaning | what to do |
            | --- | --- | --- |

            """
        for code in SchemaErrorCode.allCases { text += "| `\(code.rawValue)` | \(code.meaning) | \(code.remedy) |\n" }
        #expect(
            RepositoryFile("docs/reference/sqlstates.md").reference(printed: text) == text,
            "run: PATHMIRROR_WRITE_REFERENCE=1 make test ROOM=LogStore FILTER=SchemaErrorCodeTests")
    }

    @Test func functionsRaiseWhatTheTableHas() {
        var raised: Set<String> = []
        for file in FunctionFiles.all {
            let sql = String(decoding: file.sql, as: UTF8.self)
            raised.formUnion(sql.matches(of: /errcode = '(PM[0-9]+)'/).map { String($0.1) })
        }
        #expect(raised == Set(SchemaErrorCode.allCases.map(\.rawValue)))
    }
}
