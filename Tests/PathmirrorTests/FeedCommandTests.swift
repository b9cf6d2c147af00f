import TestSupport
import Testing

@testable import pathmirror

/// Checks that commands create, change, show, move and remove feeds, and do nothing else.
@Suite struct FeedCommandTests {
    static let definition = #"{"name": "orders", "path": "/orders/{order_id}", "retention": "3d"}"#

    /// A namespace with three orders, and the definition of a feed of them in `feed.json`.
    static func withOrders(_ body: (CommandDatabase, ScratchFolder) throws -> Void) throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            try folder.file("feed.json", definition)
            try database.makeNamespace("default")
            for number in 1...3 { try database.set("/orders/o\(number)", #"{"total": \#(number)}"#) }
            try body(database, folder)
        }
    }

    private static func apply(_ database: CommandDatabase, _ folder: ScratchFolder, _ more: String...) throws
        -> [JSONText]
    {
        let run = try database.run(["feed", "apply", folder.path + "/feed.json", "--json"] + more)
        #expect(run.exitCode == 0, "\(run.errors)")
        return try run.json()
    }

    /// Creates dead letters as a gateway does: two of the second order, one of the third. A further message is set aside after the former.
    private static func bury(_ database: CommandDatabase) throws {
        try database.execute(
            """
            insert into pathmirror.feed_message
                (namespace_id, feed, seq, index, is_snapshot, key, state, attempts, errors, message, since)
            select namespace_id, id, seq, 0, false, key, state, 10,
                '[{"time":"2026-01-31T12:00:00.000Z","attempt":10,"reason":"no room"}]',
                json_build_object('id', 'default:' || seq || ':0', 'seq', seq), timestamptz '2026-01-31 12:00Z'
            from pathmirror.feed, (values (2, 'o2', 'dead'), (3, 'o3', 'dead'), (4, 'o2', 'dead'), (5, 'o2', 'blocked'))
                as letter (seq, key, state)
            """)
    }

    private static func states(_ database: CommandDatabase) throws -> String? {
        try database.value(
            "select string_agg(seq || state, ' ' order by seq) from pathmirror.feed_message")
    }

    // MARK: Definitions

    @Test func appliedChangedAndSeen() throws {
        try Self.withOrders { database, folder in
            let plan = try database.run(["feed", "apply", folder.path + "/feed.json", "--dry-run"])
            #expect(plan.exitCode == 0)
            #expect(plan.output == "would be created  default  orders  /orders/{order_id}\n")
            #expect(try database.output("feed", "ls").isEmpty)

            #expect(
                try database.output("feed", "apply", folder.path + "/feed.json")
                    == "created  default  orders  /orders/{order_id}  seq 3\n")
            let again = try #require(try Self.apply(database, folder).first)
            #expect(again["action"] == "unchanged" && again["seq"] == 3 && again["dryRun"] == false)
            #expect(again.names == ["namespace", "name", "action", "seq", "dryRun"])

            try folder.file("feed.json", #"{"feeds": [{"name": "orders", "path": "/orders/{id}", "include": []}]}"#)
            #expect(try Self.apply(database, folder, "--dry-run").first?["action"] == "changed")
            #expect(try Self.apply(database, folder).first?["action"] == "changed")
            #expect(try Self.apply(database, folder).first?["action"] == "unchanged")

            #expect(try database.output("feed", "ls") == "default  orders  /orders/{id}\n")
            let listed = try #require(try database.json("feed", "ls").first)
            #expect(listed["namespace"] == "default" && listed["name"] == "orders")
            #expect(listed["definition"]?["path"] == "/orders/{id}" && listed["definition"]?["max_attempts"] == 10)
        }
    }

