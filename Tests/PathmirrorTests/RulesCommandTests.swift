import TestSupport
import Testing

@testable import pathmirror

/// Checks that rules are checked before they apply, that their history is kept, and that earlier ones can be restored.
@Suite struct RulesCommandTests {
    static let open = "// open\n{\"rules\": {\".read\": true, \".write\": true}}\n"
    static let closed = "{\"rules\": {\".read\": \"auth != null\", \".write\": false}}"

    @Test func setGetHistoryAndRollback() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            let (open, closed) = (try folder.file("open", Self.open), try folder.file("closed", Self.closed))
            #expect(try database.output("rules", "set", open) == "The rules of \"default\" apply from seq 1 on.\n")
            #expect(try database.output("rules", "get") == Self.open)
            #expect(
                try JSONText(reading: try database.output("rules", "get", "--strict"))
                    == ["rules": [".read": true, ".write": true]])
            #expect(try database.json("rules", "set", closed) == [["seq": 2, "warnings": []]])
            // A text without a final line end gets one.
            #expect(try database.output("rules", "get") == Self.closed + "\n")
            #expect(try database.output("rules", "get", "--seq", "1") == Self.open)
            let history = try database.json("rules", "history")
            #expect(history.map { $0["seq"]?.int } == [1, 2])
            #expect(history.map { $0["bytes"]?.int } == [Self.open.utf8.count, Self.closed.utf8.count])
            #expect(history.allSatisfy { $0["origin"]?["via"] == "cli" && $0["committedAt"]?.string != nil })
            #expect(try database.output("rules", "history").split(separator: "\n").count == 2)
            #expect(
                try database.output("rules", "rollback")
                    == "The rules of \"default\" from seq 1 apply again, from seq 3 on.\n")
            #expect(try database.output("rules", "get") == Self.open)
            #expect(try database.json("rules", "rollback", "2") == [["seq": 4, "from": 2]])
            #expect(try database.output("rules", "get") == Self.closed + "\n")
            #expect(try database.json("log", "ls").map { $0["op"]?.string } == ["rules", "rules", "rules", "rules"])
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func clearAndRollback() throws {
        try withCommands { database throws in
            try database.json("rules", "set", "-", input: Self.open)
            let removed = { (seq: Int) in
                "\"default\" has no rules of its own from seq \(seq) on; its gateways use those of --rules.\n"
            }
            #expect(
                try database.output("rules", "clear") == removed(2)
                    + "'pathmirror rules rollback' restores them.\n")
            #expect(try database.failure("rules", "get").contains("\"default\" has no rules of its own"))
            #expect(
                try database.failure("rules", "get", "--seq", "2").contains("Entry 2 of \"default\" removed the rules.")
            )
            #expect(try database.json("rules", "history").map { $0["bytes"]?.int } == [Self.open.utf8.count, 0])
            #expect(try database.output("rules", "history").contains(" removed  "))
            // Clearing twice writes only one entry.
            #expect(try database.json("rules", "clear") == [["seq": nil]])
            #expect(try database.json("rules", "rollback") == [["seq": 3, "from": 1]])
            #expect(try database.output("rules", "get") == Self.open)
            #expect(try database.output("rules", "rollback") == removed(4))
            #expect(try database.json("rules", "rollback", "1") == [["seq": 5, "from": 1]])
            #expect(try database.json("rules", "clear") == [["seq": 6]])
            let found = try database.run(["doctor", "--json"]).json()
            #expect(found.contains { $0["check"] == "namespaces.rules" && $0["level"] == "note" })
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func ofANamespaceByAPipe() throws {
        try withCommands { database throws in
            try database.json("rules", "set", "-", "--ns", "other", input: Self.open)
            #expect(try database.output("rules", "get", "--ns", "other") == Self.open)
            #expect(try database.value("select count(*)::text from pathmirror.namespace") == "1")
        }
    }

    @Test func whatIsNotThere() throws {
        try withCommands { database throws in
            try database.makeNamespace("default")
            #expect(
                try database.failure("rules", "get")
                    == "pathmirror: \"default\" has no rules of its own; its gateways use those of --rules.\n"
            )
            #expect(try database.output("rules", "history").isEmpty)
            #expect(try database.failure("rules", "rollback").contains("\"default\" has never had rules of its own."))
            #expect(
                try database.output("rules", "clear") == "\"default\" has no rules of its own. Nothing was changed.\n")
            #expect(try database.json("rules", "clear") == [["seq": nil]])
            try database.json("rules", "set", "-", input: Self.open)
            #expect(
                try database.failure("rules", "rollback").contains(
                    "The rules of \"default\" from seq 1 have no earlier version. 'pathmirror rules clear' removes them."
                ))
            #expect(
                try database.failure("rules", "rollback", "7").contains(
                    "Entry 7 of \"default\" set no rules: see 'pathmirror rules history'."))
            #expect(
                try database.failure("rules", "get", "--seq", "7").contains("Entry 7 of \"default\" set no rules."))
            #expect(try database.run(["rules", "rollback", "x"]).exitCode == 2)
            #expect(try database.run(["rules", "get", "--seq", "0"]).exitCode == 2)
        }
    }

    /// The entry may be pruned, but the rules remain.
    @Test func historyOfAPrunedLog() throws {
        try withCommands { database throws in
            try database.json("rules", "set", "-", input: Self.open)
            try database.json("rules", "set", "-", input: Self.closed)
            try database.json("log", "prune", "--keep", "1 entry", "--yes")
            let history = try database.json("rules", "history")
            #expect(history.first?["committedAt"] == .null && history.first?["origin"] == .null)
            #expect(try database.output("rules", "history").contains("1  (not in the log any more)  "))
            #expect(try database.output("rules", "get", "--seq", "1") == Self.open)
        }
    }

    @Test func mistakesChangeNothing() throws {
        try withCommands { database throws in
            try database.json("rules", "set", "-", input: Self.open)
            let bad = "{\n  \"rules\": {\".read\": \"tru\"}\n}"
            let run = try database.run(["rules", "set", "-"], input: bad)
            #expect(run.exitCode == 1)
            #expect(run.errors == "pathmirror: -:2:23: Unknown variable 'tru'.\n")
            #expect(try database.output("rules", "get") == Self.open)
            #expect(try database.run(["rules", "set", "-", "--dry-run"], input: bad).exitCode == 1)
            #expect(try database.output("rules", "set", "-", "--dry-run", input: Self.closed) == "- is valid\n")
            #expect(try database.json("rules", "set", "-", "--dry-run", input: Self.closed) == [["seq": nil]])
            #expect(try database.output("rules", "get") == Self.open)
        }
    }
}

