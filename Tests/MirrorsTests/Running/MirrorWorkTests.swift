import Engine
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing
import Tree

@testable import Mirrors

/// Tests of which mirrors of a group advance in one transaction.
@Suite struct MirrorWorkTests {
    /// Checks that a mirror that was blocked and becomes free just when waiting records are tried does not first catch
    /// up with all entries that it has missed.
    @Test func aLaggingMirrorDoesNotComeAlong() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "b_orders", "path": "/orders/{o}", "columns": {"by": "text"}}"#)
            try bench.apply(#"{"name": "a_items", "path": "/items/{o}", "columns": {"n": "bigint"}}"#)
            try bench.apply(#"{"name": "late", "path": "/v/{k}", "columns": {"x": "bigint"}}"#)
            try bench.script("alter table mirror.a_items add foreign key (o) references mirror.b_orders")
            let source = try LogConnection(bench.url)
            let target = try PostgresConnection(bench.url)
            let holder = try PostgresConnection(bench.url)
            defer {
                source.close()
                target.close()
                holder.close()
            }
            let names = ["a_items", "b_orders", "late"]
            let mirrors = try names.map { try bench.mirror($0) }
            let late = "select seq from pathmirror.mirror_cursor where definition ->> 'name' = 'late'"
            var settings = MirrorSettings()
            settings.entriesAtOnce = 2
            let core = MirrorCore(
                url: bench.url, settings: settings, logger: Logger(level: .error, descriptor: -1),
                servers: ServerFence(), roomMaker: nil)
            var work = MirrorWork(
                core, MirrorGroup(namespaceID: bench.namespace.id, namespace: "test", target: nil), source, target)
            try work.load(mirrors)
            try holder.executeScript("begin; \(late) for update")
            try bench.set("/items/o1/n", "1")
            for number in 1...40 { try bench.set("/v/k/x", "\(number)") }
            let head = try bench.set("/orders/o2/by", #""ada""#)
            func stepToTheEnd() throws {
                for _ in 0..<200 where try work.step(head) { return }
                Issue.record("there is always more to do")
            }
            try stepToTheEnd()
            #expect(try bench.errors("a_items").count == 1)
            try holder.executeScript("commit")
            // The mirror is free again, and the records are tried before the next step.
            #expect(eventually { work.position == 0 })
            try bench.script("insert into mirror.b_orders (o, _seq) values ('o1', 1)")
            #expect(
                try eventually {
                    try work.tryWaiting()
                    return try bench.errors("a_items") == []
                })
            #expect(try bench.lines(late) == ["0"])
            try stepToTheEnd()
            #expect(try bench.lines("select x from mirror.late") == ["40"])
        }
    }

    /// Checks that a mirror without records to read again does not have to advance to the head.
    @Test func noRecordsToReadAgainTakeNoMirrorToTheHead() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}}"#)
            for number in 1...9 { try bench.set("/v/k", "{\"x\": \(number)}") }
            let source = try LogConnection(bench.url)
            let target = try PostgresConnection(bench.url)
            defer {
                source.close()
                target.close()
            }
            let mirror = try bench.mirror("m")
            for (keys, seq) in [([], 3), ([[Key("k")]], 9)] as [([[Key]], Int64)] {
                try bench.script("update pathmirror.mirror_cursor set seq = 0")
                var stepper = MirrorStepWriter(source: source, target: target, namespace: bench.namespace.id)
                stepper.entriesAtOnce = 1
                stepper.pagesAtOnce = 3
                var one = [ActiveMirror(mirror, try #require(try MirrorCursor.of(mirror, target)))]
                #expect(try stepper.advance(&one, rereading: ["m": keys]).seq == seq)
            }
        }
    }
}
