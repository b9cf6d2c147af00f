import TestSupport
import Testing

@testable import pathmirror

/// Checks that the log is kept for feeds as long as they need it, and is dropped earlier only on request.
@Suite struct FeedRetentionTests {
    /// Eight entries, the newest three hours old, and a feed that has reached the second.
    private static func withFeed(
        _ definition: String, _ body: (CommandDatabase) throws -> Void
    ) throws {
        try withHistory { database throws in
            try database.execute(
                "update pathmirror.log set committed_at = now() - interval '3 hours' + seq * interval '1 second'")
            try database.output(
                "feed", "apply", "-", input: #"{"name": "posts", "path": "/posts/{id}"\#(definition)}"#)
            try database.output("feed", "seek", "posts", "--seq", "2", "--yes")
            try body(database)
        }
    }

    private static func positions(_ database: CommandDatabase) throws -> String? {
        try database.value(
            "select concat_ws(' ', retained_from, seq, generation) from pathmirror.namespace, pathmirror.feed_progress")
    }

    @Test(arguments: [
        "", #", "when_retention_ends": "drop""#, #", "retention": "1h""#,
        #", "retention": "4h", "when_retention_ends": "drop""#,
    ])
    func isHeldBack(_ definition: String) throws {
        try Self.withFeed(definition) { database throws in
            let run = try database.run(["log", "prune", "--keep", "2 entries", "--yes"])
            #expect(run.exitCode == 0)
            #expect(run.errors.hasPrefix("feed posts still needs the entries after seq 2.\n"))
            #expect(try Self.positions(database) == "3 2 2")
            // No gateway runs the feed, so the command fails, but it prints the figures.
            let status = try #require(try database.run(["feed", "status", "posts", "--json"]).json().first)
            guard case .number(let digits) = status["holds_back_seconds"], let late = Double(digits) else {
                Issue.record("\(status)")
                return
            }
            #expect((late > 7_000) == definition.contains("1h"))
            #expect(late == 0 || late < 7_300)
        }
    }

    @Test func isDroppedWhereTheDefinitionSaysSo() throws {
        try Self.withFeed(#", "retention": "1h", "when_retention_ends": "drop""#) { database throws in
            let dry = try #require(try database.json("log", "prune", "--keep", "2 entries", "--dry-run").first)
            #expect(dry["skipping"] == [["name": "posts", "seq": 2, "entries": 4]] && dry["holders"] == [])
            #expect(try Self.positions(database) == "1 2 2")
            let run = try database.run(["log", "prune", "--keep", "2 entries", "--yes"])
            #expect(
                run.errors.hasPrefix(
                    "feed posts has delayed pruning after seq 2 for longer than its retention: it skips 4 entries.\n"))
            #expect(run.errors.contains("prune: feed posts skips 4 entries that it has not delivered\n"))
            #expect(try Self.positions(database) == "7 6 3")
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func forced() throws {
        try Self.withFeed("") { database throws in
            let run = try database.run(["log", "prune", "--keep", "2 entries", "--force", "--yes"])
            #expect(run.errors.hasPrefix("feed posts has read up to seq 2 and loses the entries after it.\n"))
            #expect(try Self.positions(database) == "7 6 3")
        }
    }

    /// The snapshot at the beginning of a feed is removed once no feed needs it; the snapshot at the beginning of the log remains.
    @Test func snapshots() throws {
        try Self.withFeed("") { database throws in
            try database.output("feed", "seek", "posts", "--to", "snapshot", "--yes")
            let kept = "select string_agg(seq || made_by, ' ' order by seq) from pathmirror.snapshot"
            try database.execute("update pathmirror.snapshot set created_at = now() - interval '2 hours'")
            try database.output("log", "prune", "--keep", "8 entries", "--json")
            #expect(try database.value(kept) == "8feed")
            try database.output("feed", "rm", "posts", "--yes")
            try database.output("log", "prune", "--keep", "8 entries", "--json")
            #expect(try database.value(kept) == nil)
        }
    }

    @Test func aSnapshotBeforeTheFirstEntry() throws {
        try Self.withFeed("") { database throws in
            try database.output("feed", "seek", "posts", "--to", "snapshot", "--yes")
            try database.execute("update pathmirror.snapshot set created_at = now() - interval '2 hours'")
            try database.output("feed", "rm", "posts", "--yes")
            try database.set("/list", "1")
            try database.output("log", "prune", "--keep", "1 entry", "--yes", "--json")
            #expect(try database.value("select seq || made_by from pathmirror.snapshot") == "8prune")
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }
}