/// Checks that errors in a rules file have their positions, for people and for programs.
@Suite struct RulesCheckCommandTests {
    @Test func valid() throws {
        let folder = try ScratchFolder()
        let file = try folder.file("rules.json", RulesCommandTests.open)
        let run = try pathmirror(["rules", "check", file])
        #expect(run.exitCode == 0 && run.output == "\(file) is valid\n" && run.errors.isEmpty)
        #expect(
            try pathmirror(["rules", "check", file, "--json"]).json() == [
                ["valid": true, "errors": [], "warnings": []]
            ])
        #expect(try pathmirror(["rules", "check", "-"], input: RulesCommandTests.open).output == "- is valid\n")
    }

    @Test func mistakes() throws {
        let text = "{\n  \"rules\": {\".read\": \"tru\",\n  \"a\": {\".write\": \"fals\"}}\n}"
        let run = try pathmirror(["rules", "check", "-"], input: text)
        #expect(run.exitCode == 1 && run.output.isEmpty)
        #expect(run.errors == "pathmirror: -:2:23: Unknown variable 'tru'.\n-:3:20: Unknown variable 'fals'.\n")
        let json = try pathmirror(["rules", "check", "-", "--json"], input: text)
        #expect(json.exitCode == 1)
        #expect(json.errors == "pathmirror: - has 2 mistakes.\n")
        let report = try #require(try json.json().first)
        #expect(report["valid"] == false)
        #expect(
            report["errors"] == [
                ["line": 2, "column": 23, "message": "Unknown variable 'tru'."],
                ["line": 3, "column": 20, "message": "Unknown variable 'fals'."],
            ])
    }

    @Test(arguments: ["", "nonsense", "[]", "{\"rules\": 1}", "{}"]) func whatAreNoRules(_ text: String) throws {
        let run = try pathmirror(["rules", "check", "-"], input: text)
        #expect(run.exitCode == 1)
        #expect(run.errors.hasPrefix("pathmirror: -:1:"))
        #expect(try pathmirror(["rules", "check", "-", "--json"], input: text).json().first?["valid"] == false)
    }

    @Test func aFileThatIsNotThere() throws {
        let run = try pathmirror(["rules", "check", "/nowhere"])
        #expect(run.exitCode == 1)
        #expect(run.errors == "pathmirror: /nowhere can't be read: No such file or directory.\n")
    }
}

