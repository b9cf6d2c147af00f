import Glibc
import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

@testable import Mirrors

/// What operators do with tables that are divided by time, and who may read them.
@Suite struct PartitionOperatorsTests {
    /// What an operator has made of the partitions stays, and is no harm.
    @Test func operatorsMayMakeAndRemovePartitions() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a", #"{"at": "2026-01-01"}"#)
            try bench.apply(dividedOrders())
            try bench.script(
                """
                create table mirror.orders_2026_02 (x int);
                create table mirror.spring partition of mirror.orders for values from ('2026-03-10') to ('2026-05-01');
                create table mirror.ancient partition of mirror.orders for values from ('-infinity') to ('1900-01-01');
                create table mirror.old partition of mirror.orders for values from ('1900-01-01') to ('1950-01-01');
                create view mirror.january as select count(*) from mirror.orders_2026_01;
                do $$ begin
                    execute format('alter database %I set datestyle = "German, DMY"', current_database());
                    execute format('alter database %I set timezone = "America/New_York"', current_database());
                end $$
                """)
            try bench.following { _ in
                try bench.set("/o/b/at", #""2026-02-01""#)
                try bench.set("/o/c/at", #""2026-03-01""#)
                try bench.set("/o/d/at", #""2026-03-11""#)
                try bench.set("/o/e/at", #""2026-04-11""#)
                try bench.set("/o/f/at", #""1812-04-11""#)
                try bench.catchUp("orders")
                try expectPlaced(
                    bench,
                    [
                        "a||mirror.orders_2026_01", "b||mirror.orders_2026_02_1", "c||mirror.orders_default",
                        "d||mirror.spring", "e||mirror.spring", "f||mirror.ancient",
                    ])
            }
            // A view of one partition is in the way of a new table, which says so.
            let refusal = #expect(throws: MirrorError.self) {
                _ = try bench.operators.rebuild(try bench.mirror("orders"))
            }
            #expect("\(try #require(refusal))".contains("january"), "\(refusal.debugDescription)")
            try bench.script("drop view mirror.january; drop table mirror.orders_2026_02_1")
            #expect(try bench.problems() != [])
            _ = try bench.operators.rebuild(try bench.mirror("orders"))
            #expect(try bench.problems() == [])
            #expect(
                try placedRows(bench) == [
                    "a||mirror.orders_2026_01", "b||mirror.orders_2026_02_1", "c||mirror.orders_2026_03",
                    "d||mirror.orders_2026_03", "e||mirror.orders_2026_04", "f||mirror.orders_1812_04",
                ])
        }
    }

    /// The gateway says once that partitions can't be made, tries again although nothing is written, and says when they are.
    ///
    /// Also where what runs is read anew again and again, as another mirror has no table yet.
    @Test(arguments: [false, true]) func whatCannotBeMadeNowIsSaidAndMadeLater(besidesABuild: Bool) throws {
        try MirrorBench.with { bench in
            if besidesABuild {
                let log = try LogConnection(bench.url)
                defer { log.close() }
                let other = try definition(#"{"name": "other", "path": "/other/{k}"}"#)
                let namespace = try #require(try log.namespace(named: "test"))
                _ = try log.addMirror(namespace.id, name: "other", definition: other.json, target: nil)
            }
            try bench.set("/o/a", #"{"at": "2026-01-01"}"#)
            try bench.apply(dividedOrders())
            var name = Array("/tmp/pathmirror-log-XXXXXX".utf8CString)
            let log = mkstemp(&name)
            defer { close(log) }
            unlink(name)
            let said = { (words: String) in
                var bytes = [UInt8](repeating: 0, count: 1 << 16)
                let count = max(0, pread(log, &bytes, bytes.count, 0))
                let text = String(decoding: bytes.prefix(count), as: UTF8.self)
                return text.split(separator: "\n").count { $0.contains(words) }
            }
            try bench.following(logger: Logger(level: .notice, descriptor: log)) { _ in
                try bench.script("begin; select count(*) from mirror.orders_default")
                try bench.set("/o/b/at", #""2026-02-01""#)
                try bench.catchUp("orders")
                #expect(eventually { said("partitions can't be made now") == 1 })
                for day in 2...9 {
                    try bench.set("/o/b/at", "\"2026-02-0\(day)\"")
                    try bench.catchUp("orders")
                }
                try bench.script("commit")
                try expectPlaced(bench, ["a||mirror.orders_2026_01", "b||mirror.orders_2026_02"])
                #expect(eventually { said("partitions are made again") == 1 })
                #expect(said("partitions can't be made now") == 1)
            }
        }
    }

    /// Who takes a partition for a table of their own is told whose it is.
    @Test func aPartitionIsNoOtherMirrorsTable() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a", #"{"at": "2026-01-01"}"#)
            try bench.apply(dividedOrders())
            let rival = try definition(#"{"name": "orders_2026_01", "path": "/o/{k}"}"#)
            let refusal = #expect(throws: MirrorError.self) {
                _ = try bench.operators.plan(rival, namespace: "test")
            }
            #expect(
                try "\(#require(refusal))"
                    == #"mirror.orders_2026_01 is a partition of the table of mirror "orders": choose another name."#)
        }
    }

    /// Rights, policies and owners are the table's: nobody passes by them by a partition's own name.
    @Test func partitionsGiveNobodyARightOfTheirOwn() throws {
        try MirrorBench.with { bench in
            let role = "reader_\(UInt32.random(in: 0...UInt32.max))"
            try bench.script(
                """
                create role \(role); create schema if not exists mirror; grant usage on schema mirror to \(role);
                alter default privileges in schema mirror grant select on tables to \(role)
                """)
            defer { try? bench.script("reset role; drop owned by \(role); drop role \(role)") }
            try bench.set("/o/a", #"{"at": "2026-01-01", "n": 1}"#)
            try bench.apply(dividedOrders())
            try bench.script(
                """
                alter table mirror.orders enable row level security;
                create policy few on mirror.orders for select to \(role) using (n > 1)
                """)
            try bench.following { _ in
                try bench.script("grant all on schema mirror to \(role); alter table mirror.orders owner to \(role)")
                try bench.set("/o/b", #"{"at": "2026-02-01", "n": 2}"#)
                try bench.catchUp("orders")
                try expectPlaced(bench, ["a|1|mirror.orders_2026_01", "b|2|mirror.orders_2026_02"])
                let owner = "select tableowner from pg_tables where tablename = 'orders_2026_02'"
                #expect(try bench.lines(owner) == [role])
                let me = try bench.lines("select current_user")[0]
                for table in ["orders", "orders_2026_02"] {
                    try bench.script(
                        "alter table mirror.\(table) owner to \(me); grant select on mirror.orders to \(role)")
                }
                try bench.script("revoke all on mirror.orders_2026_02 from \(role)")
            }
            for _ in 0..<2 {
                try bench.script("set role \(role)")
                #expect(try bench.lines("select k from mirror.orders") == ["b"])
                for partition in ["orders_2026_01", "orders_2026_02", "orders_default"] {
                    #expect(throws: PostgresError.self) { try bench.script("select from mirror.\(partition)") }
                }
                try bench.script("reset role")
                _ = try bench.operators.rebuild(try bench.mirror("orders"))
            }
        }
    }

    /// From one table to many and back, with what others have made on it.
    @Test func aTableIsDividedAndPutTogetherAgain() throws {
        try MirrorBench.with { bench in
            for day in 1...9 { try bench.set("/o/k\(day)", "{\"at\": \"2026-0\(day)-01\", \"n\": \(day)}") }
            let plain = #"{"name": "orders", "path": "/o/{k}", "columns": {"at": "timestamptz", "n": "bigint"}}"#
            try bench.apply(plain)
            try bench.script(
                """
                create index by_n on mirror.orders (n) where n > 3;
                create unique index one_n on mirror.orders (n);
                create view mirror.counted as select count(*) from mirror.orders
                """)
            let divided = try bench.apply(dividedOrders())
            #expect(
                divided?.lost.count == 1 && divided?.lost.first?.contains("one_n") == true, "\(divided?.lost ?? [])")
            #expect(try partitions(bench).count == 10)
            #expect(try bench.lines("select * from mirror.counted") == ["9"])
            try bench.script(
                """
                create index alone on mirror.orders_2026_01 (n); create index above on only mirror.orders (n);
                alter table mirror.orders add constraint few check (n < 100)
                """)
            // What refers to the table from within is its own, and nothing is in the way of another one.
            try bench.script(
                "create policy inside on mirror.orders_2026_02 using (exists (select from mirror.orders where n > 0))")
            let wider = dividedOrders(partition: #", "from": "2026-01-01""#)
            let losses = try bench.operators.plan(try definition(wider), namespace: "test").consequences.dropFirst()
            let again = try bench.operators.rebuild(try bench.mirror("orders"))
            #expect(
                again.lost == [
                    "The index above is not valid (not made to its end, or not in every partition): the new table does not get it.",
                    "The index alone is on the partition orders_2026_01 alone, which the new table does not get.",
                    "The constraint few is not on the new table.",
                ])
            #expect(Array(losses) == again.lost, "A dry run foresees them.")
            #expect(try bench.lines("select count(*) from pg_indexes where indexname = 'by_n'") == ["1"])
            let size = try #require(bench.operators.size(of: try bench.mirror("orders")))
            #expect(size.rowCount == 9 && size.byteCount > 9 * 8_192 && size.partitionCount == 10)
            #expect(try bench.operators.estimatedRows(try bench.mirror("orders")) == 9)
            // A column gets another name in place, in all of its partitions.
            try bench.apply(
                #"""
                {"name": "orders", "path": "/o/{k}", "columns": {"placed": {"type": "timestamptz", "path": "at"}, "n": "bigint"},
                 "partition": {"by": "placed", "every": "month"}}
                """#)
            #expect(try partitions(bench).count == 10)
            try bench.following { _ in
                try bench.set("/o/k1/at", #""2027-01-01""#)
                try bench.catchUp("orders")
                let isThere = try eventually {
                    try bench.lines("select tableoid::regclass from mirror.orders where n = 1")
                        == ["mirror.orders_2027_01"]
                }
                #expect(isThere)
            }
            try bench.apply(plain)
            #expect(try bench.operators.size(of: bench.mirror("orders"))?.partitionCount == nil)
            #expect(try partitions(bench) == [])
            #expect(try bench.lines("select * from mirror.counted") == ["9"])
            #expect(try bench.problems() == [])
        }
    }
}
