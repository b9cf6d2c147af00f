import Glibc
import TestSupport
import Testing

@testable import pathmirror

/// Checks that every earlier tree can be restored, to a file or to a namespace.
@Suite struct ReplayTreeCommandTests {
    private static func tree(_ database: CommandDatabase, _ at: String, _ more: String...) throws -> JSONText {
        let run = try database.run(["replay", "tree", "--at", at, "--output", "-"] + more)
        #expect(run.exitCode == 0, "\(run.errors)")
        return try JSONText(reading: run.output)
    }

    @Test func everyTreeThatWas() throws {
        try withHistory { database throws in
            for (seq, expected) in pastTrees.enumerated() {
                #expect(try Self.tree(database, "\(seq)") == expected, "seq \(seq)")
            }
            #expect(try Self.tree(database, "head") == pastTrees[8])
            #expect(try Self.tree(database, "3", "--path", "/users/ada") == ["name": "Ada", "posts": 2])
            #expect(try Self.tree(database, "3", "--path", "/none") == .null)
            #expect(try Self.tree(database, "2026-01-31T12:03:30Z") == pastTrees[3])
            #expect(try Self.tree(database, "2026-01-31T13:05:00+01:00") == pastTrees[5])
            // A time without a zone is UTC.
            #expect(try Self.tree(database, "2026-01-31 12:02:00") == pastTrees[2])
            #expect(try Self.tree(database, "2026-01-31 11:00") == .null)
        }
    }

    @Test func intoAFile() throws {
        try withHistory { database throws in
            let folder = try ScratchFolder()
            let path = folder.path + "/tree.json"
            #expect(
                try database.output("replay", "tree", "--at", "4", "--output", path)
                    == "\(path) holds the tree at seq 4, 6 leaves, from the beginning of the log and 4 entries.\n")
            #expect(try JSONText(reading: try folder.read("tree.json")) == pastTrees[4])
            let report = try database.json("replay", "tree", "--at", "2", "--output", path)
            #expect(
                report == [["seq": 2, "leaves": 3, "snapshot": 0, "entries": 2, "intoSeq": nil, "dryRun": false]])
            #expect(try JSONText(reading: try folder.read("tree.json")) == pastTrees[2])
            #expect(folder.names == ["tree.json"])
        }
    }

    @Test func intoANamespace() throws {
        try withHistory { database throws in
            let dry = try database.output("replay", "tree", "--at", "4", "--into", "restored", "--dry-run")
            #expect(dry == "Would write the tree at seq 4, 6 leaves, from the beginning of the log and 4 entries.\n")
            #expect(try database.value("select 1::text from pathmirror.namespace where name = 'restored'") == nil)
            let run = try database.run(["replay", "tree", "--at", "4", "--into", "restored"])
            #expect(
                run.output
                    == """
                    restored holds the tree at seq 4, 6 leaves, from the beginning of the log and 4 entries; its seq is 1.
                    To reverse it: pathmirror log undo 1 --ns restored

                    """)
            #expect(try database.tree("restored") == pastTrees[4])
            #expect(try database.output("log", "verify", "--ns", "restored").hasPrefix("clean"))
            let refused = try database.failure("replay", "tree", "--at", "3", "--into", "restored")
            #expect(
                refused.contains(
                    "Namespace \"restored\" is not new: its head is 1. --replace replaces its data, and --missing-only adds the missing nodes."
                ))
            #expect(try database.tree("restored") == pastTrees[4])
            let report = try database.json("replay", "tree", "--at", "3", "--into", "restored", "--replace", "--yes")
            #expect(report.first?["intoSeq"] == 2)
            #expect(try database.tree("restored") == pastTrees[3])
            #expect(try database.output("log", "verify", "--ns", "restored").hasPrefix("clean"))
        }
    }

    @Test func aPartOfTheTree() throws {
        try withHistory { database throws in
            try database.json("replay", "tree", "--at", "6", "--into", "default", "--path", "/users/ada", "--replace")
            #expect(try database.tree()["users"] == ["ada": ["name": "Ada", "posts": 2]])
            #expect(try database.tree()["posts"] == pastTrees[8]["posts"])
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func inChunks() throws {
        try withHistory { database throws in
            let report = try database.json(
                "replay", "tree", "--at", "4", "--into", "copy", "--chunked", "--chunk-rows", "2")
            #expect(report.first?["intoSeq"] == 3)
            #expect(try database.tree("copy") == pastTrees[4])
            #expect(try database.output("log", "verify", "--ns", "copy").hasPrefix("clean"))
        }
    }

    @Test func nothingToWrite() throws {
        try withHistory { database throws in
            let said = try database.failure("replay", "tree", "--at", "0", "--into", "empty")
            #expect(said.contains("The tree was empty then: there is nothing to write."))
            #expect(try database.value("select 1::text from pathmirror.namespace where name = 'empty'") == nil)
        }
    }

    @Test(arguments: [
        (["--at", "1"], "Give either --into or --output."),
        (["--at", "1", "--into", "a", "--output", "b"], "Give either --into or --output."),
        (["--at", "1", "--into", "a", "--replace", "--missing-only"], "Give either --replace or --missing-only."),
        (["--output", "-"], "--at is missing."),
        (["--at", "nonsense", "--output", "-"], "--at: \"nonsense\" is neither a seq nor a time"),
        (["--at", "-1", "--output", "-"], "--at: \"-1\" is neither a seq nor a time"),
        (["--at", "1", "--output", "-", "--rate", "0"], "--rate must be"),
        (["--at", "1", "--output", "-", "--path", "/a.b"], "The path /a.b has a key"),
    ]) func mistakes(_ arguments: [String], _ said: String) throws {
        let run = try pathmirror(["replay", "tree"] + arguments)
        #expect(run.exitCode == 2)
        #expect(run.errors.hasPrefix("pathmirror replay tree: \(said)"), "\(run.errors)")
    }

    @Test func momentsThatWereNot() throws {
        try withHistory { database throws in
            #expect(
                try database.failure("replay", "tree", "--at", "9", "--output", "-").contains(
                    "There is no seq 9 yet: the head is 8."))
            #expect(
                try database.failure("replay", "tree", "--at", "2026-31-01", "--output", "-").contains(
                    "\"2026-31-01\" is neither"))
        }
    }
}

