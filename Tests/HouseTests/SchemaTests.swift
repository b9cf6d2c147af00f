import Testing

/// Checks that only LogStore contains SQL of schema `pathmirror`: other targets call its functions.
@Suite struct SchemaTests {
    /// SQL words before a table or a function.
    private static let commands: Set<String> = [
        "from", "into", "update", "join", "table", "select", "call", "lateral", "exists", "delete", "insert", "schema",
        "on", "function", "using", "truncate", "lock",
    ]

    @Test func onlyLogStoreNamesTheSchema() {
        for file in SourceFiles.swift(below: "Sources") where file.room != "LogStore" {
            for (index, line) in file.lines.enumerated() where Self.namesSchema(line) {
                Issue.record("\(file.path):\(index + 1) has SQL of schema pathmirror")
            }
        }
    }

    /// Checks that only LogStore contains `LISTEN` and `NOTIFY`.
    @Test func onlyLogStoreListens() {
        for file in SourceFiles.swift(below: "Sources") where !["LogStore", "Postgres"].contains(file.room) {
            for (index, line) in file.lines.enumerated() {
                let code = Self.withoutComment(line)
                for sign in ["\"listen ", "pg_notify(", "waitForNotifications("] where code.contains(sign) {
                    Issue.record("\(file.path):\(index + 1) has \(sign)")
                }
            }
        }
    }

    /// Whether the schema's name follows an SQL command in this line.
    private static func namesSchema(_ line: String) -> Bool {
        let code = withoutComment(line)
        var rest = code[...]
        while let found = rest.firstRange(of: "pathmirror.") {
            let before = code[..<found.lowerBound].split(whereSeparator: { !$0.isLetter }).last.map { $0.lowercased() }
            let after = rest[found.upperBound...].first
            if let before, commands.contains(before), after?.isLetter == true || after == "\\" { return true }
            rest = rest[found.upperBound...]
        }
        return false
    }

    private static func withoutComment(_ line: String) -> String {
        guard let comment = line.firstRange(of: "//"), !line[..<comment.lowerBound].contains("\"") else { return line }
        return String(line[..<comment.lowerBound])
    }

    @Test func sqlIsDistinguishedFromWords() {
        #expect(Self.namesSchema("    select seq from pathmirror.log where true"))
        #expect(Self.namesSchema("\"delete from pathmirror.\\(table)\""))
        #expect(Self.namesSchema("select pathmirror.set('a', '/b', '1')"))
        #expect(!Self.namesSchema("/// Names this gateway in `pathmirror.mirror_run`, from pathmirror.log"))
        #expect(!Self.namesSchema("comment: \"see pathmirror.mirror_error.\""))
    }
}
