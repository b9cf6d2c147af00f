import TestSupport
import Testing

@testable import pathmirror

/// Checks that delivered messages of a part of the log are delivered once more with their ids, and no other messages.
@Suite struct ReplayFeedCommandTests {
    /// Five entries of three orders; the feed `orders` has delivered all of them.
    private static func withFeed(
        _ more: String = "", _ body: (CommandDatabase) throws -> Void
    ) throws {
        try withCommands { database throws in
            try database.makeNamespace("default")
            for key in ["a", "b"] { try database.set("/orders/\(key)", "1") }
            try database.execute("select pathmirror.update('default', '/orders', '{\"a\": 2, \"c\": 2}')")
            try database.execute("select pathmirror.remove('default', '/orders/b')")
            try database.set("/elsewhere", "1")
            try apply(
                database, #"{"name": "orders", "path": "/orders/{order_id}", "include": ["value", "old"]\#(more)}"#)
            try body(database)
        }
    }

    private static func apply(_ database: CommandDatabase, _ definition: String) throws {
        try database.output("feed", "apply", "-", input: definition)
    }

    private static func storedDeadLetters(_ database: CommandDatabase, _ feed: String = "orders") throws -> String? {
        try database.value(
            """
            select string_agg(concat_ws(' ', message ->> 'id', state, attempts, letter.key, message -> 'value'), ', '
                order by seq, index)
            from pathmirror.feed_message as letter join pathmirror.feed on feed.id = letter.feed where name = '\(feed)'
            """)
    }

    @Test func allOfIt() throws {
        try Self.withFeed { database throws in
            let revision = try database.value("select revision::text from pathmirror.feed")
            let dry = try #require(
                try database.json("replay", "feed", "orders", "--from", "1", "--dry-run").first)
            #expect(dry["messages"] == 5 && dry["entries"] == 5 && dry["toCome"] == 0 && dry["dryRun"] == true)
            #expect(try Self.storedDeadLetters(database) == nil)
            #expect(try database.value("select revision::text from pathmirror.feed") == revision)
            let done =
                "default:1:0 retry 0 a 1, default:2:0 retry 0 b 1, default:3:0 retry 0 a 2, default:3:1 retry 0 c 2, "
                + "default:4:0 retry 0 b null"
            // A message that is already waiting is not added twice.
            for _ in 1...2 {
                #expect(
                    try database.output("replay", "feed", "orders", "--from", "1")
                        == "5 messages of 5 entries are delivered once more by orders.\n")
                #expect(try Self.storedDeadLetters(database) == done)
            }
            #expect(try database.value("select revision::text from pathmirror.feed") != revision)
            let old = try database.value(
                "select message ->> 'old' from pathmirror.feed_message where seq = 3 and index = 0")
            #expect(old == "1")
        }
    }

    @Test(arguments: [
        (["--from", "3"], "default:3:0 default:3:1 default:4:0"),
        (["--from", "2", "--to", "3"], "default:2:0 default:3:0 default:3:1"),
        (["--from", "0", "--to", "1"], "default:1:0"), (["--from", "1", "--key", "b"], "default:2:0 default:4:0"),
        (["--from", "2026-01-31T12:03:00Z"], "default:4:0"), (["--from", "5"], nil),
        (["--from", "1", "--key", "x"], nil),
    ])
    func partsOfIt(_ options: [String], _ ids: String?) throws {
        try Self.withFeed { database throws in
            try database.execute(
                "update pathmirror.log set committed_at = timestamptz '2026-01-31 12:00Z' + seq * interval '1 min'")
            let run = try database.run(["replay", "feed", "orders"] + options)
            #expect(run.exitCode == 0, "\(run.errors)")
            #expect(
                try database.value(
                    "select string_agg(message ->> 'id', ' ' order by seq, index) from pathmirror.feed_message") == ids)
        }
    }

    /// Messages that are still to be delivered would be delivered twice.
    @Test func whatIsStillToCome() throws {
        try Self.withFeed { database throws in
            try database.output("feed", "seek", "orders", "--seq", "2", "--yes")
            let outcome = try #require(try database.json("replay", "feed", "orders", "--from", "1").first)
            #expect(outcome["messages"] == 2 && outcome["toCome"] == 3)
            #expect(try Self.storedDeadLetters(database) == "default:1:0 retry 0 a 1, default:2:0 retry 0 b 1")
        }
    }

    /// The present definition decides which entries are messages.
    @Test func filteredAsTheFeedDoes() throws {
        try Self.withFeed(#", "filter": "newData.val() == 2", "operations": ["update"]"#) { database throws in
            try database.output("replay", "feed", "orders", "--from", "1")
            #expect(try Self.storedDeadLetters(database) == "default:3:0 retry 0 a 2, default:3:1 retry 0 c 2")
        }
    }

    @Test func intoAnother() throws {
        try Self.withFeed { database throws in
            try Self.apply(
                database, #"{"name": "copy", "path": "/orders/{order_id}", "order": "namespace", "filter": "false"}"#)
            try Self.apply(database, #"{"name": "other", "path": "/others/{order_id}"}"#)
            try database.output("replay", "feed", "orders", "--from", "4", "--into", "copy")
            #expect(try Self.storedDeadLetters(database) == nil)
            #expect(try Self.storedDeadLetters(database, "copy") == "default:4:0 retry 0  null")
            #expect(
                try database.failure("replay", "feed", "orders", "--from", "1", "--into", "other").contains(
                    "has another path"))
            #expect(
                try database.failure("replay", "feed", "orders", "--from", "1", "--into", "none").contains(
                    "There is no feed \"none\""))
        }
    }

    /// A dead letter of that part is retried, and the messages set aside after it continue; after another dead letter all are set aside.
    @Test(arguments: ["continue", "stop"]) func deadLetters(_ policy: String) throws {
        try Self.withFeed(#", "on_dead": "\#(policy)""#) { database throws in
            try database.execute(
                """
                insert into pathmirror.feed_message
                    (namespace_id, feed, seq, index, is_snapshot, key, state, attempts, errors, message)
                select namespace_id, id, seq, 0, false, key, state, 3, '[]', '{"id": "kept"}'
                from pathmirror.feed, (values (2, 'b', 'dead'), (4, 'b', 'blocked'), (9, 'a', 'dead')) as letter (seq, key, state)
                """)
            try database.output("replay", "feed", "orders", "--from", "1", "--to", "3")
            let after = try database.value(
                "select string_agg(seq || state, ' ' order by seq, index) from pathmirror.feed_message")
            let stopped = policy == "stop"
            #expect(
                after == "1\(stopped ? "blocked" : "retry") 2retry 3\(stopped ? "blocked" : "retry") 3retry "
                    + "4\(stopped ? "retry" : "blocked") 9dead")
        }
    }

    @Test func mistakes() throws {
        try Self.withFeed { database throws in
            #expect(try database.run(["replay", "feed", "orders"]).exitCode == 2)
            #expect(try database.run(["replay", "feed", "orders", "--from", "noon"]).exitCode == 2)
            let turned = try database.run(["replay", "feed", "orders", "--from", "4", "--to", "2"])
            #expect(turned.exitCode == 2 && turned.errors.contains("--from 4 comes after --to 2."))
            #expect(try database.failure("replay", "feed", "none", "--from", "1").contains("There is no feed \"none\""))
            #expect(try database.failure("replay", "feed", "orders", "--from", "9").contains("the head is 5"))
            try database.output("log", "prune", "--keep", "2 entries", "--yes", "--json")
            #expect(
                try database.failure("replay", "feed", "orders", "--from", "1").contains(
                    "Entry 1 is not in the log any more; the oldest is 4: give --from 4."))
            try database.output("replay", "feed", "orders", "--from", "4")
            #expect(try Self.storedDeadLetters(database) == "default:4:0 retry 0 b null")
        }
    }
}