/// Checks that exported entries are applied exactly once, even after interruptions.
@Suite struct ReplayLogCommandTests {
    @Test func outAndIn() throws {
        try withHistory { database throws in
            let folder = try ScratchFolder()
            let file = folder.path + "/entries"
            let run = try database.run(["replay", "log", "--output", file])
            #expect(run.exitCode == 0 && run.output.isEmpty)
            #expect(run.errors.hasPrefix("replay: 8 entries in "))
            let text = try folder.read("entries")
            #expect(try database.run(["replay", "log"]).output == text)
            #expect(try database.run(["replay", "log", "--output", "-"]).output == text)
            let lines = try text.split(separator: "\n").map { try JSONText(reading: String($0)) }
            #expect(lines.map { $0["seq"]?.int } == Array(1...8))
            #expect(Set(lines.compactMap { $0["source"]?.string }).count == 1)
            let applied = try database.json("replay", "apply", file, "--ns", "copy")
            #expect(applied == [["applied": 8, "known": 0, "skipped": 0, "seq": 8, "dryRun": false]])
            #expect(try database.tree("copy") == pastTrees[8])
            // Applied once, even if applied repeatedly.
            #expect(try database.json("replay", "apply", file, "--ns", "copy", "--dry-run").first?["known"] == 8)
            #expect(
                try database.output("replay", "apply", file, "--ns", "copy")
                    == "Applied 0 entries; 8 were applied before.\n")
            #expect(try database.json("log", "ls", "--ns", "copy").count == 8)
            #expect(try database.output("log", "verify", "--ns", "copy").hasPrefix("clean"))
        }
    }

    private static let bounded: [([String], [Int])] = [
        (["--from", "3"], [3, 4, 5, 6, 7, 8]), (["--to", "2"], [1, 2]),
        (["--from", "2", "--to", "4", "--path", "/users"], [2, 3]),
        (["--from", "2026-01-31T12:05:30Z"], [6, 7, 8]), (["--to", "2026-01-31T12:05:30Z"], [1, 2, 3, 4, 5]),
        (["--from", "0"], Array(1...8)),
        (["--from", "head"], []), (["--path", "/nowhere"], []),
    ]

    @Test func bounds() throws {
        try withHistory { database throws in
            for (arguments, expected) in Self.bounded {
                let run = try database.run(["replay", "log"] + arguments)
                #expect(run.exitCode == 0, "\(run.errors)")
                #expect(try run.json().compactMap { $0["seq"]?.int } == expected, "\(arguments)")
            }
        }
    }

    @Test func byAPipe() throws {
        try withHistory { database throws in
            let text = try database.run(["replay", "log", "--from", "1", "--to", "4"]).output
            let run = try database.run(["replay", "apply", "-", "--ns", "copy"], input: text)
            #expect(run.output == "Applied 4 entries; 0 were applied before.\n")
            #expect(try database.tree("copy") == pastTrees[4])
        }
    }

    @Test func dryRuns() throws {
        try withHistory { database throws in
            #expect(
                try database.output("replay", "log", "--dry-run", "--from", "3") == "Would read 6 entries, 3 to 8.\n")
            let text = try database.run(["replay", "log"]).output
            // A missing namespace is not created.
            #expect(
                try database.failure("replay", "apply", "-", "--ns", "new", "--dry-run", input: text).contains(
                    "no namespace \"new\""))
            try database.makeNamespace("new")
            #expect(
                try database.output("replay", "apply", "-", "--ns", "new", "--dry-run", input: text)
                    == "Would apply 8 entries; 0 were applied before.\n")
            #expect(try database.json("log", "ls", "--ns", "new").isEmpty)
        }
    }

    @Test func whatWasPruned() throws {
        try withHistory { database throws in
            try database.json("log", "prune", "--keep", "3 entries", "--yes")
            #expect(try database.run(["replay", "log"]).json().count == 3)
            #expect(
                try database.failure("replay", "log", "--from", "5")
                    == "pathmirror: Entry 5 is not in the log any more: it begins at 6.\n")
        }
    }

    /// Checks that a run resumes a killed run's file: it keeps whole lines and removes a cut line.
    @Test func aKilledRunIsGoneOnWith() throws {
        try withHistory { database throws in
            let folder = try ScratchFolder()
            let whole = try database.run(["replay", "log"]).output
            let lines = whole.split(separator: "\n").map { $0 + "\n" }
            try folder.file("out.from1.part", lines[..<3].joined() + lines[3].prefix(20))
            let run = try database.run(["replay", "log", "--output", folder.path + "/out"])
            #expect(run.errors.hasPrefix("replay: resumes after entry 3, which was written before\n"))
            #expect(run.errors.contains("replay: 5 entries in "))
            #expect(try folder.read("out") == whole)
            #expect(folder.names == ["out"])
        }
    }

    @Test func bulkEntries() throws {
        try withHistory { database throws in
            try database.json("import", "-", "--path", "/bulk", input: #"{"a":1,"b":{"c":2}}"#)
            let text = try database.run(["replay", "log"]).output
            let run = try database.run(["replay", "apply", "-", "--ns", "copy", "--json"], input: text)
            #expect(try run.json().first?["applied"] == 9)
            #expect(try database.tree("copy")["bulk"] == ["a": 1, "b": ["c": 2]])
            // Cut within the line: rejected, but the entries before it remain.
            let cut = text.split(separator: "\n").dropLast().joined(separator: "\n") + "\n"
            #expect(
                try database.failure("replay", "apply", "-", "--ns", "cut", input: cut).contains("ends within entry 9"))
            #expect(try database.json("log", "ls", "--ns", "cut").count == 8)
        }
    }

    private static let bad = [
        ("nonsense\n", "Line 1: the line is not a JSON object"), ("{\"a\":1}\n", "Line 1: the line has no"),
        ("\n\n{\"a\":1}\n", "Line 3: the line has no"),
        ("{\"source\":\"s\",\"seq\":1,\"op\":\"fly\",\"path\":\"/\",\"changes\":{}}\n", "\"fly\" is not an operation"),
        (
            "{\"source\":\"s\",\"seq\":1,\"op\":\"set\",\"path\":\"/\",\"changes\":{\"/a.b\":1}}\n",
            "Line 1: the line's changes"
        ),
        ("{\"source\":\"s\",\"seq\":1,\"changes\":{\"/a\":1}}\n", "whose first line is missing"),
    ]

    @Test func badLines() throws {
        try withHistory { database throws in
            for (text, said) in Self.bad {
                let errors = try database.failure("replay", "apply", "-", "--ns", "copy", input: text)
                #expect(errors.contains("pathmirror: -: "), "\(text)")
                #expect(errors.contains(said), "\(text)")
            }
        }
    }

    @Test(arguments: [
        ["replay", "log", "--from", "x"], ["replay", "log", "--to", "-1"], ["replay", "log", "--rate", "x"],
        ["replay", "apply", "-", "--rate", "0"], ["replay", "apply", "a", "b"],
        ["replay", "mirror", "m", "--from", "x"],
    ]) func mistakes(_ arguments: [String]) throws {
        #expect(try pathmirror(arguments).exitCode == 2)
    }
}

