import Glibc
import Synchronization
import TestSupport
import Testing

@testable import pathmirror

/// Checks that entries are listed unchanged, within the given bounds.
@Suite struct LogListCommandTests {
    private static let bounded: [([String], [Int])] = [
        ([], Array(1...8)), (["--from", "3"], Array(3...8)), (["--to", "2"], [1, 2]),
        (["--from", "2", "--to", "4"], [2, 3, 4]),
        (["--from", "0", "--to", "1"], [1]), (["--from", "100"], []), (["--from", "4", "--to", "3"], []),
        (["--to", "0"], []),
        (["--limit", "3"], [1, 2, 3]), (["--limit", "0"], []), (["--limit", "2", "--from", "6"], [6, 7]),
        (["--path", "/users/ada/posts"], [1, 2, 7]), (["--path", "users/bob"], [1, 3, 5]),
        (["--path", "/"], Array(1...8)),
        (["--path", "/posts/1"], [3, 4]), (["--path", "/posts"], [3, 4, 8]), (["--path", "/elsewhere"], []),
        (["--path", "/posts", "--limit", "1", "--from", "4"], [4]), (["--ns", "default"], Array(1...8)),
        (["--last", "3"], [6, 7, 8]), (["--last", "100"], Array(1...8)), (["--last", "2", "--to", "5"], [4, 5]),
        (["--last", "2", "--path", "/posts"], [4, 8]), (["--last", "1", "--path", "/elsewhere"], []),
        (["--last", "4", "--from", "7"], [7, 8]),
        (["--from", "2026-01-31T12:06:00Z"], [7, 8]), (["--from", "2026-01-31T12:05:59Z"], [6, 7, 8]),
        (["--to", "2026-01-31T12:02:30Z"], [1, 2]), (["--from", "2025-01-01", "--to", "2026-01-31T12:01:00Z"], [1]),
        (["--to", "2025-01-01"], []), (["--from", "1h"], []), (["--to", "-1h"], Array(1...8)),
        (["--from", "head"], []),
    ]

    @Test func bounds() throws {
        try withHistory { database throws in
            for (arguments, expected) in Self.bounded {
                let run = try database.run(["log", "ls", "--json"] + arguments)
                #expect(run.exitCode == 0 && run.errors.isEmpty, "\(arguments)")
                #expect(try run.json().compactMap { $0["seq"]?.int } == expected, "\(arguments)")
                // For people: one line each, beginning with the seq.
                let lines = try database.run(["log", "ls"] + arguments).lines
                #expect(lines.compactMap { Int($0.prefix { $0 != " " }) } == expected, "\(arguments)")
            }
        }
    }

    @Test func entriesWhole() throws {
        try withHistory { database throws in
            let entries = try database.json("log", "ls")
            #expect(
                entries.allSatisfy { $0.names == ["seq", "committedAt", "op", "path", "origin", "bulk", "changes"] })
            #expect(
                entries.map { $0["op"]?.string } == ["set", "set", "update", "set", "remove", "set", "remove", "set"])
            #expect(entries[0]["committedAt"] == "2026-01-31T12:01:00.000Z")
            #expect(entries[2]["changes"] == ["/users/bob/posts": 1, "/posts/1": ["by": "bob"]])
            #expect(entries[3]["changes"] == ["/posts/1": [".value": "short", ".priority": 3]])
            #expect(entries[4]["changes"] == ["/users/bob": nil])
            #expect(entries[4]["path"] == "/users/bob")
            #expect(entries[0]["origin"]?["via"] == "sql")
            #expect(entries.allSatisfy { $0["bulk"] == false })
            let line = try #require(try database.run(["log", "ls", "--to", "2", "--from", "2"]).lines.first)
            #expect(
                line
                    == "2  2026-01-31T12:02:00.000Z  set  administrator by sql as pathmirror  /users/ada/posts  {\"/users/ada/posts\":2}"
            )
        }
    }

    @Test func longOnesAreCut() throws {
        try withHistory { database throws in
            try database.set("/long", "\"\(String(repeating: "x", count: 1_000))\"")
            let line = try #require(try database.run(["log", "ls", "--from", "9"]).lines.first)
            #expect(line.count < 300)
            #expect(line.hasSuffix("… (1012 bytes)"))
        }
    }

    @Test func importsSayThatThereIsMore() throws {
        try withHistory { database throws in
            try database.json("import", "-", "--path", "/bulk", input: #"{"a":1,"b":2}"#)
            let entry = try #require(try database.json("log", "ls", "--from", "9").first)
            #expect(entry["bulk"] == true)
            #expect(
                try database.run(["log", "ls", "--from", "9"]).lines.first?.hasSuffix(" (and more, in parts)") == true)
            // The bulk entry is found by its path, though its values are stored elsewhere.
            #expect(try database.json("log", "ls", "--path", "/bulk/a").count == 1)
            #expect(try database.json("log", "ls", "--path", "/bul").isEmpty)
        }
    }

    @Test func mistakes() throws {
        try withHistory { database throws in
            for arguments in [
                ["--from", "x"], ["--to", "-1"], ["--limit", "1.5"], ["--path", "/a.b"], ["--last", "0"],
                ["--last", "1", "--limit", "1"],
                ["--from", "1y"],
            ] {
                let run = try database.run(["log", "ls"] + arguments)
                #expect(run.exitCode == 2, "\(arguments)")
                #expect(run.output.isEmpty, "\(arguments)")
            }
        }
    }

    @Test func anUnknownNamespace() throws {
        try withCommands { database throws in
            for arguments in [
                ["log", "ls"], ["log", "show", "1"], ["log", "verify"], ["log", "tail"], ["log", "blame", "/"],
                ["log", "snapshot"],
                ["log", "prune", "--keep", "1 entry"], ["rules", "get"], ["rules", "history"], ["rules", "rollback"],
                ["replay", "log"],
                ["replay", "tree", "--at", "head", "--output", "-"], ["mirror", "infer", "/x"],
            ] {
                let run = try database.run(arguments + ["--ns", "nobody"])
                #expect(run.exitCode == 1, "\(arguments)")
                #expect(run.errors == "pathmirror: There is no namespace \"nobody\".\n", "\(arguments)")
                #expect(try database.value("select count(*)::text from pathmirror.namespace") == "0")
            }
        }
    }
}

