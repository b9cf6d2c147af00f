import LogStore
import Mirrors
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of mirrors that follow the log: the effect of each kind of entry, and the changes that are made together.
@Suite struct FollowingTests {
    private static let posts = #"""
        {"name": "posts", "path": "/posts/{id}", "columns": {"title": "text", "stars": "bigint", "by": {"type": "text", "path": "author/name"}}, "rest": "rest"}
        """#
    private static let everything = "select id, title, stars, by, rest, _seq from mirror.posts order by id"

    /// Checks the table after each of a series of writes.
    @Test func whatEntriesDoToRows() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.posts)
            try bench.following { _ in
                func after(_ seq: Int64, _ lines: [String]) throws {
                    try bench.catchUp("posts")
                    #expect(try bench.lines(Self.everything) == lines, "after seq \(seq)")
                    #expect(try bench.status("posts").seq == seq)
                }
                // A record; a part of one, which requires a read of the tree; several at once.
                try after(try bench.set("/posts/a", #"{"title": "A", "stars": 1}"#), ["a|A|1|||1"])
                try after(
                    try bench.set("/posts/a/author", #"{"name": "Ada", "age": 36}"#),
                    [#"a|A|1|Ada|{"author": {"age": 36}}|2"#])
                try after(
                    try bench.update("/posts", [("a/stars", "2"), ("b", #"{"title": "B"}"#), ("c/title", #""C""#)]),
                    [#"a|A|2|Ada|{"author": {"age": 36}}|3"#, "b|B||||3", "c|C||||3"])
                // Writes outside the records only move the cursor.
                try after(
                    try bench.set("/other", "1"), [#"a|A|2|Ada|{"author": {"age": 36}}|3"#, "b|B||||3", "c|C||||3"])
                try after(
                    try bench.set("/posts/.priority", "1"),
                    [#"a|A|2|Ada|{"author": {"age": 36}}|3"#, "b|B||||3", "c|C||||3"])
                // Removals of a part, of the last part, and of a record.
                try after(try bench.set("/posts/a/author", "null"), ["a|A|2|||6", "b|B||||3", "c|C||||3"])
                try after(try bench.set("/posts/c/title", "null"), ["a|A|2|||6", "b|B||||3"])
                try after(try bench.set("/posts/b", "null"), ["a|A|2|||6"])
                // A leaf is a record, and can become an object.
                try after(try bench.set("/posts/d", "5"), ["a|A|2|||6", "d||||5|9"])
                try after(try bench.set("/posts/d/title", #""D""#), ["a|A|2|||6", "d|D||||10"])
                // A write of all records, and writes above them.
                try after(
                    try bench.set("/posts", #"{"x": {"title": "X"}, "y": {"title": "Y"}}"#), ["x|X||||11", "y|Y||||11"])
                try after(try bench.set("/posts", #""leaf""#), [])
                try after(try bench.set("/posts/z/title", #""Z""#), ["z|Z||||13"])
                try after(try bench.update("/", [("posts/z", "null"), ("posts/q/stars", "1")]), ["q||1|||14"])
                try after(try bench.set("/", #"{"posts": {"w": {"stars": 7}}}"#), ["w||7|||15"])
                try after(try bench.set("/", "null"), [])
                try after(try bench.increment("/posts/n/stars", by: 3), ["n||3|||17"])
                #expect(try bench.problems() == [])
            }
        }
    }

    @Test func anImportIsOneStep() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.posts)
            try bench.set("/posts", #"{"old": {"title": "O"}}"#)
            try bench.following { _ in
                try load(bench, at: "/posts", ["/posts/a/title", "/posts/b/title"], rowsPerChunk: nil)
                try bench.catchUp("posts")
                #expect(try bench.lines("select id, title, _seq from mirror.posts order by id") == ["a|t|2", "b|t|2"])
                #expect(try bench.status("posts").seq == 2)
                // Chunks are separate entries. The first one empties the path.
                try load(bench, at: "/posts", (0..<9).map { "/posts/k\($0)/title" }, rowsPerChunk: 2)
                try bench.catchUp("posts")
                #expect(try bench.lines("select count(*), min(id), max(id) from mirror.posts") == ["9|k0|k8"])
                #expect(try bench.problems() == [])
            }
        }
    }

    private func load(_ bench: MirrorBench, at path: String, _ paths: [String], rowsPerChunk: Int?) throws {
        let log = try LogConnection(bench.url)
        defer { log.close() }
        let record = try #require(try log.namespace(named: "test"))
        var settings = Importer.Settings()
        if let rowsPerChunk { settings.rowsPerChunk = rowsPerChunk }
        let importer = try Importer(log, record, at: Path(splitting: path), settings: settings)
        for path in paths { try importer.add(Array(path.utf8), .string("t")) }
        try importer.finish()
    }

    /// Checks that all mirrors of a namespace apply a write in one transaction, so that no reader sees it in some of
    /// the tables only.
    @Test func mirrorsOfOneWriteChangeTogether() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "a", "path": "/a/{k}", "columns": {"n": {"type": "bigint", "path": "."}}}"#)
            try bench.apply(#"{"name": "b", "path": "/b/{k}", "columns": {"n": {"type": "bigint", "path": "."}}}"#)
            try bench.update("/", [("a/x", "0"), ("b/x", "0")])
            try bench.following { _ in
                try bench.catchUp("a", "b")
                for number in 1...60 {
                    try bench.update("/", [("a/x", "\(number)"), ("b/x", "\(number)")])
                    let pair = try bench.lines(
                        """
                        select a.n = b.n, a._seq = b._seq, (select count(distinct seq) from pathmirror.mirror_status)
                        from mirror.a join mirror.b using (k)
                        """)
                    #expect(pair == ["t|t|1"])
                }
                try bench.catchUp("a", "b")
                #expect(try bench.lines("select n from mirror.a union all select n from mirror.b") == ["60", "60"])
            }
        }
    }

    /// Checks that pages of the log are applied one after another, however small they are.
    @Test(arguments: [1, 2, 7]) func smallPagesOfTheLog(entriesAtOnce: Int) throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.posts)
            for number in 0..<20 {
                try bench.set("/posts/p\(number % 5)", "{\"stars\": \(number)}")
                if number % 4 == 0 { try bench.set("/posts/p\(number % 5)/title", #""deep""#) }
            }
            try bench.following({ $0.entriesAtOnce = entriesAtOnce }) { _ in
                try bench.catchUp("posts")
                #expect(
                    try bench.lines("select id, title, stars from mirror.posts order by id")
                        == ["p0||15", "p1|deep|16", "p2||17", "p3||18", "p4||19"])
                #expect(try bench.problems() == [])
            }
        }
    }

    @Test func ofTwoServicesOneRunsAndTheOtherTakesOver() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.posts)
            try bench.following { first in
                #expect(eventually { first.reports.map(\.state) == [.running] })
                try bench.following { second in
                    #expect(eventually { second.reports.map(\.state) == [.elsewhere] })
                    try bench.set("/posts/a", #"{"stars": 1}"#)
                    try bench.catchUp("posts")
                    first.stop()
                    #expect(eventually { second.reports.map(\.state) == [.running] })
                    try bench.set("/posts/a", #"{"stars": 2}"#)
                    try bench.catchUp("posts")
                    #expect(try bench.lines("select stars from mirror.posts") == ["2"])
                }
            }
        }
    }

    /// Checks that a table that cannot be written does not delay other mirrors, and continues without intervention.
    @Test func aBrokenMirrorIsSetAside() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "good", "path": "/x/{k}", "columns": {"n": {"type": "bigint", "path": "."}}}"#)
            try bench.apply(#"{"name": "bad", "path": "/x/{k}", "columns": {"n": {"type": "bigint", "path": "."}}}"#)
            try bench.following { service in
                try bench.set("/x/a", "1")
                try bench.catchUp("good", "bad")
                try bench.script("alter table mirror.bad add constraint small check (n < 10)")
                try bench.set("/x/b", "20")
                try bench.catchUp("good")
                // A row that violates a constraint is refused alone, and recorded.
                try bench.catchUp("bad")
                #expect(try bench.lines("select k from mirror.good order by k") == ["a", "b"])
                #expect(try bench.lines("select k from mirror.bad") == ["a"])
                #expect(try bench.errors("bad").count == 1)
                try bench.script("alter table mirror.bad rename column n to m")
                try bench.set("/x/c", "3")
                try bench.catchUp("good")
                #expect(try eventually { try bench.status("bad").state == "broken" })
                #expect(
                    service.reports.contains {
                        $0.name == "bad" && $0.state == .broken && $0.message?.contains("n") == true
                    })
                #expect(service.reports.contains { $0.name == "good" && $0.state == .running })
                try bench.script(
                    "alter table mirror.bad rename column m to n; alter table mirror.bad drop constraint small")
                try bench.catchUp("bad")
                #expect(try bench.lines("select k from mirror.bad order by k") == ["a", "c"])
                let retried = try bench.operators.retryConversionErrors(try bench.mirror("bad"))
                #expect((retried.records, retried.left) == (1, 0))
                #expect(try bench.lines("select k from mirror.bad order by k") == ["a", "b", "c"])
                #expect(try bench.problems() == [])
            }
        }
    }

    @Test func aLockedTableIsAwaitedAndTheOthersContinue() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "free", "path": "/x/{k}"}"#)
            try bench.apply(#"{"name": "held", "path": "/x/{k}"}"#)
            let holder = try PostgresConnection(bench.url)
            defer { holder.close() }
            try bench.following({ $0.lockTimeoutMilliseconds = 50 }) { _ in
                try bench.catchUp("free", "held")
                try holder.executeScript(
                    "begin; lock table mirror.held in access share mode; lock table mirror.held in exclusive mode")
                try bench.set("/x/a", "1")
                try bench.catchUp("free")
                #expect(try eventually { try bench.status("held").state == "broken" })
                #expect(try bench.status("held").lagEntries == 1)
                try holder.executeScript("commit")
                try bench.catchUp("held")
                #expect(try bench.lines("select k from mirror.held") == ["a"])
            }
        }
    }

    @Test func aDroppedMirrorIsGoneAndItsNameFree() throws {
        try MirrorBench.with { bench in
            try bench.set("/posts/a", #"{"stars": "many"}"#)
            try bench.apply(Self.posts)
            #expect(try bench.errors("posts").count == 1)
            try bench.following { service in
                try bench.catchUp("posts")
                try bench.operators.drop(try bench.mirror("posts"))
                #expect(try bench.lines("select to_regclass('mirror.posts')") == [""])
                #expect(try bench.lines("select count(*) from pathmirror.mirror_error") == ["0"])
                #expect(eventually { service.reports.isEmpty })
                #expect(throws: MirrorError.self) { try bench.mirror("posts") }
                try bench.apply(Self.posts)
                try bench.set("/posts/b", #"{"stars": 1}"#)
                try bench.catchUp("posts")
                #expect(try bench.lines("select id from mirror.posts order by id") == ["a", "b"])
            }
        }
    }

    /// Checks that a new mirror may have the name of a dropped one, while the connection that wrote to the dropped one
    /// is still open.
    @Test func anotherMirrorMayHaveTheNameOfADroppedOne() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.posts)
            try bench.following { _ in
                try bench.set("/posts/a", #"{"stars": 1}"#)
                try bench.catchUp("posts")
                try bench.operators.drop(try bench.mirror("posts"))
                try bench.apply(#"{"name": "posts", "path": "/posts/{id}", "columns": {"words": "text"}}"#)
                try bench.set("/posts/b", #"{"words": "some"}"#)
                try bench.catchUp("posts")
                #expect(try bench.lines("select id, words from mirror.posts order by id") == ["a|", "b|some"])
            }
        }
    }

    @Test func entriesThatArePrunedCantBeFollowed() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.posts)
            for number in 1...5 { try bench.set("/posts/a", "{\"stars\": \(number)}") }
            try bench.script(
                """
                delete from pathmirror.log where seq < 4;
                update pathmirror.namespace set retained_from = 4, pruned_batch = null
                """)
            try bench.following { service in
                #expect(try eventually { try bench.status("posts").state == "broken" })
                #expect(
                    service.reports.first?.message
                        == "The mirror is at seq 0, but the log begins at 4: rebuild the mirror with 'pathmirror replay mirror'."
                )
                _ = try bench.operators.rebuild(try bench.mirror("posts"))
                try bench.catchUp("posts")
                #expect(try bench.lines("select stars from mirror.posts") == ["5"])
            }
        }
    }
}
