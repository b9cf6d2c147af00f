import Glibc
import TestSupport
import Testing

@testable import pathmirror

@Suite struct LogSnapshotCommandTests {
    @Test func takenListedAndForgotten() throws {
        try withHistory { database throws in
            #expect(try database.output("log", "snapshot", "--list").isEmpty)
            #expect(try database.json("log", "snapshot") == [["seq": 8, "rows": 5]])
            #expect(try database.output("log", "snapshot", "--at", "4") == "Stored the tree at seq 4: 6 leaves.\n")
            #expect(try database.json("log", "snapshot", "--at", "2026-01-31T12:02:30Z") == [["seq": 2, "rows": 3]])
            let listed = try database.json("log", "snapshot", "--list")
            #expect(listed.map { $0["seq"]?.int } == [2, 4, 8])
            #expect(listed.allSatisfy { $0["madeBy"] == "manual" && $0["createdAt"]?.string?.hasSuffix("Z") == true })
            #expect(try database.output("log", "snapshot", "--list").split(separator: "\n").count == 3)
            // Trees are rebuilt from them.
            let tree = try #require(try database.json("replay", "tree", "--at", "6", "--dry-run").first)
            #expect(tree["snapshot"] == 4 && tree["entries"] == 2)
            #expect(try database.output("log", "snapshot", "--drop", "4") == "Removed the snapshot at seq 4.\n")
            #expect(try database.failure("log", "snapshot", "--drop", "4").contains("There is no snapshot at seq 4."))
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test(arguments: [["--at", "x"], ["--at", "-1"], ["--drop", "x"], ["--rate", "0"]]) func mistakes(
        _ arguments: [String]
    ) throws {
        let run = try pathmirror(["log", "snapshot"] + arguments)
        #expect(run.exitCode == 2)
    }

    @Test func momentsThatAreNone() throws {
        try withHistory { database throws in
            #expect(
                try database.failure("log", "snapshot", "--at", "9").contains("There is no seq 9 yet: the head is 8."))
            #expect(try database.failure("log", "snapshot", "--at", "2026-31-01").contains("neither a seq nor a time"))
            #expect(try database.output("log", "snapshot", "--list").isEmpty)
        }
    }
}

@Suite struct LogPruneCommandTests {
    @Test func whatStays() throws {
        try withHistory { database throws in
            let dry = try #require(try database.json("log", "prune", "--keep", "3 entries", "--dry-run").first)
            #expect(dry["from"] == 1 && dry["to"] == 6 && dry["deleted"] == 5 && dry["dryRun"] == true)
            #expect(dry["holders"] == [] && dry["head"] == 8 && dry["wanted"] == 6)
            #expect(try database.json("log", "ls").count == 8)
            #expect(
                try database.output("log", "prune", "--keep", "3 entries", "--dry-run")
                    == "Would drop 5 entries (0 partitions whole): the log would begin at seq 6.\n")
            let run = try database.run(["log", "prune", "--keep", "3 entries", "--yes"])
            #expect(
                run.lines == [
                    "Dropped 5 entries (0 partitions whole): the log begins at seq 6.",
                    "This cannot be reversed: only a backup still has the dropped entries.",
                ])
            #expect(run.errors.split(separator: "\n").allSatisfy { $0.hasPrefix("prune: ") })
            #expect(try database.json("log", "ls").compactMap { $0["seq"]?.int } == [6, 7, 8])
            for seq in 5...8 {
                let text = try database.output("replay", "tree", "--at", "\(seq)", "--output", "-")
                #expect(try JSONText(reading: text) == pastTrees[seq])
            }
            #expect(
                try database.failure("replay", "tree", "--at", "4", "--output", "-").contains(
                    "reach back only to the tree at seq 5"))
            #expect(
                try database.failure("log", "snapshot", "--drop", "5").contains(
                    "without the snapshot no tree can be rebuilt"))
            #expect(
                try database.output("log", "prune", "--keep", "3 entries")
                    == "Nothing to drop: the log begins at seq 6.\n")
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func refusedWithoutATerminal() throws {
        try withHistory { database throws in
            let run = try database.run(["log", "prune", "--keep", "3 entries"], input: "y\n")
            #expect(run.exitCode == 1 && run.output.isEmpty)
            #expect(
                run.errors
                    == "pathmirror: Nothing was changed. Add --yes to drop 5 of 8 entries of default (seq 1 to 5) without being asked.\n"
            )
            #expect(try database.json("log", "ls").count == 8)
            #expect(try database.output("log", "snapshot", "--list").isEmpty)
        }
    }

    @Test(arguments: [("y", 3), ("n", 8)]) func askedOnATerminal(_ answer: String, _ left: Int) throws {
        try withHistory { database throws in
            let run = try database.run(["log", "prune", "--keep", "3 entries"], answering: answer)
            #expect(run.exitCode == (left == 3 ? 0 : 1))
            #expect(
                run.errors.hasPrefix(
                    "Drop 5 of 8 entries of default (seq 1 to 5), and keep the last 3 entries? Dropped entries cannot be restored. [y/N] "
                ))
            #expect(try database.json("log", "ls").count == left)
        }
    }

    @Test func readersAreAwaited() throws {
        try withHistory { database throws in
            try database.execute(
                "insert into pathmirror.cursor (namespace_id, kind, name, seq) select id, 'feed', 'mails', 2 from pathmirror.namespace"
            )
            let held = try database.run(["log", "prune", "--keep", "1 entry", "--yes"])
            #expect(held.exitCode == 0)
            #expect(held.errors.hasPrefix("feed mails still needs the entries after seq 2.\n"))
            #expect(try database.value("select retained_from::text from pathmirror.namespace") == "3")
            let dry = try #require(try database.json("log", "prune", "--keep", "1 entry", "--dry-run").first)
            #expect(dry["holders"] == [["kind": "feed", "name": "mails", "seq": 2]])
            let forced = try database.run(["log", "prune", "--keep", "1 entry", "--force", "--yes"])
            #expect(forced.errors.hasPrefix("feed mails has read up to seq 2 and loses the entries after it.\n"))
            #expect(try database.value("select retained_from::text from pathmirror.namespace") == "8")
        }
    }

    @Test func byAge() throws {
        try withHistory { database throws in
            try database.execute("update pathmirror.log set committed_at = now() - (9 - seq) * interval '1 day'")
            #expect(try database.json("log", "prune", "--keep", "5d", "--dry-run").first?["to"] == 5)
            #expect(try database.json("log", "prune", "--keep", "36h", "--dry-run").first?["to"] == 8)
            #expect(try database.output("log", "prune", "--keep", "30d").hasPrefix("Nothing to drop"))
        }
    }

    /// PostgreSQL can represent a time that long ago.
    @Test func theLongestAge() throws {
        try withHistory { database throws in
            #expect(try database.output("log", "prune", "--keep", "999999d").hasPrefix("Nothing to drop"))
        }
    }

    @Test(arguments: [
        "", "x", "3", "0", "-1", "1.5d", "d", "30 d", "1000000d", "3000000d", "3  entries", "3 entry", "-3 entries",
        "3entries",
    ])
    func bounds(_ keep: String) throws {
        let run = try pathmirror(["log", "prune", "--keep", keep])
        #expect(run.exitCode == 2)
        #expect(run.errors.contains("--keep must be a duration such as 30d or 12h, or a count such as '1000 entries'."))
    }

    /// Checks that both commands reject a policy that keeps nothing.
    @Test(arguments: ["0d", "0s", "0 entries"], [["log", "prune"], ["retention", "set", "--all"]])
    func nothingIsKept(_ keep: String, _ command: [String]) throws {
        let run = try pathmirror(command + ["--keep", keep])
        #expect(run.exitCode == 2)
        #expect(run.errors.contains("--keep \(keep) would drop the whole log"))
    }
}
