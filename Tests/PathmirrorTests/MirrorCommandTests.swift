import Postgres
import TestSupport
import Testing

@testable import pathmirror

/// Checks that commands create, change, show and drop mirrors, and do nothing else.
@Suite struct MirrorCommandTests {
    static let definition =
        #"{"name": "posts", "path": "/posts/{post_id}", "columns": {"author": {"type": "text", "not null": "skip"}, "star_count": {"type": "bigint", "path": "starCount", "default": 0}}, "rest": "rest"}"#

    /// A namespace with three posts, one of which does not fit the definition.
    static func withPosts(_ body: (CommandDatabase, ScratchFolder) throws -> Void) throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            try folder.file("mirror.json", definition)
            try database.makeNamespace("default")
            try database.set("/posts/a", #"{"author": "ada", "starCount": 3}"#)
            try database.set("/posts/b", #"{"author": "bob"}"#)
            try database.set("/posts/c", #"{"author": "cy", "starCount": "many"}"#)
            try body(database, folder)
        }
    }

    private static func apply(_ database: CommandDatabase, _ folder: ScratchFolder, _ more: String...) throws
        -> [JSONText]
    {
        let run = try database.run(["mirror", "apply", folder.path + "/mirror.json", "--yes", "--json"] + more)
        #expect(run.exitCode == 0, "\(run.errors)")
        return try run.json()
    }

    @Test func appliedAndSeen() throws {
        try Self.withPosts { database, folder in
            let plan = try database.run(["mirror", "apply", folder.path + "/mirror.json", "--dry-run"])
            #expect(plan.exitCode == 0 && plan.lines.count == 2)
            #expect(plan.lines.last == "  mirror.posts would be created and filled from the tree.")
            #expect(plan.output.hasPrefix("create  posts  /posts/{post_id} → mirror.posts"))
            #expect(try database.value("select to_regclass('mirror.posts')::text") == nil)
            #expect(try database.output("mirror", "ls").isEmpty)
            let made = try database.run(["mirror", "apply", folder.path + "/mirror.json", "--yes"])
            #expect(
                made.lines.last
                    == "posts: 3 rows at seq 3, 1 conversion error: see 'pathmirror mirror errors posts'")
            #expect(
                try database.value("select string_agg(post_id || star_count, ',' order by post_id) from mirror.posts")
                    == "a3,b0")
            let again = try Self.apply(database, folder)
            #expect(again.first?["action"] == "unchanged")
            let listed = try #require(try database.json("mirror", "ls").first)
            #expect(listed["name"] == "posts" && listed["namespace"] == "default" && listed["paused"] == false)
            #expect(listed["definition"]?["path"] == "/posts/{post_id}")
            #expect(listed["rows"] == 3 && listed["rowsAreEstimated"] == false)
            let line = try database.output("mirror", "ls")
            #expect(line.hasPrefix("default  posts  /posts/{post_id} → mirror.posts  3  "))
            #expect(line.hasSuffix(" kB\n"))
        }
    }

    @Test func plansForPrograms() throws {
        try Self.withPosts { database, folder in
            let plan = try Self.apply(database, folder, "--dry-run")
            // The name in earlier versions.
            #expect(try Self.apply(database, folder, "--dry-run") == plan)
            #expect(plan[0]["dryRun"] == true)
            #expect(
                plan.count == 1 && plan[0]["action"] == "create" && plan[0]["rows"] == .null && plan[0]["seq"] == .null)
            let done = try Self.apply(database, folder)
            #expect(
                done[0]["rows"] == 3 && done[0]["misfits"] == 1 && done[0]["seq"] == 3
                    && done[0]["table"] == "mirror.posts")
            #expect(
                done[0].names == [
                    "name", "namespace", "table", "action", "reasons", "rows", "misfits", "seq", "begins", "lost",
                    "dryRun", "consequences",
                ])
        }
    }

    /// Checks that nothing changes without a terminal and without `--yes`.
    @Test func withoutYes() throws {
        try Self.withPosts { database, folder in
            let run = try database.run(["mirror", "apply", folder.path + "/mirror.json"], input: "y\n")
            #expect(run.exitCode == 1)
            #expect(
                run.errors == "pathmirror: Nothing was changed. Add --yes to execute the plan without being asked.\n"
            )
            #expect(try database.value("select to_regclass('mirror.posts')::text") == nil)
        }
    }

    @Test(arguments: [("y\n", true), ("n\n", false)]) func askedOnATerminal(_ answer: String, _ isDone: Bool) throws {
        try Self.withPosts { database, folder in
            let terminal = try PseudoTerminal()
            let output = try ScratchFile()
            let console = Console(
                output: output.descriptor, errors: terminal.descriptor, input: terminal.descriptor,
                signals: ScriptedSignals())
            terminal.type(answer)
            let code = Commands.run(
                ["mirror", "apply", folder.path + "/mirror.json", "--database-url", database.connectionText], console,
                Environment(values: [:]))
            #expect(code == (isDone ? 0 : 1))
            #expect(terminal.shown.contains("Execute this plan? [y/N] "))
            #expect(output.text.hasPrefix("create  posts"))
            #expect((try database.value("select to_regclass('mirror.posts')::text") != nil) == isDone)
        }
    }

    @Test func statusPauseAndResume() throws {
        try Self.withPosts { database, folder in
            _ = try Self.apply(database, folder)
            let status = try #require(try database.json("mirror", "status").first)
            #expect(status["name"] == "posts" && status["seq"] == 3 && status["head"] == 3 && status["errors"] == 1)
            #expect(
                status.names == [
                    "namespace", "name", "table", "state", "seq", "head", "lagEntries", "lagMilliseconds", "errors",
                    "unkeptErrors",
                    "message", "gateway",
                ])
            #expect(try database.output("mirror", "status", "posts").hasPrefix("default  posts  "))
            #expect(try database.output("mirror", "status", "posts").contains("  seq 3 of 3  "))
            #expect(try database.output("mirror", "status", "posts").hasSuffix("  1 error\n"))
            #expect(try database.output("mirror", "pause", "posts").isEmpty)
            #expect(try database.json("mirror", "ls").first?["paused"] == true)
            #expect(try database.output("mirror", "ls").hasSuffix("  paused\n"))
            #expect(try database.json("mirror", "status").first?["state"] == "paused")
            #expect(try database.output("mirror", "resume", "posts").isEmpty)
            #expect(try database.json("mirror", "ls").first?["paused"] == false)
        }
    }

    @Test func brokenOnesAreAFailure() throws {
        try Self.withPosts { database, folder in
            _ = try Self.apply(database, folder)
            #expect(try database.run(["mirror", "status"]).exitCode == 0)
            try database.execute(
                """
                insert into pathmirror.mirror_run (namespace_id, mirror, state, message, gateway, reported_at)
                select namespace_id, id, 'broken', 'gone', 'g', now() from pathmirror.mirror
                """)
            let run = try database.run(["mirror", "status"])
            #expect(run.output.contains("  broken"))
            #expect(run.exitCode == 1)
            #expect(run.errors == "pathmirror: Mirror \"posts\" is broken: gone\n")
        }
    }

    @Test func errorsAndTryingAgain() throws {
        try Self.withPosts { database, folder in
            _ = try Self.apply(database, folder)
            let errors = try database.json("mirror", "errors", "posts")
            #expect(errors.count == 1)
            #expect(
                errors[0]["column"] == "star_count" && errors[0]["path"] == "/posts/c/starCount"
                    && errors[0]["value"] == "many")
            #expect(errors[0]["record"] == "/posts/c" && errors[0]["seq"] == 3)
            #expect(errors[0].names == ["record", "column", "path", "seq", "value", "reason", "foundAt"])
            let text = try database.output("mirror", "errors", "posts")
            #expect(text.hasPrefix("/posts/c/starCount  3  star_count  ") && text.hasSuffix("  \"many\"\n"))
            #expect(
                try database.output("mirror", "errors", "posts", "--retry")
                    == "1 record was converted again; 1 error is left.\n")
            #expect(try database.json("mirror", "errors", "posts", "--retry") == [["records": 1, "left": 1]])
            #expect(try database.run(["mirror", "errors", "posts", "--limit", "0"]).exitCode == 2)
        }
    }

    /// Checks that a dry run of a rebuild lists the objects that it drops.
    @Test func aDryRunOfARebuild() throws {
        try Self.withPosts { database, folder in
            _ = try Self.apply(database, folder)
            let changed = Self.definition.replacing(#""author": {"type": "text", "not null": "skip"}, "#, with: "")
            try folder.file("mirror.json", changed)
            let run = try database.run(["mirror", "apply", folder.path + "/mirror.json", "--dry-run"])
            #expect(run.exitCode == 0, "\(run.errors)")
            #expect(
                run.lines.dropFirst() == [
                    "  mirror.posts would be rebuilt, and the present table dropped afterwards.",
                    "  The new table would not have the column author.",
                ])
            #expect(try database.value("select count(author)::text from mirror.posts") == "3")
        }
    }

    @Test func exportsSinceAMoment() throws {
        try Self.withPosts { database, folder in
            _ = try Self.apply(database, folder)
            let rows = { (since: String) throws in
                try database.run(["mirror", "export", "posts", "--format", "jsonl", "--since", since]).lines.count
            }
            // The table was filled at the head, whose rows are exported, too.
            #expect(try rows("head") == 3)
            #expect(try rows("1h") == 3)
            let first = "select min(post_id) from mirror.posts"
            _ = try database.value("update mirror.posts set _seq = 1 where post_id = (\(first)) returning post_id")
            #expect(try rows("1") == 3)
            #expect(try rows("2") == 2)
            #expect(try database.run(["mirror", "export", "posts", "--since", "soon"]).exitCode == 2)
        }
    }

    @Test func dropped() throws {
        try Self.withPosts { database, folder in
            _ = try Self.apply(database, folder)
            let run = try database.run(["mirror", "drop", "posts"])
            #expect(run.exitCode == 1)
            #expect(
                run.errors
                    == "pathmirror: Nothing was changed. Add --yes to drop posts with its table mirror.posts (3 rows) without being asked.\n"
            )
            #expect(try database.value("select to_regclass('mirror.posts')::text") == "mirror.posts")
            #expect(
                try database.output("mirror", "drop", "posts", "--yes")
                    == "Mirror posts of namespace \"default\" is removed: dropped table mirror.posts (3 rows).\n")
            #expect(try database.value("select to_regclass('mirror.posts')::text") == nil)
            #expect(try database.output("mirror", "ls").isEmpty)
            // The rows are those in the table, from which rows may have been removed manually.
            _ = try Self.apply(database, folder)
            try database.execute("drop table mirror.posts")
            #expect(
                try database.output("mirror", "drop", "posts", "--yes")
                    == "Mirror posts of namespace \"default\" is removed: it had no table.\n")
        }
    }

    @Test func historiesBesideAMirror() throws {
        try Self.withPosts { database, folder in
            let file = try folder.file(
                "mirror.json",
                Self.definition.replacing(#""rest": "rest""#, with: #""rest": "rest", "history": true"#))
            let plan = try database.run(["mirror", "apply", file, "--dry-run"])
            #expect(
                plan.lines.last
                    == "  mirror.posts_changes would be created and filled from the log, as far back as it reaches.")
            #expect(try database.run(["mirror", "apply", file, "--yes"]).exitCode == 0)
            let errors = try database.run(["mirror", "errors", "posts_changes"])
            #expect(errors.exitCode == 0 && errors.output.isEmpty)
            #expect(errors.errors.contains("is a history: these are rows that its table rejected."))
            let one = try database.failure("mirror", "drop", "posts")
            #expect(
                one.hasSuffix("without being asked. Other mirrors of these records stay: posts_changes.\n"), "\(one)")
            let other = try database.failure("mirror", "drop", "posts_changes")
            #expect(other.contains("Its history is lost. Other mirrors"), "\(other)")
            let dropped = try database.output("mirror", "drop", "posts_changes", "--yes")
            #expect(
                dropped.hasSuffix(
                    "is removed: dropped table mirror.posts_changes (3 rows), view mirror.posts_versions.\n"),
                "\(dropped)")
        }
    }

    /// Checks that a mirror whose database is permanently lost can be removed from the list.
    @Test func abandoned() throws {
        try Self.withPosts { database, folder in
            let other = "gone_\(UInt32.random(in: 0...UInt32.max))"
            let connection = try PostgresConnection(database.url)
            defer { connection.close() }
            try connection.executeScript("create database \(other)")
            defer { try? connection.executeScript("drop database if exists \(other)") }
            let target = database.connectionText.replacing(database.url.databaseName ?? "", with: other)
            let file = try folder.file(
                "mirror.json",
                Self.definition.replacing(#""rest": "rest""#, with: #""rest": "rest", "target": "\#(target)""#))
            #expect(try database.run(["mirror", "apply", file, "--yes"]).exitCode == 0)
            #expect(try database.failure("mirror", "drop", "posts", "--abandon", "--yes").contains("can be reached"))
            try connection.executeScript("drop database \(other) with (force)")
            let said = try database.failure("mirror", "drop", "posts", "--yes")
            #expect(
                said.contains("'pathmirror mirror drop posts --ns default --abandon' removes the mirror."), "\(said)")
            #expect(
                try database.failure("mirror", "apply", file, "--yes").contains(#"The database of mirror "posts": "#))
            #expect(try database.failure("mirror", "drop", "posts", "--abandon").contains("Add --yes to forget posts,"))
            #expect(
                try database.output("mirror", "drop", "posts", "--abandon", "--yes")
                    == "Mirror posts of namespace \"default\" is forgotten: table mirror.posts stays in its database unchanged.\n"
            )
            #expect(try database.output("mirror", "ls").isEmpty)
            #expect(try database.output("log", "verify").hasPrefix("clean"))
            #expect(try database.output("log", "prune", "--keep", "1 entry", "--yes").contains("2 entries"))
            // A mirror whose database is available is dropped as usual.
            try folder.file("mirror.json", Self.definition)
            _ = try Self.apply(database, folder)
            #expect(
                try database.failure("mirror", "drop", "posts", "--abandon", "--yes").contains("without --abandon"))
        }
    }

    /// Checks that a failed mirror is not kept, and that the error names the others.
    @Test func oneOfSeveralFails() throws {
        try Self.withPosts { database, folder in
            let second = Self.definition.replacing(#""posts", "path""#, with: #""more", "path""#)
            let file = try folder.file("mirrors.json", "[\(Self.definition), \(second)]")
            try database.execute(
                """
                create schema mirror;
                create function pg_temp.no() returns void language sql as '';
                create or replace function public.refuse() returns event_trigger language plpgsql as $$ begin
                    if exists (select from pathmirror.mirror where name = 'more') then raise 'no more'; end if; end $$;
                create event trigger refuse on ddl_command_end when tag in ('CREATE TABLE') execute function public.refuse()
                """)
            let said = try database.run(["mirror", "apply", file, "--yes"])
            #expect(said.exitCode == 1)
            #expect(
                said.errors.contains("no more") && said.errors.contains("Executed: posts; left: more."),
                "\(said.errors)")
            #expect(try database.json("mirror", "ls").map { $0["name"] } == ["posts"])
            try database.execute("drop event trigger refuse")
            #expect(try database.run(["mirror", "apply", file, "--yes"]).exitCode == 0)
        }
    }

    @Test func unknownMirrors() throws {
        try Self.withPosts { database, _ in
            for command in [["pause"], ["resume"], ["drop", "--yes"], ["errors"], ["status"]] {
                let run = try database.run(["mirror"] + command + ["nobody"])
                #expect(run.exitCode == 1)
                #expect(run.errors.contains("nobody"))
            }
            #expect(try database.run(["replay", "mirror", "nobody"]).exitCode == 1)
        }
    }

    private static let mistaken = [
        "", "nonsense", "[1]", "{}", #"{"name": "x"}"#, #"{"name": "x", "path": "nowhere", "columns": {}}"#,
        #"{"name": "x", "path": "/x/{id}", "columns": {"a": "florins"}}"#,
    ]

    @Test func definitionsWithMistakes() throws {
        try withCommands { database throws in
            let folder = try ScratchFolder()
            for text in Self.mistaken {
                let file = try folder.file("bad.json", text)
                let run = try database.run(["mirror", "apply", file, "--yes"])
                #expect(run.exitCode == 1, "\(text)")
                #expect(run.errors.contains("bad.json"), "\(run.errors)")
                #expect(run.output.isEmpty, "\(text)")
            }
        }
    }

    @Test func twoOfOneName() throws {
        try Self.withPosts { database, folder in
            let other = Self.definition.replacing(#""rest": "rest""#, with: #""table": "other", "rest": "rest""#)
            try folder.file("twice.json", "[\(Self.definition), \(other)]")
            let said = try database.failure("mirror", "apply", folder.path + "/twice.json", "--yes")
            #expect(said.contains(#"Two of these mirrors of namespace "default" have the name posts."#))
        }
    }

    @Test func twoOfOneTable() throws {
        try Self.withPosts { database, folder in
            let other = Self.definition.replacing(#""name": "posts""#, with: #""name": "others", "table": "posts""#)
            try folder.file("twice.json", "[\(Self.definition), \(other)]")
            let said = try database.failure("mirror", "apply", folder.path + "/twice.json", "--yes")
            #expect(
                said.contains(
                    #"Two of these mirrors have the table mirror.posts. Set another table in one definition, such as "table": "mirror.default_posts"."#
                ))
        }
    }

    @Test func inferring() throws {
        try Self.withPosts { database, _ in
            let run = try database.run(["mirror", "infer", "posts/{id}"])
            #expect(run.exitCode == 0, "\(run.errors)")
            #expect(run.errors.hasPrefix("3 records at /posts/{id}\n"))
            #expect(run.errors.contains("author  text  from"))
            let proposed = try JSONText(reading: run.output)
            #expect(proposed["path"] == "/posts/{id}" && proposed["namespace"] == nil)
            let report = try #require(try database.json("mirror", "infer", "/posts/{id}", "--limit", "2").first)
            #expect(report["records"] == 2)
            #expect(report["definition"]?["path"] == "/posts/{id}")
            #expect(report["evidence"]?.items.contains { $0["column"] == "author" && $0["present"] == 2 } == true)
            #expect(try database.run(["mirror", "infer", "/posts/{id}", "--limit", "0"]).exitCode == 2)
            // A proposal can be applied.
            let folder = try ScratchFolder()
            let file = try folder.file("proposed.json", run.output)
            #expect(try database.run(["mirror", "apply", file, "--yes"]).exitCode == 0)
            #expect(try database.output("log", "verify").contains(", 1 mirror"))
        }
    }
}