@Suite struct LogShowCommandTests {
    @Test func one() throws {
        try withHistory { database throws in
            let entry = try #require(try database.json("log", "show", "3").first)
            #expect(entry["seq"] == 3)
            #expect(entry == (try database.json("log", "ls", "--from", "3", "--to", "3").first))
            #expect(
                try database.output("log", "show", "4") == """
                    seq        4
                    committed  2026-01-31T12:04:00.000Z
                    operation  set
                    path       /posts/1
                    by         administrator by sql as pathmirror

                    /posts/1
                    {
                      ".value" : "short",
                      ".priority" : 3
                    }

                    """)
        }
    }

    /// Checks that positions have the same syntax as in other commands.
    @Test(arguments: [
        ("head", 8), ("now", 8), ("2026-01-31T12:03:30Z", 3), ("2026-01-31T12:04:00Z", 4), ("1h", 8),
    ]) func ofAMoment(_ moment: String, _ seq: Int) throws {
        try withHistory { database throws in
            #expect(try database.json("log", "show", moment).first?["seq"]?.int == seq)
        }
    }

    @Test func ofAMomentBeforeTheFirstEntry() throws {
        try withHistory { database throws in
            #expect(
                try database.failure("log", "show", "2025-01-01")
                    == "pathmirror: The log has no entry committed by then.\n")
        }
    }

    @Test func aBulkEntryWithItsParts() throws {
        try withHistory { database throws in
            try database.json("import", "-", "--path", "/bulk", input: #"{"a":1,"b":{"c":"x"}}"#)
            let text = try database.output("log", "show", "9")
            #expect(text.contains("\n/bulk/a  1\n"))
            #expect(text.contains("\n/bulk/b/c  \"x\"\n"))
        }
    }

    @Test func beyondTheHead() throws {
        try withHistory { database throws in
            for seq in ["9", "9223372036854775807"] {
                let failure = try database.failure("log", "show", seq)
                #expect(failure == "pathmirror: There is no entry \(seq): the head is 8.\n")
            }
        }
    }

    @Test func whatWasPruned() throws {
        try withHistory { database throws in
            try database.json("log", "prune", "--keep", "3 entries", "--yes")
            #expect(
                try database.failure("log", "show", "5")
                    == "pathmirror: Entry 5 is not in the log any more: it begins at 6.\n")
            #expect(try database.json("log", "show", "6").count == 1)
            let cut = try database.run(["log", "ls", "--from", "2", "--json"])
            #expect(try cut.json().map { $0["seq"]?.int } == [6, 7, 8])
            #expect(cut.errors == "The log begins at seq 6, which is after --from.\n")
            for range in [["--to", "5"], ["--from", "9"], ["--from", "8", "--to", "7"]] {
                let none = try database.run(["log", "ls"] + range)
                #expect(none.exitCode == 0 && none.output.isEmpty)
                #expect(none.errors == "There is no entry in this range: the log has 6 to 8.\n")
            }
        }
    }

    @Test(arguments: ["0", "-1", "abc", "1.5", "", "99999999999999999999"]) func seqsThatAreNone(_ seq: String) throws {
        let run = try pathmirror(["log", "show", "--", seq])
        #expect(run.exitCode == 2)
        #expect(run.errors.contains("SEQ"))
    }
}

