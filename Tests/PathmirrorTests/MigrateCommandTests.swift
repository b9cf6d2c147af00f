import LogStore
import TestSupport
import Testing

@testable import pathmirror

/// Checks that commands create and show the schema, and that no command works with another version's schema.
@Suite struct MigrateCommandTests {
    private static func withEmpty(_ body: (CommandDatabase) throws -> Void) throws {
        try TestDatabase.withEmpty { try body(CommandDatabase($0)) }
    }

    @Test func upAndStatus() throws {
        try Self.withEmpty { database throws in
            let before = try database.run(["migrate", "status"])
            #expect(before.exitCode == 1)
            #expect(before.lines.filter { !$0.hasPrefix("functions/") }.count == Migrations.all.count)
            #expect(before.lines.allSatisfy { $0.hasSuffix("  missing") })
            #expect(
                before.errors
                    == "pathmirror: The database's schema is at version 0, this program needs \(Migrations.newest): run 'pathmirror migrate up'.\n"
            )
            let up = try database.output("migrate", "up").split(separator: "\n").map(String.init)
            #expect(
                up.filter { $0.hasPrefix("applied ") && !$0.hasPrefix("applied functions/") }.count
                    == Migrations.all.count
            )
            #expect(up.last == "The schema is at version \(Migrations.newest).")
            let after = try database.output("migrate", "status").split(separator: "\n")
            #expect(after.count == before.lines.count)
            #expect(after.allSatisfy { $0.contains("  applied 20") && $0.hasSuffix("Z") })
            // No migration remains.
            #expect(try !database.output("migrate", "up").contains("applied "))
        }
    }

    @Test func forPrograms() throws {
        try Self.withEmpty { database throws in
            let missing = try database.run(["migrate", "status", "--json"])
            #expect(missing.exitCode == 1)
            let rows = try missing.json()
            #expect(rows.compactMap { $0["version"]?.int } == Migrations.all.map(\.version))
            #expect(rows.allSatisfy { $0["appliedAt"] == .null })
            let up = try #require(try database.json("migrate", "up").first)
            #expect(up["version"]?.int == Migrations.newest)
            #expect(up["applied"]?.items.count == Migrations.all.count)
            let again = try #require(try database.json("migrate", "up").first)
            #expect(again["applied"]?.items == [])
            let status = try database.json("migrate", "status")
            #expect(status.count == rows.count)
            #expect(status.allSatisfy { $0["appliedAt"]?.string?.hasSuffix("Z") == true })
            #expect(status.filter { $0["version"] != .null }.map { $0["name"] } == up["applied"]?.items)
            #expect(again["functions"]?.items == [])
        }
    }

    @Test func nothingWorksWithoutTheSchema() throws {
        try Self.withEmpty { database throws in
            for arguments in [
                ["log", "ls"], ["log", "verify"], ["export"], ["rules", "get"], ["mirror", "ls"], ["replay", "log"],
                ["diff", "a", "b"],
            ] {
                let run = try database.run(arguments)
                #expect(run.exitCode == (arguments[0] == "diff" ? 2 : 1), "\(arguments)")
                #expect(run.output.isEmpty, "\(arguments)")
                #expect(run.errors.contains("run 'pathmirror migrate up'"), "\(arguments)")
            }
        }
    }

    @Test func aNewerSchemaIsRefused() throws {
        try withCommands { database throws in
            try database.execute(
                "insert into pathmirror.migration (version, name, checksum) select max(version) + 1, 'later', 'x' from pathmirror.migration"
            )
            for arguments in [["log", "ls"], ["migrate", "up"]] {
                let run = try database.run(arguments)
                #expect(run.exitCode == 1)
                #expect(run.errors.contains("use a newer pathmirror"))
            }
        }
    }
}