/// Checks that a mirror's table can be rebuilt, and that a part of the log can be applied again, with the same result.
@Suite struct ReplayMirrorCommandTests {
    private static func withMirror(_ body: (CommandDatabase) throws -> Void) throws {
        try MirrorCommandTests.withPosts { database, folder in
            #expect(try database.run(["mirror", "apply", folder.path + "/mirror.json", "--yes"]).exitCode == 0)
            try body(database)
        }
    }

    @Test func madeAgain() throws {
        try withMirror { database throws in
            let dry = try database.output("replay", "mirror", "posts", "--dry-run")
            #expect(
                dry
                    == "Would rebuild mirror.posts from the tree at seq 3: 3 rows of 3 records, 1 conversion error; the present table is at seq 3.\n"
            )
            let report = try #require(try database.json("replay", "mirror", "posts", "--dry-run").first)
            #expect(report["rows"] == 3 && report["records"] == 3 && report["cursor"] == 3 && report["dryRun"] == true)
            try database.execute("update mirror.posts set author = 'x'; delete from mirror.posts where post_id = 'b'")
            #expect(try database.run(["log", "verify"]).exitCode == 1)
            let said = try database.run(["replay", "mirror", "posts"])
            #expect(
                said.output
                    == "mirror.posts was rebuilt: 3 rows, compared with the tree at seq 3, now at seq 3; 1 conversion error: see 'pathmirror mirror errors posts'\n"
            )
            #expect(try database.output("log", "verify").hasPrefix("clean"))
            let again = try #require(try database.json("replay", "mirror", "posts").first)
            #expect(
                again["rows"] == 3 && again["misfits"] == 1 && again["verifiedSeq"] == 3 && again["dryRun"] == false)
        }
    }

    @Test func aPartOfTheLog() throws {
        try withMirror { database throws in
            try database.execute("update mirror.posts set author = 'x' where post_id = 'b'")
            #expect(
                try database.output("replay", "mirror", "posts", "--from", "2", "--dry-run")
                    == "Would apply 2 entries, 2 to 3, to mirror.posts again; 2 of them touch it.\n")
            let report = try #require(try database.json("replay", "mirror", "posts", "--from", "3", "--dry-run").first)
            #expect(report["from"] == 3 && report["to"] == 3 && report["touching"] == 1)
            let done = try database.output("replay", "mirror", "posts", "--from", "2")
            #expect(done.hasPrefix("mirror.posts: the records of entries 2 to 3 match the tree."))
            #expect(try database.output("log", "verify").hasPrefix("clean"))
        }
    }

    @Test func damageIsFound() throws {
        try withMirror { database throws in
            try database.execute("update mirror.posts set author = 'x' where post_id = 'b'")
            let run = try database.run(["log", "verify", "--json"])
            #expect(run.exitCode == 1)
            let report = try #require(try run.json().first)
            #expect(report["clean"] == false)
            #expect(
                report["problems"]?.items.contains { $0.string?.contains("row post_id \"b\": author differs") == true }
                    == true)
            // The tree itself is right.
            #expect(try database.output("log", "verify", "--skip-mirrors").hasPrefix("clean"))
        }
    }

    private func withMirror(_ body: (CommandDatabase) throws -> Void) throws { try Self.withMirror(body) }
}
