import LogStore
import TestSupport
import Testing
import Tree

@testable import pathmirror

/// Checks that a restore lists its additions, changes and removals, and asks before it removes.
@Suite struct TreeRestoreTests {
    /// Entry 9: values of bob that did not exist at seq 3.
    private static func withBob(_ body: (CommandDatabase) throws -> Void) throws {
        try withHistory { database throws in
            try database.set("/users/bob", #"{"name": "Robert", "a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}"#)
            try body(database)
        }
    }

    private static let restore = [
        "replay", "tree", "--at", "3", "--path", "/users/bob", "--into", "default", "--replace",
    ]
    private static let plan = """
        Plan for /users/bob of default at seq 9:
          adds     1 leaf: /users/bob/posts
          changes  1 leaf: /users/bob/name
          removes  6 leaves: /users/bob/a, /users/bob/b, /users/bob/c, /users/bob/d, /users/bob/e and 1 more

        """
    private static let what = "the tree at seq 3, 2 leaves, from the beginning of the log and 3 entries"

    @Test func theDryRunAndTheResultSayWhatGoes() throws {
        try Self.withBob { database throws in
            let dry = try database.run(Self.restore + ["--dry-run"])
            #expect(dry.exitCode == 0 && dry.output == Self.plan + "Would write \(Self.what).\n", "\(dry.errors)")
            #expect(try database.value("select head::text from pathmirror.namespace") == "9")
            let done = try database.run(Self.restore + ["--yes"])
            #expect(
                done.output == Self.plan + """
                    default holds \(Self.what); its seq is 10.
                    To reverse it: pathmirror log undo 10 --ns default

                    """)
            #expect(try database.tree()["users"] == ["bob": ["name": "Bob", "posts": 1]])
            #expect(try database.output("log", "verify").hasPrefix("clean"))
            // A second run has nothing to do, and asks nothing.
            let again = try database.run(Self.restore)
            #expect(
                again.exitCode == 0
                    && again.output.hasSuffix("\nNothing was written: default holds \(Self.what) already.\n"))
            #expect(try database.value("select head::text from pathmirror.namespace") == "10")
            // The printed command.
            #expect(try database.run(["log", "undo", "10", "--ns", "default", "--yes"]).exitCode == 0)
            #expect(try database.tree()["users"]?["bob"]?["f"] == 6)
        }
    }

    /// The data at a path without earlier data is removed.
    @Test func anEmptyTreeReplacesData() throws {
        try Self.withBob { database throws in
            let restore = ["replay", "tree", "--at", "5", "--path", "/users/bob", "--into", "default"]
            #expect(try database.failure("replay", "tree", "--at", "0", "--into", "other").contains("was empty then"))
            let asked = try database.run(restore + ["--replace"])
            #expect(asked.exitCode == 1 && asked.output.contains("removes  "), "\(asked.output)\(asked.errors)")
            let done = try database.run(restore + ["--replace", "--yes"])
            #expect(done.exitCode == 0, "\(done.errors)")
            #expect(try database.tree()["users"]?["bob"] == nil)
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func forPrograms() throws {
        try Self.withBob { database throws in
            let run = try database.run(Self.restore + ["--yes", "--json"])
            let report = try #require(try run.json().first)
            #expect(report["intoSeq"] == 10 && report["undo"] == "pathmirror log undo 10 --ns default")
            #expect(report["changes"]?["added"] == ["count": 1, "firstPaths": ["/users/bob/posts"]])
            #expect(report["changes"]?["changed"]?["count"] == 1)
            #expect(report["changes"]?["removed"]?["count"] == 6)
        }
    }

    @Test func withoutYes() throws {
        try Self.withBob { database throws in
            let run = try database.run(Self.restore, input: "y\n")
            #expect(run.exitCode == 1 && run.output == Self.plan)
            #expect(
                run.errors == "pathmirror: Nothing was changed. Add --yes to execute the plan without being asked.\n"
            )
            #expect(try database.value("select head::text from pathmirror.namespace") == "9")
        }
    }

    @Test(arguments: [("y\n", true), ("n\n", false)]) func askedOnATerminal(_ answer: String, _ isDone: Bool) throws {
        try Self.withBob { database throws in
            let terminal = try PseudoTerminal()
            let output = try ScratchFile()
            let console = Console(
                output: output.descriptor, errors: terminal.descriptor, input: terminal.descriptor,
                signals: ScriptedSignals())
            terminal.type(answer)
            let code = Commands.run(
                Self.restore + ["--database-url", database.connectionText], console, Environment(values: [:]))
            #expect(code == (isDone ? 0 : 1))
            #expect(terminal.shown.contains("Execute this plan? [y/N] "))
            #expect(output.text.hasPrefix(Self.plan))
            #expect(try database.value("select head::text from pathmirror.namespace") == (isDone ? "10" : "9"))
        }
    }

    /// Checks that a restore that only adds does not ask.
    @Test func nothingIsAskedWhereNothingGoes() throws {
        try withHistory { database throws in
            let run = try database.run(
                ["replay", "tree", "--at", "6", "--path", "/users/ada", "--into", "default", "--replace"])
            #expect(run.exitCode == 0, "\(run.errors)")
            #expect(
                run.output.contains("  adds     2 leaves: /users/ada/name, /users/ada/posts\n  changes  0 leaves\n"))
            #expect(try database.tree()["users"] == ["ada": ["name": "Ada", "posts": 2]])
        }
    }

    /// A value above the path is removed, too.
    @Test func aValueAboveIsInThePlan() throws {
        try withHistory { database throws in
            try database.set("/users", "5")
            let run = try database.run(Self.restore)
            #expect(run.exitCode == 1)
            #expect(run.output.contains("  removes  1 leaf: /users\n"))
            #expect(try database.tree()["users"] == 5)
        }
    }

    @Test func onlyWhatIsMissing() throws {
        try withHistory { database throws in
            try database.set("/users/ada", #"{"name": "Ada Lovelace", "new": true}"#)
            let words = ["replay", "tree", "--at", "4", "--into", "default", "--missing-only"]
            let plan = """
                Plan for / of default at seq 9:
                  adds     3 leaves: /users/ada/posts, /users/bob/name, /users/bob/posts
                  changes  0 leaves
                  removes  0 leaves

                """
            #expect(
                try database.run(words + ["--dry-run"]).output == plan
                    + "Would restore 3 leaves of the tree at seq 4.\n")
            let before = try database.tree()
            let run = try database.run(words)
            #expect(
                run.output == plan + """
                    Restored 3 leaves of the tree at seq 4 in default; its seq is 10.
                    To reverse it: pathmirror log undo 10 --ns default

                    """)
            #expect(
                try database.tree()["users"] == [
                    "ada": ["name": "Ada Lovelace", "new": true, "posts": 2], "bob": ["name": "Bob", "posts": 1],
                ])
            #expect(try database.tree()["posts"] == before["posts"] && database.tree()["list"] == before["list"])
            #expect(try database.output("log", "verify").hasPrefix("clean"))
            let again = try database.run(words)
            #expect(
                again.output.hasSuffix("\nNothing was written: no node of the tree at seq 4 is missing in default.\n"))
            #expect(try database.run(["log", "undo", "10", "--yes"]).exitCode == 0)
            #expect(try database.tree() == before)
        }
    }

    /// Restores the missing nodes of the tree at seq 4. `planned` runs after each plan, and gets its number.
    private static func restoreMissing(
        _ database: CommandDatabase, _ options: [String] = [], planned: (Int) throws -> Void
    ) throws -> (run: CommandRun, outcome: TreeRestore.Outcome?, failure: String) {
        let (output, errors, input) = (try ScratchFile(), try ScratchFile(), try ScratchFile())
        let console = Console(
            output: output.descriptor, errors: errors.descriptor, input: input.descriptor, signals: ScriptedSignals())
        let arguments = try ParsedArguments(
            ["--at", "4", "--into", "default", "--missing-only"] + options, ReplayTreeCommand.specification,
            Environment(values: [:]))
        let connection = try LogConnection(database.url)
        defer { connection.close() }
        let namespace = try #require(try connection.namespace(named: "default"))
        let tree = try ReplayOptions.tree(connection, namespace, at: 4, console)
        let restore = TreeRestore(
            connection, into: "default", at: .root, from: 4, what: "", source: "x", arguments, console)
        var plans = 0
        var outcome: TreeRestore.Outcome?
        var failure = ""
        do {
            outcome = try restore.run(tree.root) {
                plans += 1
                try planned(plans)
            }
        } catch {
            failure = "\(error)"
        }
        return (CommandRun(exitCode: 0, output: output.text, errors: errors.text), outcome, failure)
    }

    /// Another client's writes to missing nodes stay, and the others are restored. Writes elsewhere are no conflict.
    @Test(arguments: [[], ["--chunked", "--chunk-rows", "1"]]) func missingOnlyOnABusyPath(_ options: [String]) throws {
        try withHistory { database throws in
            let (run, outcome, failure) = try Self.restoreMissing(database, options) { number in
                if number == 1 { try database.set("/users/bob/name", #""Robert""#) }
                if number == 2 { try database.set("/users/eve", #"{"name": "Eve"}"#) }
            }
            #expect(failure == "" && outcome?.summary?.added.count == 3, "\(failure)")
            #expect(run.errors.contains("replay: another client changed data there: attempt 2 of 5 begins\n"))
            #expect(!run.errors.contains("attempt 3"))
            #expect(run.output.contains("Restored 3 leaves of the tree at seq 4 in default"))
            #expect(
                try database.tree()["users"] == [
                    "ada": ["name": "Ada", "posts": 2], "bob": ["name": "Robert", "posts": 1], "eve": ["name": "Eve"],
                ])
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func missingOnlyGivesUp() throws {
        try withHistory { database throws in
            let before = try database.tree()["users"]
            let (_, outcome, failure) = try Self.restoreMissing(database, ["--chunked"]) { number in
                try database.set("/users/ada", "\(number)")
                try database.execute("select pathmirror.remove('default', '/users/ada')")
            }
            #expect(outcome == nil)
            #expect(
                failure
                    == "Other clients changed data at, above or below the missing nodes of / in each of 5 attempts. Nothing was changed. Run the same command again to restore the rest."
            )
            #expect(try database.tree()["users"] == before)
        }
    }

    @Test func missingOnlyInChunks() throws {
        try withHistory { database throws in
            let words = ["replay", "tree", "--at", "4", "--into", "default", "--missing-only", "--chunked"]
            let run = try database.run(words + ["--chunk-rows", "1"])
            #expect(run.exitCode == 0, "\(run.errors)")
            #expect(
                run.output.hasSuffix(
                    "Several entries were written. To reverse them, undo each, the newest first: pathmirror log undo 12 --ns default\n"
                ))
            #expect(try database.tree()["users"] == pastTrees[4]["users"])
            for seq in ["12", "11", "10", "9"] {
                #expect(try database.run(["log", "undo", seq, "--yes"]).exitCode == 0)
            }
            #expect(try database.tree() == pastTrees[8])
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }
}