/// Checks that a file of entries can be cut anywhere, and is resumed after its last whole entry.
@Suite struct EntryFileTests {
    private static let source = "src"
    private static func entry(_ seq: Int) -> String {
        "{\"source\":\"\(source)\",\"seq\":\(seq),\"committedAt\":\"2026-01-31T12:00:00.000Z\",\"op\":\"set\",\"path\":\"/a\",\"origin\":null,\"changes\":{\"/a\":\(seq)}}\n"
    }
    private static let bulk =
        "{\"source\":\"src\",\"seq\":3,\"committedAt\":\"2026-01-31T12:00:00.000Z\",\"op\":\"set\",\"path\":\"/a\",\"origin\":null,\"bulk\":true,\"changes\":{}}\n"
    private static let part = "{\"source\":\"src\",\"seq\":3,\"changes\":{\"/a/b\":1}}\n"
    private static let end = "{\"source\":\"src\",\"seq\":3,\"parts\":1}\n"

    @Test func cutAnywhere() throws {
        let text = entry(1) + Self.entry(2) + Self.bulk + Self.part + Self.end
        let bytes = Array(text.utf8)
        let ends = [
            (0, nil as Int64?), (Self.entry(1).utf8.count, 1), (Self.entry(1).utf8.count + Self.entry(2).utf8.count, 2),
            (bytes.count, 3),
        ]
        let folder = try ScratchFolder()
        for cut in Set(stride(from: 0, through: bytes.count, by: 7)).union(ends.map(\.0)) {
            // Each has a file of its own: a process that another test starts may hold the last one's lock for a moment.
            let part = try folder.file("out\(cut).from1.part", Array(bytes[..<cut]))
            let file = try EntryFile(folder.path + "/out\(cut)", from: 1, source: Self.source, standardOutput: -1)
            let kept = ends.last { $0.0 <= cut } ?? (0, nil)
            #expect(file.lastSeq == kept.1, "cut at \(cut)")
            #expect(try Files.read(part).count == kept.0, "cut at \(cut)")
        }
    }