/// Checks that a table of cases is run, and that failing cases are listed.
@Suite struct RulesTestCommandTests {
    private static func table(_ expectations: [(String, String)]) -> String {
        let cases = expectations.map { name, expected in
            "{\"name\": \"\(name)\", \"rules\": \(RulesCommandTests.closed), \"data\": null, \"auth\": null, \"now\": 0, \"op\": \"read\", \"path\": \"\", \"expect\": \"\(expected)\"}"
        }
        return "{\"cases\": [\(cases.joined(separator: ","))]}"
    }

    @Test func allHold() throws {
        let run = try pathmirror(["rules", "test", "-"], input: Self.table([("one", "deny"), ("two", "deny")]))
        #expect(run.exitCode == 0 && run.errors.isEmpty)
        #expect(run.output.contains("2 cases: 2 passed, 0 failed"))
    }

    @Test func oneDoesNot() throws {
        let table = Self.table([("holds", "deny"), ("does not", "allow")])
        let run = try pathmirror(["rules", "test", "-"], input: table)
        #expect(run.exitCode == 1)
        #expect(run.output.contains("FAIL does not") && run.output.contains("2 cases: 1 passed, 1 failed"))
        #expect(run.errors == "pathmirror: 1 of 2 cases failed.\n")
        let json = try pathmirror(["rules", "test", "-", "--json"], input: table)
        #expect(json.exitCode == 1)
        let report = try #require(try json.json().first)
        #expect(report["cases"] == 2 && report["passed"] == 1 && report["failed"] == 1 && report["disputed"] == 0)
        #expect(report["results"]?.items.map { $0["outcome"] } == ["passed", "failed"])
        #expect(report["results"]?[1]?["reason"]?.string?.isEmpty == false)
    }

    /// A table without a test must not look like a passing one.
    @Test(arguments: ["{\"cases\": []}", "", "{}", "[]", "{\"cases\": [{}]}"]) func whatIsNoTable(_ text: String) throws
    {
        #expect(try pathmirror(["rules", "test", "-"], input: text).exitCode == 1)
    }
}

/// Checks that a decision is explained with the value of each part of a rule.
@Suite struct RulesExplainCommandTests {
    private let folder: ScratchFolder
    private let given: [String]

