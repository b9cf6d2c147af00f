import TestSupport
import Testing

@testable import pathmirror

/// Checks that one entry is undone, or that the conflicting entries are listed.
@Suite struct LogUndoCommandTests {
    @discardableResult
    private static func undo(_ database: CommandDatabase, _ seq: Int) throws -> CommandRun {
        let run = try database.run(["log", "undo", "\(seq)", "--yes"])
        #expect(run.exitCode == 0, "\(run.errors)")
        return run
    }

    @Test func aRemovalAndItsUndo() throws {
        try withHistory { database throws in
            let run = try Self.undo(database, 7)
            #expect(
                run.output == """
                    Plan to undo entry 7 of default, remove /users/ada:
                      adds     2 leaves: /users/ada/name, /users/ada/posts
                      changes  0 leaves
                      removes  0 leaves
                    Entry 7 is undone by entry 9.
                    To reverse it: pathmirror log undo 9 --ns default

                    """)
            #expect(try database.tree()["users"] == ["ada": ["name": "Ada", "posts": 2]])
            try Self.undo(database, 9)
            #expect(try database.tree() == pastTrees[8])
            #expect(try database.output("log", "verify").hasPrefix("clean"))
            let last = try #require(try database.json("log", "show", "9").first)
            #expect(last["op"] == "set" && last["path"] == "/users/ada" && last["origin"]?["undoes"] == 7)
        }
    }

    /// Undone entries, and the entries that undid them, conflict with nothing.
    @Test func allTheWayBackAndForth() throws {
        try withHistory { database throws in
            for seq in (1...8).reversed() {
                try Self.undo(database, seq)
                #expect(try database.tree() == pastTrees[seq - 1], "seq \(seq)")
            }
            #expect(
                try database.failure("log", "undo", "3", "--yes")
                    == "pathmirror: Entry 3 was undone by entry 14. Nothing was changed. To reverse that: pathmirror log undo 14 --ns default\n"
            )
            for seq in (9...16).reversed() { try Self.undo(database, seq) }
            #expect(try database.tree() == pastTrees[8])
            try Self.undo(database, 8)
            #expect(try database.tree() == pastTrees[7])
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func whatLaterEntriesWrote() throws {
        try withHistory { database throws in
            let run = try database.run(["log", "undo", "1", "--yes"])
            #expect(run.exitCode == 1 && run.output.isEmpty)
            #expect(
                run.errors == """
                    2  2026-01-31T12:02:00.000Z  administrator by sql as pathmirror  set     /users/ada/posts
                    3  2026-01-31T12:03:00.000Z  administrator by sql as pathmirror  update  /users/bob/posts
                    5  2026-01-31T12:05:00.000Z  administrator by sql as pathmirror  remove  /users/bob
                    7  2026-01-31T12:07:00.000Z  administrator by sql as pathmirror  remove  /users/ada
                    pathmirror: Entry 1 can't be undone: 4 later entries wrote at, above or below the same paths. Nothing was changed. Undo those first, the newest first, or restore a path by 'pathmirror replay tree --at 0 --path PATH --ns default --into default --replace'.

                    """)
            #expect(try database.value("select head::text from pathmirror.namespace") == "8")
        }
    }

    @Test func severalPathsAndPriorities() throws {
        try withHistory { database throws in
            try database.execute(
                """
                select pathmirror.set('default', '/m', '{"a": {"x": 1, ".priority": 5}, "b": 2, "c": 3}');
                select pathmirror.update('default', '/m', '{"a/x": null, "b/deep/er": true, "c": 4, "new/one": 6}');
                """)
            let run = try Self.undo(database, 10)
            #expect(run.output.contains("  adds     3 leaves: /m/a/.priority, /m/a/x, /m/b\n"), "\(run.output)")
            #expect(run.output.contains("  changes  1 leaf: /m/c\n"))
            #expect(run.output.contains("  removes  2 leaves: /m/b/deep/er, /m/new/one\n"))
            #expect(try database.tree()["m"] == ["a": ["x": 1, ".priority": 5], "b": 2, "c": 3])
            try database.set("/m/a/.priority", "8")
            try Self.undo(database, 12)
            #expect(try database.tree()["m"]?["a"] == ["x": 1, ".priority": 5])
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func anImport() throws {
        try withHistory { database throws in
            try database.json("import", "-", "--path", "/users", input: #"{"eve": {"name": "Eve"}}"#)
            try database.json("import", "-", "--path", "/list", input: #"{"0": "z"}"#)
            try Self.undo(database, 10)
            #expect(try database.tree()["list"] == pastTrees[8]["list"])
            try database.set("/users/eve/name", #""Eva""#)
            let said = try database.failure("log", "undo", "9", "--yes")
            #expect(said.contains("12  ") && said.contains("/users/eve/name") && said.contains("1 later entry wrote"))
        }
    }

    @Test func whatWasPruned() throws {
        try withHistory { database throws in
            try database.json("log", "prune", "--keep", "3 entries", "--yes")
            #expect(
                try database.failure("log", "undo", "5", "--yes").hasPrefix(
                    "pathmirror: Entry 5 can't be undone: it was pruned. The log begins at 6."))
            // The prune keeps the tree before the first remaining entry.
            try Self.undo(database, 6)
            #expect(try database.tree()["list"] == nil)
            try database.execute("delete from pathmirror.snapshot_chunk; delete from pathmirror.snapshot")
            #expect(
                try database.failure("log", "undo", "7", "--yes").hasPrefix(
                    "pathmirror: Entry 7 can't be undone: the state before it was pruned. The log and the snapshots reach back to the tree at seq 9."
                ))
        }
    }

    @Test func whatCannotBeUndone() throws {
        try withHistory { database throws in
            try database.output("rules", "set", "-", input: #"{"rules": {".read": true}}"#)
            #expect(
                try database.failure("log", "undo", "9", "--yes")
                    == "pathmirror: Entry 9 changed the security rules, which 'log undo' does not change. 'pathmirror rules history --ns default' lists the rules, and 'pathmirror rules rollback SEQ --ns default' puts earlier ones in force.\n"
            )
            #expect(try database.failure("log", "undo", "10").contains("There is no entry 10: the head is 9."))
            try database.set("/list/0", #""a""#)
            #expect(
                try database.failure("log", "undo", "10").contains(
                    "Entry 10 changed nothing: there is nothing to undo."))
            for text in ["0", "x", "2026-01-31", "1.5"] {
                let run = try database.run(["log", "undo", text])
                #expect(run.exitCode == 2 && run.errors.contains("SEQ must be the seq of an entry"), "\(run.errors)")
            }
        }
    }

    @Test func withoutYes() throws {
        try withHistory { database throws in
            let run = try database.run(["log", "undo", "8"], input: "y\n")
            #expect(run.exitCode == 1)
            #expect(run.output.hasPrefix("Plan to undo entry 8 of default, set /posts/2/deep:\n"))
            #expect(
                run.errors == "pathmirror: Nothing was changed. Add --yes to execute the plan without being asked.\n"
            )
            #expect(try database.tree() == pastTrees[8])
        }
    }

    /// The root itself was a value, or was removed.
    @Test func theRoot() throws {
        try withHistory { database throws in
            try database.set("/", "5")
            try database.set("/a/b", "1")
            try Self.undo(database, 10)
            #expect(try database.tree() == 5)
            try Self.undo(database, 11)
            try Self.undo(database, 12)
            try database.execute("select pathmirror.remove('default', '/')")
            try Self.undo(database, 14)
            #expect(try database.tree() == 5)
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }
}