    private func entry(_ seq: Int) -> String { Self.entry(seq) }

    @Test func anotherLogsFileIsStartedAgain() throws {
        let folder = try ScratchFolder()
        try folder.file("out.from1.part", Self.entry(1))
        let file = try EntryFile(folder.path + "/out", from: 1, source: "other", standardOutput: -1)
        #expect(file.lastSeq == nil)
        try file.write(Array("new\n".utf8))
        try file.finish()
        #expect(try folder.read("out") == "new\n")
    }

    @Test func anotherBeginningIsAnotherFile() throws {
        let folder = try ScratchFolder()
        try folder.file("out.from1.part", Self.entry(1))
        let file = try EntryFile(folder.path + "/out", from: 2, source: Self.source, standardOutput: -1)
        #expect(file.lastSeq == nil)
        #expect(folder.names == ["out.from1.part", "out.from2.part"])
    }

    @Test func whatIsWrittenFollowsWhatWasKept() throws {
        let folder = try ScratchFolder()
        try folder.file("out.from1.part", Self.entry(1) + "{\"source")
        let file = try EntryFile(folder.path + "/out", from: 1, source: Self.source, standardOutput: -1)
        try file.write(Array(Self.entry(2).utf8))
        #expect(!folder.exists("out"))
        try file.finish()
        #expect(try folder.read("out") == Self.entry(1) + Self.entry(2))
        #expect(folder.names == ["out"])
    }

    /// Two writers at once would mix their lines.
    @Test func oneWriterAtATime() throws {
        let folder = try ScratchFolder()
        let first = try EntryFile(folder.path + "/out", from: 1, source: Self.source, standardOutput: -1)
        let error = #expect(throws: CommandFailure.self) {
            try EntryFile(folder.path + "/out", from: 1, source: Self.source, standardOutput: -1)
        }
        #expect(error?.description == "another replay is writing \(folder.path)/out.from1.part.")
        try first.finish()
    }

    @Test func standardOutput() throws {
        let output = try ScratchFile()
        let file = try EntryFile(nil, from: 1, source: Self.source, standardOutput: output.descriptor)
        #expect(file.lastSeq == nil)
        try file.write(Array("line\n".utf8))
        try file.finish()
        #expect(output.text == "line\n")
        let broken = try EntryFile(nil, from: 1, source: Self.source, standardOutput: -1)
        try broken.write(Array("line\n".utf8))
        let error = #expect(throws: CommandFailure.self) { try broken.finish() }
        #expect(error?.description == "standard output can't be written: Bad file descriptor.")
    }

    @Test func aFolderThatIsNotThere() throws {
        let folder = try ScratchFolder()
        let error = #expect(throws: CommandFailure.self) {
            try EntryFile(folder.path + "/none/out", from: 1, source: Self.source, standardOutput: -1)
        }
        #expect(error?.description.hasSuffix("can't be written: No such file or directory.") == true)
    }
}

