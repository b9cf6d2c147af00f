import Compression
import TestSupport
import Testing
import Tree

@testable import pathmirror

/// Checks that data is imported and exported unchanged, by files and by pipes, and that invalid data changes nothing.
@Suite struct TransferCommandTests {
    @Test func thereAndBack() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            let text = #"{"a":{"b":1,"c":[true,null,"x"]},"p":{".value":2.5,".priority":"z"},"u":"\u0000😀\"\\"}"#
            let file = try folder.file("data.json", text)
            let imported = try database.run(["import", file])
            #expect(imported.exitCode == 0 && imported.output.isEmpty)
            #expect(imported.errors.hasPrefix("import: 6 leaves in "))
            let expected = try JSONText(
                reading:
                    #"{"a":{"b":1,"c":{"0":true,"2":"x"}},"p":{".value":2.5,".priority":"z"},"u":"\u0000😀\"\\"}"#)
            #expect(try database.tree() == expected)
            // Into a file; nothing on standard output.
            let out = folder.path + "/out.json"
            let exported = try database.run(["export", "-o", out])
            #expect(exported.exitCode == 0 && exported.output.isEmpty)
            #expect(exported.errors.hasPrefix("export: 6 leaves in "))
            #expect(try JSONText(reading: try folder.read("out.json")) == expected)
            #expect(folder.names == ["data.json", "out.json"])
        }
    }

    @Test func byPipes() throws {
        try withCommands { database throws in
            let run = try database.run(["import", "-", "--json"], input: #"{"x":1}"#)
            #expect(run.exitCode == 0)
            // Programs get no progress.
            #expect(run.errors.isEmpty)
            #expect(try run.json() == [["rows": 1, "seq": 1, "resumedRows": 0]])
            let export = try database.run(["export"])
            #expect(export.errors.isEmpty)
            #expect(try JSONText(reading: export.output) == ["x": 1])
        }
    }

    @Test func pathsAndNamespaces() throws {
        try withCommands { database throws in
            try database.json("import", "-", "--ns", "other", "--path", "/a/b", input: "5")
            try database.json("import", "-", "--ns", "other", "--path", "a/c/", input: #""six""#)
            #expect(try database.tree("other") == ["a": ["b": 5, "c": "six"]])
            #expect(try database.output("export", "--ns", "other", "--path", "/a/c") == "\"six\"\n")
            #expect(try database.output("export", "--ns", "other", "--path", "/none") == "null\n")
            // The import replaces all of the present data.
            try database.json("import", "-", "--ns", "other", "--path", "/a", input: #"{"d":1}"#)
            #expect(try database.tree("other") == ["a": ["d": 1]])
            // As for a gateway, the first of several is the default one.
            #expect(try database.output("export", "--ns", "other,more") == database.output("export", "--ns", "other"))
            #expect(try database.failure("export") == "pathmirror: There is no namespace \"default\".\n")
        }
    }

    @Test func compressedFiles() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            let compressed = try #require(Gzip.compress(Array(#"{"packed":true}"#.utf8)))
            let file = try folder.file("data.json.gz", compressed)
            try database.json("import", file)
            #expect(try database.tree() == ["packed": true])
            let cut = try folder.file("cut.gz", Array(compressed.dropLast(4)))
            #expect(try database.failure("import", cut).contains("\(cut) is cut short."))
            var damaged = compressed
            damaged[compressed.count / 2] ^= 0xFF
            let bad = try folder.file("bad.gz", damaged)
            #expect(try database.run(["import", bad]).exitCode == 1)
            #expect(try database.tree() == ["packed": true])
        }
    }

    @Test func chunks() throws {
        try withCommands { database throws in
            let text = "{" + (0..<250).map { "\"k\($0)\":\($0)" }.joined(separator: ",") + "}"
            let run = try database.json("import", "-", "--chunked", "--chunk-rows", "100", input: text)
            #expect(run.first?["rows"] == 250)
            #expect((run.first?["seq"]?.int ?? 0) >= 3)
            #expect(try database.tree().names.count == 250)
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    private static let noData = [
        ("", "- is empty."), ("{", "-: "), ("[1,", "-: "), ("nonsense", "-: "), ("{\"a.b\":1}", "-: "),
        ("{\"a\":1} x", "-: "), ("null", "- holds no data; nothing was changed."),
        ("{}", "- holds no data; nothing was changed."),
        ("{\"a\":{}}", "- holds no data; nothing was changed."), ("\u{1F}\u{8B}nonsense", "-"),
    ]

    @Test func whatIsNoData() throws {
        try withCommands { database throws in
            try database.makeNamespace("default")
            try database.set("/before", "1")
            for (text, said) in Self.noData {
                let errors = try database.failure("import", "-", input: text)
                #expect(errors.contains("pathmirror: \(said)"), "\(text)")
                #expect(try database.tree() == ["before": 1], "\(text)")
            }
            #expect(try database.json("log", "ls").count == 1)
        }
    }

    private static let mistaken: [([String], Int32)] = [
        (["import", "/nowhere/at/all"], 1), (["import"], 2), (["import", "-", "--chunk-rows", "0", "--chunked"], 2),
        (["import", "-", "--path", "/a.b"], 2), (["export", "--path", "/a$b"], 2),
        (["export", "--path", "/" + String(repeating: "a/", count: 33)], 2), (["export", "extra"], 2),
    ]

    @Test func mistakes() throws {
        try withCommands { database throws in
            try database.makeNamespace("default")
            for (arguments, code) in Self.mistaken {
                let run = try database.run(arguments, input: "1")
                #expect(run.exitCode == code, "\(run.errors)")
                #expect(run.output.isEmpty, "\(arguments)")
            }
            #expect(try database.json("log", "ls").isEmpty)
        }
    }

    @Test func anExportThatCannotBeWrittenLeavesWhatWasThere() throws {
        try withCommands { database throws in
            try database.makeNamespace("default")
            let folder = try ScratchFolder()
            #expect(try database.failure("export", "-o", folder.path + "/none/out").contains("can't be written"))
            try folder.file("out", "old")
            _ = try database.failure("export", "--ns", "none", "-o", folder.path + "/out")
            #expect(try folder.read("out") == "old")
            #expect(folder.names == ["out"])
        }
    }

    /// Checks that Ctrl-C ends long commands.
    @Test func signalsAreLetThrough() throws {
        try withCommands { database throws in
            let signals = ScriptedSignals()
            _ = try database.run(["import", "-", "--json"], input: "1", signals: signals)
            #expect(signals.interruption != nil)
        }
    }
}

/// Checks that paths on the command line have the database's syntax.
@Suite struct PathArgumentTests {
    @Test(arguments: [
        ("/", []), ("", []), ("a", ["a"]), ("/a/b", ["a", "b"]), ("a/b/", ["a", "b"]), ("//a//b", ["a", "b"]),
        ("/ü/😀", ["ü", "😀"]),
        ("/a b", ["a b"]), ("/%20", ["%20"]),
    ]) func paths(_ text: String, _ keys: [String]) throws {
        #expect(try PathArgument.parse(text).keys.map(\.description) == keys)
    }

    @Test(arguments: ["/a.b", "/$a", "/a#", "/[", "/]", "/\u{7F}", "/a\u{0}"]) func keysThatAreNone(_ text: String) {
        let error = #expect(throws: UsageError.self) { try PathArgument.parse(text) }
        #expect(error?.message.hasPrefix("The path \(text) has a key that ") == true)
    }

    @Test func depth() throws {
        let deepest = String(repeating: "/a", count: 32)
        #expect(try PathArgument.parse(deepest).depth == 32)
        let error = #expect(throws: UsageError.self) { try PathArgument.parse(deepest + "/a") }
        #expect(error?.message == "\(deepest)/a is nested more than 32 levels deep.")
    }
}