@Suite struct LogTailCommandTests {
    /// Ends once the output has a number of lines, and runs an action at another number.
    private final class Until: Sendable {
        let descriptors: Descriptors
        let count: Int
        private let steps: Mutex<[Int: @Sendable () -> Void]>

        init(_ count: Int, _ steps: [Int: @Sendable () -> Void] = [:]) throws {
            descriptors = try Descriptors()
            self.count = count
            self.steps = Mutex(steps)
        }

        var isReached: Bool {
            let lines = descriptors.output.text.split(separator: "\n").count
            let step = steps.withLock { $0.removeValue(forKey: lines) }
            step?()
            return lines >= count
        }
    }

    private static func tail(_ database: CommandDatabase, _ arguments: [String], _ until: Until) throws -> CommandRun {
        let code = Commands.run(
            ["log", "tail", "--database-url", database.connectionText] + arguments,
            until.descriptors.console(ScriptedSignals { until.isReached }), Environment(values: [:]))
        return CommandRun(
            exitCode: code, output: until.descriptors.output.text, errors: until.descriptors.errors.text)
    }

    @Test func followsFromTheHeadOn() throws {
        try withHistory { database throws in
            let until = try Until(
                3,
                [
                    0: { try? database.set("/live", "1") },
                    1: {
                        try? database.execute(
                            "select pathmirror.set('default', '/live', '2'), pathmirror.set('default', '/l', '3')")
                    },
                ])
            let run = try Self.tail(database, ["--json"], until)
            #expect(run.exitCode == 0)
            #expect(run.errors.isEmpty)
            #expect(try run.json().map { $0["seq"]?.int } == [9, 10, 11])
            #expect(try run.json().first?["changes"] == ["/live": 1])
        }
    }

    @Test func fromAnEarlierSeq() throws {
        try withHistory { database throws in
            let until = try Until(5, [4: { try? database.set("/live", "1") }])
            let run = try Self.tail(database, ["--from", "5", "--json"], until)
            #expect(try run.json().map { $0["seq"]?.int } == [5, 6, 7, 8, 9])
        }
    }

    @Test func ofAPathOnly() throws {
        try withHistory { database throws in
            let until = try Until(
                4,
                [
                    3: {
                        try? database.execute(
                            "select pathmirror.set('default', '/x', '1'), pathmirror.set('default', '/posts/9', '1')")
                    }
                ])
            let run = try Self.tail(database, ["--from", "1", "--path", "/posts"], until)
            #expect(run.lines.compactMap { Int($0.prefix { $0 != " " }) } == [3, 4, 8, 10])
        }
    }

    @Test func beginsWhereTheLogDoes() throws {
        try withHistory { database throws in
            try database.json("log", "prune", "--keep", "2 entries", "--yes")
            let run = try Self.tail(database, ["--from", "1", "--json"], try Until(2))
            #expect(try run.json().map { $0["seq"]?.int } == [7, 8])
            #expect(run.errors == "The log begins at seq 7, which is after --from.\n")
        }
    }

    @Test func endsWhenAskedTo() throws {
        try withHistory { database throws in
            let run = try Self.tail(database, [], try Until(0))
            #expect(run.exitCode == 0 && run.output.isEmpty && run.errors.isEmpty)
        }
    }

    /// Checks that the command ends once its reader has closed the pipe.
    @Test func endsWithItsReader() throws {
        try withHistory { database throws in
            // As in the program: writing to a closed pipe is an error of that write.
            signal(SIGPIPE, SIG_IGN)
            var ends: [Int32] = [0, 0]
            try #require(pipe(&ends) == 0)
            close(ends[0])
            defer { close(ends[1]) }
            let full = open("/dev/full", O_WRONLY | O_CLOEXEC)
            defer { close(full) }
            for (output, expected, said) in [
                (ends[1], 0, ""), (full, 1, "pathmirror: standard output can't be written: No space left on device.\n"),
            ] {
                let (input, errors) = (try ScratchFile(), try ScratchFile())
                let console = Console(
                    output: output, errors: errors.descriptor, input: input.descriptor,
                    signals: ScriptedSignals { false })
                let code = Commands.run(
                    ["log", "tail", "--from", "1", "--database-url", database.connectionText], console,
                    Environment(values: [:]))
                #expect(code == Int32(expected) && errors.text == said)
            }
        }
    }
}