/// Checks that the differences of two trees are complete, in both directions.
@Suite struct DiffCommandTests {
    /// Returns the output for two trees that must differ.
    private static func output(_ database: CommandDatabase, _ arguments: String...) throws -> String {
        let run = try database.run(["diff"] + arguments)
        #expect(run.exitCode == (run.output.isEmpty ? 0 : 1) && run.errors.isEmpty, "\(arguments)")
        return run.output
    }

    private static func json(_ database: CommandDatabase, _ old: String, _ new: String) throws -> [JSONText] {
        try output(database, old, new, "--json").split(separator: "\n").map { try JSONText(reading: String($0)) }
    }

    @Test func betweenSeqs() throws {
        try withHistory { database throws in
            let found = try Self.json(database, "default@2", "default@5")
            #expect(
                found.sorted { $0["path"]?.string ?? "" < $1["path"]?.string ?? "" } == [
                    ["path": "/posts/1", "old": nil, "new": "short"],
                    ["path": "/posts/1/.priority", "old": nil, "new": 3],
                    ["path": "/users/bob/name", "old": "Bob", "new": nil],
                ])
            let backwards = try Self.json(database, "default@5", "default@2")
            #expect(Set(backwards.compactMap { $0["path"]?.string }) == Set(found.compactMap { $0["path"]?.string }))
            #expect(backwards.first { $0["path"] == "/users/bob/name" }?["new"] == "Bob")
            #expect(
                try Self.output(database, "default@2", "default@5", "--path", "/users")
                    == "/users/bob/name: \"Bob\" → nothing\n")
            #expect(
                try Self.output(database, "default@5", "default@2", "--path", "/users")
                    == "/users/bob/name: nothing → \"Bob\"\n")
        }
    }

    @Test func nothing() throws {
        try withHistory { database throws in
            #expect(try Self.output(database, "default@8", "default").isEmpty)
            #expect(try Self.output(database, "default@head", "default@2026-01-31T12:08:00Z").isEmpty)
            #expect(try Self.output(database, "default@3", "default@3").isEmpty)
            #expect(try Self.output(database, "default@now", "default@0s").isEmpty)
            #expect(try !Self.output(database, "default@now", "default@1").isEmpty)
        }
    }

    @Test func betweenNamespaces() throws {
        try withHistory { database throws in
            try database.json("replay", "tree", "--at", "5", "--into", "then")
            #expect(try Self.output(database, "default@5", "then").isEmpty)
            #expect(try Self.json(database, "then", "default@4").count == 2)
        }
    }

    /// Compares each pair of trees in both directions.
    @Test func everyPair() throws {
        try withHistory { database throws in
            for old in stride(from: 0, through: 8, by: 2) {
                for new in stride(from: 1, through: 8, by: 3) {
                    let there = try Self.json(database, "default@\(old)", "default@\(new)")
                    let back = try Self.json(database, "default@\(new)", "default@\(old)")
                    let swapped = back.map {
                        JSONText.object(["path": $0["path"]!, "old": $0["new"]!, "new": $0["old"]!])
                    }
                    #expect(Set(there.map { "\($0)" }).count == there.count)
                    #expect(there.count == swapped.count && swapped.allSatisfy(there.contains))
                    #expect((pastTrees[old] == pastTrees[new]) == there.isEmpty)
                }
            }
        }
    }

    @Test func mistakes() throws {
        try withHistory { database throws in
            #expect(try database.run(["diff", "default@x", "default"]).exitCode == 2)
            #expect(try database.run(["diff", "default"]).exitCode == 2)
            #expect(try database.run(["diff", "default@", "default"]).exitCode == 2)
            // Exit code 1 means only that they differ. Other failures have another code.
            for (name, message) in [
                ("nobody", "There is no namespace \"nobody\"."), ("default@9", "There is no seq 9 yet"),
            ] {
                let run = try database.run(["diff", name, "default"])
                #expect(run.exitCode == 2)
                #expect(run.errors.contains(message))
            }
        }
    }
}
