import Testing

/// Checks that the table of public cases names sources, and tests that exist.
@Suite struct CompatibilityTests {
    private static let page = "docs/reference/compatibility.md"
    private static let columns = 3

    /// A row of a table: its three cells.
    struct Row: Equatable {
        let source: String
        let expectation: String
        let test: String
    }

    @Test func everyCaseHasATest() {
        let rows = Self.rows(of: SourceFiles.text(Self.page))
        #expect(rows.count >= 20, "\(Self.page) has its tables")
        for row in rows {
            #expect(Self.namesASource(row.source), "no owner/repo#number: \(row.source)")
            #expect(!row.expectation.isEmpty, "no expectation: \(row.source)")
            let tests = Self.tests(in: row.test)
            #expect(!tests.isEmpty, "no test: \(row.source)")
            for (file, name) in tests {
                #expect(Self.defines(name, SourceFiles.text(file)), "there is no \(file)::\(name)")
            }
        }
    }

    // MARK: Reading

    /// The rows of every table whose columns are the case, the client's expectation, and the test.
    static func rows(of text: String) -> [Row] {
        var rows: [Row] = []
        var isInTable = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let cells = Self.cells(of: line)
            if cells.count != columns {
                isInTable = false
            } else if cells[0] == "case", cells[1] == "what the client expects", cells[2].hasPrefix("test") {
                isInTable = true
            } else if isInTable, !cells[0].allSatisfy({ $0 == "-" || $0 == ":" }) {
                rows.append(Row(source: cells[0], expectation: cells[1], test: cells[2]))
            }
        }
        return rows
    }

    /// The cells of a table's line, trimmed; a bar after a backslash is text.
    private static func cells(of line: Substring) -> [String] {
        guard line.first == "|", line.last == "|", line.count > 1 else { return [] }
        var cells = [""]
        var isEscaped = false
        for character in line.dropFirst().dropLast() {
            if character == "|", !isEscaped {
                cells.append("")
            } else {
                cells[cells.count - 1].append(character)
            }
            isEscaped = character == "\\"
        }
        return cells.map { cell in
            let start = cell.drop { $0 == " " }
            return String(String(start.reversed()).drop { $0 == " " }.reversed())
        }
    }

    /// `owner/repo#number`, anywhere in the text.
    static func namesASource(_ text: String) -> Bool {
        text.contains(/[A-Za-z0-9][A-Za-z0-9-]*\/[A-Za-z0-9._-]+#[0-9]+/)
    }

    /// Returns the tests between backticks, written as `file::name`.
    static func tests(in text: String) -> [(file: String, name: String)] {
        text.split(separator: "`", omittingEmptySubsequences: false).enumerated().compactMap { offset, part in
            guard offset % 2 == 1, let range = part.firstRange(of: "::") else { return nil }
            return (String(part[..<range.lowerBound]), String(part[range.upperBound...]))
        }
    }

    /// Whether a file of Swift, Python, JavaScript, Go or a shell defines a function of this name, or has a test of it.
    static func defines(_ name: String, _ text: String) -> Bool {
        [
            "func \(name)(", "func `\(name)`(", "def \(name)(", "function \(name)(", "\(name)() {", "test(\"\(name)\"",
            "it(\"\(name)\"",
        ].contains { text.contains($0) }
    }

    @Test func rowsAreRead() {
        let page = """
            text
            | case | what the client expects | test |
            | --- | --- | --- |
            | a/b#1: x \\| y | `z` | `T/f.py::g` |

            | other | table |
            | --- | --- |
            | a | b |
            """
        #expect(Self.rows(of: page) == [Row(source: "a/b#1: x \\| y", expectation: "`z`", test: "`T/f.py::g`")])
        #expect(Self.namesASource("owner-x/some.repo_y#12: text"))
        #expect(!Self.namesASource("owner/repo 12") && !Self.namesASource("repo#12"))
        #expect(Self.tests(in: "`a/b.swift::c`, `d.py::e`").map(\.name) == ["c", "e"])
        #expect(Self.defines("a", "  @Test func a() {") && Self.defines("a", "\ndef a(x):\n"))
        #expect(!Self.defines("a", "func ab() {"))
    }
}