    init() throws {
        folder = try ScratchFolder()
        let rules = try folder.file(
            "rules",
            #"{"rules":{"rooms":{"$room":{".read":"auth != null && data.child('members').hasChild(auth.uid)","topic":{".write":"auth.uid == 'ada'",".validate":"newData.isString() && newData.val().length < 5"}}},"time":{".read":"now > 1000"},"q":{".read":"query.limitToFirst <= 10"}}}"#
        )
        let data = try folder.file("data", #"{"rooms":{"a":{"members":{"ada":true}}}}"#)
        given = ["rules", "explain", "--rules", rules, "--root", data]
    }

    private func explain(_ arguments: String...) throws -> JSONText {
        let run = try pathmirror(given + arguments + ["--json"])
        #expect(run.exitCode == 0, "\(run.errors)")
        return try #require(try run.json().first)
    }

    @Test func reads() throws {
        let allowed = try explain("--path", "rooms/a", "--auth", #"{"uid":"ada"}"#)
        #expect(allowed["allowed"] == true)
        #expect(allowed["denial"] == .null)
        #expect(allowed["deciding"]?["pattern"] == "/rooms/$room")
        #expect(allowed["steps"]?.items.contains { $0["result"] == true } == true)
        let denied = try explain("--path", "rooms/a", "--auth", #"{"uid":"eve"}"#)
        #expect(denied["allowed"] == false)
        #expect(denied["denial"]?["path"] == "/rooms/a")
        #expect(try explain("--path", "rooms/a")["allowed"] == false)
        let parts = try #require(allowed["steps"]?.items.last?["parts"]?.items)
        #expect(parts.contains { $0["text"] == "auth.uid" && $0["value"] == "\"ada\"" })
    }

    @Test func writesAndUpdates() throws {
        let ada = ["--auth", #"{"uid":"ada"}"#]
        let run = try pathmirror(given + ada + ["--op", "write", "--path", "rooms/a/topic", "--value", #""too long""#])
        #expect(run.exitCode == 0)
        #expect(run.output.contains("Denied: /rooms/a/topic is not valid, by .validate of /rooms/$room/topic"))
        let update = try pathmirror(
            given + ada + ["--op", "update", "--path", "rooms/a", "--value", #"{"topic":"ok"}"#, "--json"])
        let answer = try #require(try update.json().first)
        #expect(answer["allowed"] == true && answer["steps"]?.items.count == 2)
        // The default value is null, which removes: no value may be written there.
        #expect(try explain("--op", "write", "--path", "rooms")["allowed"] == false)
    }

    @Test func timeAndQueries() throws {
        #expect(try explain("--path", "time", "--now", "1000")["allowed"] == false)
        #expect(try explain("--path", "time", "--now", "1001")["allowed"] == true)
        #expect(try explain("--path", "time")["allowed"] == true)
        #expect(try explain("--path", "q")["allowed"] == false)
        #expect(try explain("--path", "q", "--query", "orderBy=\"$key\"&limitToFirst=10")["allowed"] == true)
        #expect(try explain("--path", "q", "--query", "orderBy=\"$key\"&limitToFirst=11")["allowed"] == false)
    }

    @Test(arguments: [
        (["--op", "fly"], 2, "--op must be read, write or update."),
        (["--auth", "nonsense"], 2, "--auth must be JSON."),
        (["--now", "soon"], 2, "--now must be a whole number"), (["--path", "/a.b"], 2, "has a key that"),
        (["--query", "limitToFirst=x"], 2, "--query: "),
        (["--op", "write", "--value", "{"], 1, "--value is not valid data: "),
        (["--op", "update", "--value", "nonsense"], 1, "--value is not a valid update: "),
        (["--root", "/nowhere"], 1, "can't be read"),
        (["--data", "tree.json"], 2, "The data before the operation is --root."),
        (["--rules", "/nowhere"], 1, "can't be read"),
    ]) func mistakes(_ arguments: [String], _ code: Int32, _ said: String) throws {
        let run = try pathmirror(given + arguments)
        #expect(run.exitCode == code)
        #expect(run.output.isEmpty)
        #expect(run.errors.contains(said), "\(run.errors)")
    }

    @Test func ofANamespace() throws {
        try withCommands { database throws in
            try database.json("rules", "set", "-", input: #"{"rules":{"a":{".read":"data.val() == 1"}}}"#)
            try database.set("/a", "1")
            let run = try database.run(["rules", "explain", "--ns", "default", "--path", "a", "--json"])
            #expect(try run.json().first?["allowed"] == true)
            // Data other than the stored data.
            let other = try database.run(
                ["rules", "explain", "--ns", "default", "--path", "a", "--root", "-", "--json"], input: #"{"a":2}"#)
            #expect(try other.json().first?["allowed"] == false)
            try database.makeNamespace("bare")
            #expect(try database.run(["rules", "explain", "--ns", "bare"]).exitCode == 2)
        }
    }
}