    /// The command can't read the environments of gateways.
    @Test func variablesOfGatewaysAreNamed() throws {
        try withCommands { database throws in
            try database.makeNamespace("shop")
            let hook = { (namespace: String) in
                #"{"name":"hook",\#(namespace)"path":"/a/{id}","webhook":{"url":"https://example.com/","secrets":["env:PATHMIRROR_SINK_A","env:PATHMIRROR_SINK_B"]}}"#
            }
            let needs = { (options: String) in
                "Every gateway needs PATHMIRROR_SINK_A, PATHMIRROR_SINK_B in its environment. 'pathmirror feed status hook\(options)' shows the feed as broken if the gateway that runs it lacks one.\n"
            }
            let made = try database.run(["feed", "apply", "-", "--ns", "shop"], input: hook(""))
            #expect(made.exitCode == 0 && made.errors == needs(" --ns shop"), "\(made.errors)")
            // An equal definition changes nothing, and programs get no sentences.
            #expect(try database.run(["feed", "apply", "-", "--ns", "shop"], input: hook("")).errors.isEmpty)
            let named = hook(#""namespace":"shop","#).replacing("/a/", with: "/b/")
            let changed = try database.run(["feed", "apply", "-"], input: named)
            #expect(changed.exitCode == 0 && changed.errors == needs(" --ns shop"), "\(changed.errors)")
            #expect(try database.run(["feed", "apply", "-", "--ns", "shop", "--json"], input: hook("")).errors.isEmpty)
        }
    }

    @Test func ofSeveralNamespaces() throws {
        try Self.withOrders { database, folder in
            try database.makeNamespace("other")
            try folder.file(
                "feed.json",
                #"[{"name": "a", "path": "/a/{x}"}, {"name": "a", "namespace": "other", "path": "/b/{x}"}]"#)
            #expect(try Self.apply(database, folder).map { $0["namespace"] } == ["default", "other"])
            #expect(try database.output("feed", "ls") == "default  a  /a/{x}\nother    a  /b/{x}\n")
            #expect(try database.output("feed", "ls", "--ns", "other") == "other  a  /b/{x}\n")
            #expect(try database.run(["feed", "status", "--ns", "other"]).output.hasPrefix("other  a  "))
            for command in [["show"], ["status"], ["seek", "--to", "now"]] {
                let run = try database.run(["feed", command[0], "other/a", "--json"] + command.dropFirst())
                #expect(try run.json().first?["namespace"] == "other")
            }
            #expect(try database.run(["feed", "show", "other/a", "--ns", "default"]).exitCode == 2)
            #expect(try database.failure("feed", "show", "none/a").contains("no feed \"a\" in the namespace \"none\""))
            #expect(try database.failure("feed", "ls", "--ns", "none").contains("There is no namespace \"none\""))
        }
    }

    /// Checks that no definition is applied if one of them is invalid.
    @Test(arguments: [
        (#"[{"name": "a", "path": "/a/{x}"}, {"name": "b", "path": "/b/{x}", "order": "no"}]"#, "order"),
        (#"[{"name": "a", "path": "/a/{x}"}, {"name": "a", "path": "/b/{x}"}]"#, "have the name \"a\""),
        (
            #"[{"name": "a", "path": "/a/{x}"}, {"name": "b", "namespace": "none", "path": "/b/{x}"}]"#,
            "There is no namespace \"none\""
        ), ("[]", "there is no feed in this file"),
    ])
    func mistakes(_ definition: String, _ message: String) throws {
        try Self.withOrders { database, folder in
            try folder.file("feed.json", definition)
            #expect(try database.failure("feed", "apply", folder.path + "/feed.json").contains(message))
            #expect(try database.output("feed", "ls").isEmpty)
        }
    }

    @Test func inANamespaceThatIsNotThere() throws {
        try Self.withOrders { database, folder in
            try folder.file("feed.json", #"{"name": "a", "namespace": "none", "path": "/a/{x}"}"#)
            let apply = ["feed", "apply", folder.path + "/feed.json"]
            #expect(try database.run(apply).errors.contains("\"none\". Add --create to create it."))
            let plan = try database.run(apply + ["--create", "--dry-run"])
            #expect(plan.output == "would be created  none  a  /a/{x}\n", "\(plan.errors)")
            #expect(try database.run(["feed", "ls"]).output.isEmpty)
            #expect(try database.run(apply + ["--create"]).output == "created  none  a  /a/{x}  seq 0\n")
            #expect(try database.run(apply).output == "unchanged  none  a  /a/{x}  seq 0\n")
            try folder.file("feed.json", #"{"name": "a", "namespace": "no/ne", "path": "/a/{x}"}"#)
            #expect(try database.run(apply + ["--create"]).errors.contains("is not a valid namespace name"))
        }
    }

    /// Checks that a feed needs a running gateway that can deliver it.
    @Test(arguments: [
        ("running", 0, nil), ("failing", 0, nil), ("starting", 0, nil),
        ("broken", 1, "default/orders is broken: no key"),
        ("", 1, "default/orders is not running"),
    ])
    func statusFails(_ state: String, _ code: Int32, _ message: String?) throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            if !state.isEmpty {
                try database.execute(
                    """
                    insert into pathmirror.feed_worker (id, address) values (gen_random_uuid(), 'http://g');
                    update pathmirror.feed_owner set worker = (select id from pathmirror.feed_worker),
                        state = '\(state)', message = 'no key', reported_at = now();
                    update pathmirror.feed_progress set redelivered = 3
                    """)
            }
            let run = try database.run(["feed", "status"])
            #expect(run.exitCode == code, "\(run.errors)")
            #expect(run.output.hasPrefix("default  orders  \(state.isEmpty ? "not running" : state)  seq 3 of 3"))
            #expect(run.output.contains("  3 redelivered") == !state.isEmpty)
            #expect(message.map { run.errors.contains($0) } ?? run.errors.isEmpty, "\(run.errors)")
        }
    }

    @Test(arguments: [("40 s", "40 s"), ("9 min 30 s", "9 min"), ("3 h", "3 h"), ("4 d 1 h", "4 d")])
    func lagInWords(_ age: String, _ shown: String) throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            try database.set("/orders/o4", "1")
            try database.execute("update pathmirror.log set committed_at = now() - interval '\(age)' where seq = 4")
            #expect(try database.run(["feed", "status"]).output.contains("  \(shown) behind"))
        }
    }

    @Test func fromStandardInput() throws {
        try Self.withOrders { database, _ in
            let output = try database.output("feed", "apply", "-", input: Self.definition)
            #expect(output.hasPrefix("created  default  orders  "))
        }
    }

    @Test func shownWithItsFigures() throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            try database.set("/orders/o4", "1")
            let shown = try #require(try database.json("feed", "show", "orders").first)
            #expect(shown["definition"]?["retention"] == "3d" && shown["definition"]?["on_dead"] == "continue")
            let status = try #require(shown["status"])
            #expect(
                status["state"] == "not running" && status["seq"] == 3 && status["head"] == 4
                    && status["lag_entries"] == 1 && status["redelivered"] == 0)
            let run = try database.run(["feed", "status", "orders", "--json"])
            #expect(try run.json().first?.names == status.names)
            let lines = try database.run(["feed", "show", "orders"]).lines
            #expect(lines.count == 2 && lines[0].hasPrefix("default  orders  not running  seq 3 of 4  "))
            #expect(try JSONText(reading: lines[1]) == shown["definition"])
        }
    }

    // MARK: Positions

    @Test(arguments: [
        (["--seq", "2"], 2), (["--seq", "0"], 0), (["--to", "beginning"], 0), (["--to", "now"], 3),
        (["--to", "snapshot"], 2), (["--time", "2026-01-31T12:02:00Z"], 2),
    ])
    func moved(_ options: [String], _ seq: Int) throws {
        try Self.withOrders { database, folder in
            try database.execute(
                "update pathmirror.log set committed_at = timestamptz '2026-01-31 12:00Z' + seq * interval '1 min'")
            _ = try Self.apply(database, folder)
            let run = try database.run(["feed", "seek", "orders", "--yes", "--json"] + options)
            #expect(run.exitCode == 0, "\(run.errors)")
            #expect(try run.json().first?["seq"]?.int == seq)
            #expect(try database.value("select seq::text from pathmirror.feed_progress") == "\(seq)")
            let isSnapshot = try database.value("select snapshot_seq::text from pathmirror.feed_progress") != nil
            #expect(isSnapshot == options.contains("snapshot"))
        }
    }

    @Test(arguments: [
        [], ["--seq", "1", "--to", "now"], ["--to", "nowhere"], ["--time", "noon"], ["--seq", "-1"],
    ])
    func invalidPositions(_ options: [String]) throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            #expect(try database.run(["feed", "seek", "orders"] + options).exitCode == 2)
            #expect(try database.value("select generation::text from pathmirror.feed_progress") == "1")
        }
    }

    @Test(arguments: [
        (["--seq", "1"], "from seq 3 to seq 1, which delivers 2 entries again", "--seq 3"),
        (["--to", "now"], "from seq 3 to seq 5, which skips 2 entries", "--seq 3"),
        (
            ["--to", "snapshot"],
            "from seq 3 to a snapshot at seq 5, which delivers the whole tree again and skips 2 entries", "--seq 3"
        ),
    ])
    func movedAfterAYes(_ options: [String], _ effect: String, _ reversal: String) throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            for number in 4...5 { try database.set("/orders/o\(number)", "1") }
            let seek = ["feed", "seek", "orders"] + options
            let refused = try database.run(seek, input: "y\n")
            #expect(refused.exitCode == 1 && refused.output.isEmpty)
            #expect(
                refused.errors
                    == "pathmirror: Nothing was changed. Add --yes to move default/orders \(effect) without being asked.\n"
            )
            #expect(try database.run(seek, answering: "n").exitCode == 1)
            #expect(try database.value("select generation::text from pathmirror.feed_progress") == "1")
            #expect(try database.output("log", "snapshot", "--list").isEmpty)

            let asked = try database.run(seek, answering: "y")
            #expect(asked.exitCode == 0)
            #expect(asked.errors == "Move default/orders \(effect)? [y/N] ")
            #expect(asked.lines.last == "To reverse it: pathmirror feed seek default/orders \(reversal)")
        }
    }

    /// A feed that is moved to its own position delivers nothing again. A feed inside a snapshot can't be moved back there.
    @Test func movesWithoutAWayBack() throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            #expect(try database.run(["feed", "seek", "orders", "--to", "now"]).lines.count == 1)
            try database.output("feed", "seek", "orders", "--to", "snapshot", "--yes")
            #expect(
                try database.run(["feed", "seek", "orders", "--seq", "1", "--yes"]).lines.last
                    == "To begin with a snapshot again: pathmirror feed seek default/orders --to snapshot")
            try database.output("log", "prune", "--keep", "1 entry", "--force", "--yes", "--json")
            try database.execute("update pathmirror.feed_progress set seq = 1")
            #expect(
                try database.run(["feed", "seek", "orders", "--seq", "2", "--yes"]).lines.last
                    == "This cannot be reversed: entry 2 is no longer in the log.")
        }
    }

    @Test func beyondTheHead() throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            #expect(try database.failure("feed", "seek", "orders", "--seq", "99").contains("the head is 3"))
        }
    }

    @Test func beforeTheLog() throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            try database.output("log", "prune", "--keep", "1 entry", "--yes", "--json")
            #expect(
                try database.failure("feed", "seek", "orders", "--seq", "0").contains(
                    "Entry 1 is not in the log any more; the oldest is 3. Give --seq 2 to begin with that one"))
            let late = #"{"name": "late", "path": "/orders/{id}", "start": "beginning"}"#
            #expect(
                try database.failure("feed", "apply", "-", input: late).contains(
                    #"the oldest entry is 3. {"seq":2} begins with the oldest entry, "snapshot" with"#))
            #expect(try database.output("feed", "seek", "orders", "--seq", "2", "--yes").contains("is at seq 2"))
        }
    }

    // MARK: Dead letters

    @Test func deadLettersListed() throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            #expect(try database.output("feed", "dead", "ls", "orders").isEmpty)
            try Self.bury(database)
            let deadLetters = try database.json("feed", "dead", "ls", "orders")
            #expect(deadLetters.map { $0["id"] } == ["default:2:0", "default:3:0", "default:4:0"])
            #expect(deadLetters[0]["attempts"] == 10 && deadLetters[0]["errors"]?[0]?["reason"] == "no room")
            #expect(deadLetters[0]["dead_at"] == "2026-01-31T12:00:00.000Z")
            #expect(
                try database.run(["feed", "dead", "ls", "orders", "--limit", "1", "--after", "default:2:0"]).lines
                    == ["default:3:0  o3  10 attempts  2026-01-31T12:00:00.000Z  no room"])
            #expect(try database.run(["feed", "dead", "ls", "orders", "--after", "other:2:0"]).exitCode == 2)
            #expect(
                try database.run(["feed", "status", "orders"]).output.contains("  3 dead letters, 1 set aside"))
        }
    }

    @Test(arguments: [
        ("retry", ["--id", "default:2:0"], 1, "2retry 3dead 4dead 5blocked"),
        ("retry", ["--id", "default:2:0,default:4:0", "--id", "default:9:0"], 2, "2retry 3dead 4retry 5retry"),
        ("retry", ["--key", "o3"], 1, "2dead 3retry 4dead 5blocked"),
        ("retry", ["--all"], 3, "2retry 3retry 4retry 5retry"),
        ("drop", ["--id", "default:3:0"], 1, "2dead 4dead 5blocked"), ("drop", ["--key", "o2"], 2, "3dead 5retry"),
        ("drop", ["--all"], 3, "5retry"), ("drop", ["--key", "none"], 0, "2dead 3dead 4dead 5blocked"),
        ("retry", ["--id", "default:9:0"], 0, "2dead 3dead 4dead 5blocked"),
    ])
    func deadLettersChanged(_ word: String, _ options: [String], _ count: Int, _ after: String) throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            try Self.bury(database)
            let run = try database.run(
                ["feed", "dead", word, "orders", "--json"] + options + (word == "drop" ? ["--yes"] : []))
            #expect(run.exitCode == (count == 0 ? 1 : 0), "\(run.errors)")
            #expect(run.errors.contains("No dead letter matches") == (count == 0))
            #expect(try run.json().first?["count"]?.int == count)
            #expect(try Self.states(database) == after)
        }
    }

    @Test func deadLettersCountedInWords() throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            try Self.bury(database)
            #expect(
                try database.output("feed", "dead", "retry", "orders", "--key", "o3")
                    == "1 dead letter is delivered once more.\n")
            #expect(
                try database.output("feed", "dead", "drop", "orders", "--all", "--yes")
                    == "2 dead letters are dropped.\nThis cannot be reversed. To deliver all messages of entries 2 to 4 again: pathmirror replay feed default/orders --from 2 --to 4\n"
            )
            #expect(
                try database.output("feed", "dead", "drop", "orders", "--all") == "0 dead letters are dropped.\n")
        }
    }

    @Test func allDeadLettersDroppedAfterAYes() throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            try Self.bury(database)
            let drop = ["feed", "dead", "drop", "orders", "--all"]
            let deadLetters = "3 dead letters of default/orders, the oldest of 2026-01-31T12:00:00.000Z"
            let refused = try database.run(drop, input: "y\n")
            #expect(refused.exitCode == 1 && refused.output.isEmpty)
            #expect(
                refused.errors
                    == "pathmirror: Nothing was changed. Add --yes to drop \(deadLetters) without being asked.\n")
            #expect(try database.run(drop, answering: "n").exitCode == 1)
            #expect(try Self.states(database) == "2dead 3dead 4dead 5blocked")
            // There is no question about messages that the command line names.
            #expect(try database.run(drop.dropLast() + ["--key", "o3"]).exitCode == 0)
            let asked = try database.run(drop, answering: "y")
            #expect(asked.errors.hasPrefix("Drop 2 dead letters of default/orders, the oldest of"))
            #expect(try Self.states(database) == "5retry")
        }
    }

    @Test(arguments: ["retry", "drop"], [[], ["--all", "--key", "o2"], ["--id", "2"], ["--id", "other:2:0"]])
    func selectionsThatAreNone(_ word: String, _ options: [String]) throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            try Self.bury(database)
            #expect(try database.run(["feed", "dead", word, "orders"] + options).exitCode == 2)
            #expect(try Self.states(database) == "2dead 3dead 4dead 5blocked")
        }
    }

    // MARK: The end

    @Test func removed() throws {
        try Self.withOrders { database, folder in
            _ = try Self.apply(database, folder)
            try Self.bury(database)
            #expect(
                try database.failure("feed", "rm", "orders")
                    == "pathmirror: Nothing was changed. Add --yes to remove it without being asked.\n")
            #expect(try database.json("feed", "ls").count == 1)
            #expect(try database.output("feed", "rm", "orders", "--yes").isEmpty)
            #expect(try database.json("feed", "ls").isEmpty)
            #expect(try database.value("select count(*)::text from pathmirror.feed_message") == "0")
        }
    }

    @Test(arguments: [
        ["show", "none"], ["status", "none"], ["rm", "none", "--yes"], ["seek", "none", "--to", "now"],
        ["dead", "ls", "none"], ["dead", "retry", "none", "--all"], ["dead", "drop", "none", "--all"],
    ])
    func unknown(_ words: [String]) throws {
        try Self.withOrders { database, _ in
            let run = try database.run(["feed"] + words)
            #expect(run.exitCode == 1)
            #expect(run.errors == "pathmirror: There is no feed \"none\" in the namespace \"default\".\n")
        }
    }
}