/// Checks that `log verify` finds damage of every kind with its position, and reports none in an intact log.
@Suite struct LogVerifyCommandTests {
    @Test func clean() throws {
        try withHistory { database throws in
            #expect(try database.output("log", "verify") == "clean: 8 entries up to seq 8, 5 rows\n")
            let report = try #require(try database.json("log", "verify").first)
            #expect(
                report == [
                    "clean": true, "head": 8, "entries": 8, "rows": 5, "differences": 0, "problems": [], "mirrors": [],
                    "first": [:],
                ])
            #expect(try database.output("log", "verify", "--skip-mirrors").hasPrefix("clean"))
        }
    }

    struct Damage: Sendable, CustomTestStringConvertible {
        let sql: String
        let said: String
        var testDescription: String { sql }
    }

    @Test(arguments: [
        Damage(
            sql: "delete from pathmirror.node where path = '/list/2'",
            said: "/list/2: the log has \"c\", the tree has nothing"),
        Damage(
            sql: "update pathmirror.node set value = '7' where path = '/list/0'",
            said: "/list/0: the log has \"a\", the tree has 7"),
        Damage(
            sql:
                "insert into pathmirror.node (namespace_id, path, value, version) select namespace_id, '/extra', 'true', 8 from pathmirror.node limit 1",
            said: "/extra: the log has nothing, the tree has true"),
        Damage(sql: "delete from pathmirror.log where seq = 3", said: "Seq 3 is missing"),
    ]) func damaged(_ damage: Damage) throws {
        try withHistory { database throws in
            try database.execute(damage.sql)
            let run = try database.run(["log", "verify"])
            #expect(run.exitCode == 1)
            #expect(run.output.contains(damage.said), "\(run.output)")
            #expect(run.output.contains("\nNOT CLEAN: ") || run.output.hasPrefix("NOT CLEAN: "))
            #expect(run.errors == "pathmirror: The log of \"default\" differs from the tree or the mirrors.\n")
            let json = try database.run(["log", "verify", "--json"])
            #expect(json.exitCode == 1)
            #expect(try json.json().first?["clean"] == false)
        }
    }

    @Test func differencesForPrograms() throws {
        try withHistory { database throws in
            try database.execute("update pathmirror.node set value = '7' where path = '/list/0'")
            let report = try #require(try database.run(["log", "verify", "--json"]).json().first)
            #expect(report["differences"] == 1)
            #expect(report["first"] == ["/list/0": ["logged": "a", "stored": 7]])
        }
    }
}

@Suite struct LogBlameCommandTests {
    @Test func authorsOfValues() throws {
        try withHistory { database throws in
            let found = try database.json("log", "blame", "/users/ada/posts")
            #expect(found.map { $0["seq"]?.int } == [7, 2, 1])
            #expect(found.map { $0["current"]?.bool } == [false, false, false])
            #expect(found[1]["changes"] == ["/users/ada/posts": 2])
            #expect(found[0]["changes"] == ["/users/ada/posts": nil])
            #expect(found[0].names == ["seq", "committedAt", "op", "path", "origin", "current", "changes"])
            let lines = try database.output("log", "blame", "/posts").split(separator: "\n")
            #expect(lines.map { $0.prefix(3) } == ["* 8", "* 4", "  3"])
            #expect(lines[0].contains(" by sql as pathmirror  set  "))
        }
    }

    @Test func limitsAndNothing() throws {
        try withHistory { database throws in
            #expect(try database.json("log", "blame", "/", "--limit", "2").map { $0["seq"]?.int } == [8, 7])
            #expect(try database.json("log", "blame", "/", "--limit", "0").isEmpty)
            #expect(
                try database.json("log", "blame", "/", "--from", "3", "--to", "5").map { $0["seq"]?.int } == [5, 4, 3])
            #expect(
                try database.json("log", "blame", "/", "--from", "2026-01-31T12:06:00Z").map { $0["seq"]?.int } == [
                    8, 7,
                ])
            #expect(
                try database.run(["log", "blame", "/list", "--to", "3"]).errors
                    == "No entry from 1 to 3 wrote /list.\n")
            #expect(try database.json("log", "blame", "/nowhere").isEmpty)
            let run = try database.run(["log", "blame", "/nowhere"])
            #expect(run.exitCode == 0 && run.output.isEmpty)
            #expect(run.errors == "No entry from 1 on wrote /nowhere.\n")
            #expect(try database.run(["log", "blame", "/", "--limit", "x"]).exitCode == 2)
            #expect(try database.run(["log", "blame", "/a.b"]).exitCode == 2)
        }
    }
}
