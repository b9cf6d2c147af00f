import LogStore
import Postgres
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Tests of events while a history's table is built: writers, retention, operators and failures.
@Suite struct HistoryBuildTests {
    private static let posts = #"""
        {"name": "h", "path": "/posts/{id}", "keeps": "changes", "table": "mirror.h", "columns": {"title": "text", "stars": "bigint"}}
        """#

    /// Checks that a mirror continues while its table is rebuilt, and that the new table contains the changes made
    /// meanwhile.
    @Test(arguments: [#""keeps": "changes""#, #""deleted": "soft""#])
    func itContinuesMeanwhile(kind: String) throws {
        try MirrorBench.with { bench in
            let text = Self.posts.replacing(#""keeps": "changes""#, with: kind)
            for number in 0..<30 { try bench.set("/posts/k\(number % 5)/stars", "\(number)") }
            try bench.apply(text)
            try bench.following { _ in
                var isDone = false
                let more = text.replacing(#""bigint"}"#, with: #""bigint", "by": {"type": "text", "path": "by"}}"#)
                let plan = try bench.operators.plan(try definition(more), namespace: "test")
                _ = try bench.operators.execute(plan) { progress in
                    guard case .indexing = progress, !isDone else { return }
                    isDone = true
                    do {
                        try bench.set("/posts/k0/by", #""ada""#)
                        try bench.set("/posts/k1", "null")
                        try bench.set("/posts/k2/stars", "99")
                        try bench.set("/posts/k2/stars", "100")
                        try bench.set("/posts/new/stars", "7")
                        // These entries are later than those in the old table, so the old table must reach them while
                        // the new one is built.
                        try bench.catchUp("h")
                    } catch {
                        Issue.record(error)
                    }
                }
                #expect(isDone)
                try bench.set("/posts/k3/stars", "101")
                try bench.catchUp("h")
            }
            #expect(try bench.problems() == [])
            let all = "select * from mirror.h order by id, _seq"
            let live = try bench.lines(all)
            #expect(live.contains { $0.contains("ada") })
            _ = try bench.operators.rebuild(try bench.mirror("h"))
            #expect(try bench.lines(all) == live)
        }
    }

    /// Checks that an ordinary mirror can be converted under load to keep removed rows, without losing progress.
    @Test func anOrdinaryOneGoesOver() throws {
        try MirrorBench.with { bench in
            let text = #"{"name": "h", "path": "/posts/{id}", "table": "mirror.h", "columns": {"stars": "bigint"}}"#
            for number in 0..<10 { try bench.set("/posts/k\(number)/stars", "\(number)") }
            try bench.apply(text)
            try bench.following { _ in
                var isDone = false
                let soft = text.replacing(#""columns""#, with: #""deleted": "soft", "columns""#)
                let plan = try bench.operators.plan(try definition(soft), namespace: "test")
                _ = try bench.operators.execute(plan) { progress in
                    guard case .indexing = progress, !isDone else { return }
                    isDone = true
                    do {
                        try bench.set("/posts/k1", "null")
                        try bench.set("/posts/k2/stars", "99")
                        try bench.catchUp("h")
                    } catch {
                        Issue.record(error)
                    }
                }
                #expect(isDone)
                // The record was removed after the snapshot, so its row remains.
                #expect(
                    try bench.lines(
                        "select stars, _seq, _deleted_at is null from mirror.h where id in ('k1', 'k2') order by id")
                        == ["1|11|f", "99|12|t"])
            }
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that a build retains the log that it needs until the history has a cursor.
    @Test func theLogIsKeptForABuild() throws {
        try MirrorBench.with { bench in
            for number in 0..<20 { try bench.set("/posts/k/stars", "\(number)") }
            let log = try LogConnection(bench.url)
            defer { log.close() }
            let record = try #require(try log.namespace(named: "test"))
            var holders: [String] = []
            let plan = try bench.operators.plan(try definition(Self.posts), namespace: "test")
            let outcome = try bench.operators.execute(plan) { progress in
                guard case .indexing = progress else { return }
                let pruning = Pruning(log, record)
                guard let prune = try? pruning.plan(.entries(5), force: false) else { return }
                holders = prune.holders.map { "\($0.kind) \($0.name) \($0.seq)" }
                try? pruning.run(prune)
            }
            #expect(holders == ["mirror build h 0"])
            #expect(outcome?.begins?.seq == 1)
            #expect(outcome?.rows == 20)
            // Later the mirror's own cursor retains the log.
            #expect(try Pruning(log, record).cursors().map(\.kind) == ["mirror"])
        }
    }

    /// Checks that a history starts with the remaining entries if the log is shortened regardless.
    @Test func theLogIsShortenedMeanwhile() throws {
        try MirrorBench.with { bench in
            for number in 0..<20 { try bench.set("/posts/k/stars", "\(number)") }
            let log = try LogConnection(bench.url)
            defer { log.close() }
            let record = try #require(try log.namespace(named: "test"))
            let plan = try bench.operators.plan(try definition(Self.posts), namespace: "test")
            var isDone = false
            let outcome = try bench.operators.execute(plan) { progress in
                guard case .indexing = progress, !isDone else { return }
                isDone = true
                let pruning = Pruning(log, record)
                do {
                    try pruning.run(try pruning.plan(.entries(5), force: true))
                } catch {
                    Issue.record(error)
                }
            }
            #expect(outcome?.begins?.seq == 16)
            #expect(outcome?.rows == 6)
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that a failed build does not retain the log, and that a killed build does until its mirror is dropped.
    @Test func whatAFailedBuildLeaves() throws {
        try MirrorBench.with { bench in
            try bench.set("/posts/k/stars", "1")
            try bench.script("create schema mirror")
            let log = try LogConnection(bench.url)
            defer { log.close() }
            let record = try #require(try log.namespace(named: "test"))
            let plan = try bench.operators.plan(try definition(Self.posts), namespace: "test")
            #expect(throws: MirrorError.self) {
                _ = try bench.operators.execute(plan) { progress in
                    // Takes the name just before the table would get it.
                    if case .swapping = progress { try? bench.script("create table mirror.h (n int)") }
                }
            }
            #expect(try Pruning(log, record).cursors() == [])
            #expect(try bench.lines("select relname from pg_class where relname like '\\_build%'") == [])
            // A mirror that was never built does not retain the log.
            #expect(try bench.operators.mirrors().isEmpty)
            _ = try log.addMirror(record.id, name: "h", definition: plan.definition.json, target: nil)
            try log.holdLog(record.id, for: "h")
            #expect(try Pruning(log, record).cursors().map(\.kind) == ["mirror build"])
            try bench.operators.drop(try bench.mirror("h"))
            #expect(try Pruning(log, record).cursors() == [])
        }
    }

    /// Checks that a history cannot be dropped while it is built.
    @Test func itIsNotDroppedMeanwhile() throws {
        try MirrorBench.with { bench in
            try bench.set("/posts/k/stars", "1")
            let other = try MirrorAdministration(bench.url, environment: [:])
            defer { other.close() }
            var refusals: [String] = []
            let plan = try bench.operators.plan(try definition(Self.posts), namespace: "test")
            _ = try bench.operators.execute(plan) { progress in
                guard case .indexing = progress else { return }
                do {
                    try other.drop(try bench.mirror("h"))
                    Issue.record("It was dropped.")
                } catch {
                    refusals.append("\(error)")
                }
            }
            #expect(refusals.count == 1)
            #expect(refusals.first?.contains("Another process is building mirror") == true)
            try other.drop(try bench.mirror("h"))
            #expect(try bench.lines("select count(*) from pathmirror.mirror_version") == ["0"])
        }
    }

    /// Checks that conversion errors are recorded for tables that keep removed rows, as for other mirrors.
    @Test func errorsWhereRowsStay() throws {
        try MirrorBench.with { bench in
            let text = #"""
                {"name": "h", "path": "/posts/{id}", "deleted": "soft", "table": "mirror.h",
                 "columns": {"title": {"type": "text", "not null": "error"}, "stars": "bigint"}}
                """#
            try bench.set("/posts/a", #"{"title": "A", "stars": "many"}"#)
            try bench.set("/posts/b", #"{"stars": 1}"#)
            let outcome = try bench.apply(text)
            #expect(outcome?.conversionErrors == 2)
            let found = { try bench.errors("h").map { $0.split(separator: ":")[0] }.sorted() }
            #expect(try found() == ["stars of /posts/a", "title of /posts/b"])
            try bench.following { _ in
                try bench.set("/posts/a/stars", "3")
                try bench.set("/posts/b/title", #""B""#)
                try bench.set("/posts/c", #"{"title": "C", "stars": true}"#)
                try bench.catchUp("h")
                #expect(try found() == ["stars of /posts/c"])
                try bench.set("/posts/c", "null")
                try bench.set("/posts/a/title", "null")
                try bench.catchUp("h")
                // A row that remains keeps its errors.
                #expect(try found() == ["stars of /posts/c", "title of /posts/a"])
            }
            #expect(
                try bench.lines("select id, _deleted_at is null from mirror.h order by id") == ["a|f", "b|t", "c|f"])
            _ = try bench.operators.rebuild(try bench.mirror("h"))
            #expect(try found() == ["stars of /posts/c", "title of /posts/a"])
            #expect(try bench.problems() == [])
        }
    }

    /// Checks that user-defined indexes are recreated on the new table.
    @Test func userDefinedIndexesAreKept() throws {
        try MirrorBench.with { bench in
            try bench.set("/posts/k/stars", "1")
            try bench.apply(Self.posts)
            try bench.script("create index by_hand on mirror.h ((_new ->> 'stars'))")
            let indexes = "select indexname from pg_indexes where schemaname = 'mirror' order by 1"
            let before = try bench.lines(indexes)
            #expect(before.count == 3)
            let outcome = try bench.apply(Self.posts.replacing(#""title": "text", "#, with: ""))
            #expect(outcome?.lost == [])
            #expect(try bench.lines(indexes) == before)
        }
    }
}
