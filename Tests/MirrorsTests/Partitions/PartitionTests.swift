import LogStore
import Postgres
import TestSupport
import Testing

@testable import Mirrors

/// Tables that are divided by time.
@Suite struct PartitionTests {
    private static func orders(_ more: String = "", partition: String = "") -> String {
        #"""
        {"name": "orders", "path": "/o/{k}", "columns": {"at": {"type": "timestamptz"}, "n": "bigint"}\#(more),
         "partition": {"by": "at", "every": "month"\#(partition)}}
        """#
    }

    /// Each row with the partition that it is in.
    private func rows(_ bench: MirrorBench, _ table: String = "orders") throws -> [String] {
        try bench.lines("select k, n, tableoid::regclass from mirror.\(table) order by k, n")
    }

    private func partitions(_ bench: MirrorBench, _ table: String = "orders") throws -> [String] {
        try bench.lines(
            """
            select relname, pg_get_expr(relpartbound, oid) from pg_inherits join pg_class on oid = inhrelid
            where inhparent = 'mirror.\(table)'::regclass order by 1
            """)
    }

    @Test(arguments: [false, true]) func rowsAreInTheirPartitions(isThereBefore: Bool) throws {
        try MirrorBench.with { bench in
            let set = {
                try bench.set("/o/a", #"{"at": "2026-01-31T23:59:59.999Z", "n": 1}"#)
                try bench.set("/o/b", #"{"at": "2026-02-01T00:00:00Z", "n": 2}"#)
                try bench.set("/o/c", #"{"n": 3}"#)
            }
            if isThereBefore { try set() }
            try bench.apply(Self.orders())
            try bench.following { _ in
                if !isThereBefore { try set() }
                try bench.catchUp("orders")
                let expected = [
                    "a|1|mirror.orders_2026_01", "b|2|mirror.orders_2026_02", "c|3|mirror.orders_default",
                ]
                #expect(try rows(bench) == expected)
                #expect(
                    try partitions(bench) == [
                        "orders_2026_01|FOR VALUES FROM ('2026-01-01 00:00:00+00') TO ('2026-02-01 00:00:00+00')",
                        "orders_2026_02|FOR VALUES FROM ('2026-02-01 00:00:00+00') TO ('2026-03-01 00:00:00+00')",
                        "orders_default|DEFAULT",
                    ])
                // To another month, to none, to one that is new, and gone.
                try bench.set("/o/a/at", #""2026-02-02""#)
                try bench.set("/o/b/at", "null")
                try bench.set("/o/c/at", #""2027-03-01""#)
                try bench.catchUp("orders")
                #expect(
                    try rows(bench) == [
                        "a|1|mirror.orders_2026_02", "b|2|mirror.orders_default", "c|3|mirror.orders_2027_03",
                    ])
                try bench.set("/o/a", "null")
                try bench.set("/o/b/n", "5")
                try bench.catchUp("orders")
                #expect(try rows(bench) == ["b|5|mirror.orders_default", "c|3|mirror.orders_2027_03"])
            }
            #expect(try bench.problems() == [])
            _ = try bench.operators.rebuild(try bench.mirror("orders"))
            #expect(try rows(bench) == ["b|5|mirror.orders_default", "c|3|mirror.orders_2027_03"])
            // Those that nothing is in are not made anew.
            #expect(try partitions(bench).map { $0.prefix { $0 != "|" } } == ["orders_2027_03", "orders_default"])
            let build =
                "select relname from pg_class where starts_with(relname, '_build') or starts_with(relname, '_old')"
            #expect(try bench.lines(build) == [])
            try bench.operators.drop(try bench.mirror("orders"))
            #expect(try bench.lines("select relname from pg_class where relname like 'orders%'") == [])
        }
    }

    @Test func aColumnThatMustHaveAValueMakesAPrimaryKey() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a", #"{"at": "2026-01-31"}"#)
            try bench.apply(
                #"""
                {"name": "orders", "path": "/o/{k}", "columns": {"at": {"type": "date", "not null": "error"}},
                 "indexes": ["at"], "partition": {"by": "at", "every": "year"}}
                """#)
            let keys = """
                select contype, pg_get_constraintdef(oid) from pg_constraint
                where conrelid = 'mirror.orders'::regclass and contype = 'p'
                """
            #expect(try bench.lines(keys) == ["p|PRIMARY KEY (k, at)"])
            #expect(
                try bench.lines("select indexname from pg_indexes where tablename = 'orders_2026' order by 1") == [
                    "orders_2026_at_idx", "orders_2026_pkey",
                ])
            let plan = try bench.sql.execute("explain select from mirror.orders where at >= '2027-01-01'")
            let lines = try (0..<plan.rowCount).map { try plan.string($0, 0) }
            #expect(!lines.contains { $0.contains("orders_2026") }, "\(lines)")
        }
    }

    /// A key that is a day never changes: nothing has to be removed before a row comes.
    @Test func aDayInThePathDivides() throws {
        try MirrorBench.with { bench in
            try bench.set("/v/2026-01-31/a", "1")
            try bench.apply(
                #"""
                {"name": "visits", "path": "/v/{day}/{k}", "keys": {"day": "date"}, "columns": {"n": {"type": "bigint", "path": "."}},
                 "partition": {"by": "day", "every": "week"}}
                """#)
            try bench.following { _ in
                try bench.set("/v/2026-02-03/a", "2")
                try bench.set("/v/2026-01-31/a", "3")
                try bench.catchUp("visits")
            }
            #expect(
                try rows(bench, "visits") == ["a|2|mirror.visits_2026_w06", "a|3|mirror.visits_2026_w05"])
            #expect(try bench.problems() == [])
        }
    }

    /// PostgreSQL cuts the names of indexes that it makes by itself.
    @Test func indexesOfPartitionsAreNamedAfterTheTable() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a/2026-01-31", "1")
            let text = #"""
                {"name": "long_name", "path": "/o/{account}/{day}", "keys": {"day": "date"},
                 "columns": {"number_of_the_invoice": {"type": "bigint", "path": "."}},
                 "indexes": [["account", "number_of_the_invoice", "day"], ["_seq"]], "partition": {"by": "day", "every": "day"}}
                """#
            try bench.apply(text)
            try bench.script("create index \"By Hand\" on mirror.long_name (number_of_the_invoice)")
            for _ in 0..<2 {
                #expect(
                    try bench.lines(
                        "select indexname from pg_indexes where schemaname = 'mirror' and indexname !~ '^long_name_(2026_01_31|default)_' order by 1"
                    ).count == 4)
                _ = try bench.operators.rebuild(try bench.mirror("long_name"))
            }
            #expect(
                try bench.lines("select indexname from pg_indexes where tablename = 'long_name_2026_01_31' order by 1")
                    == [
                        "long_name_2026_01_31_By Hand", "long_name_2026_01_31__seq_idx",
                        "long_name_2026_01_31_account_number_of_the_invoice_day_idx", "long_name_2026_01_31_pkey",
                    ])
        }
    }

    @Test func histories() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a/n", "1")
            try bench.applyAll(
                #"""
                [{"name": "log", "path": "/o/{k}", "columns": {"n": "bigint"}, "keeps": "changes", "partition": {"by": "_at", "every": "month"}},
                 {"name": "past", "path": "/o/{k}", "columns": {"n": "bigint"}, "keeps": "versions", "partition": {"by": "_valid_from", "every": "year"}},
                 {"name": "kept", "path": "/o/{k}", "columns": {"n": "bigint", "at": "timestamptz"}, "deleted": "soft", "partition": {"by": "at", "every": "year"}}]
                """#)
            try bench.following { _ in
                try bench.set("/o/a/n", "2")
                try bench.set("/o/a/at", #""2026-01-01""#)
                try bench.set("/o/a", "null")
                try bench.catchUp("log", "past", "kept")
            }
            #expect(
                try bench.lines("select _operation from mirror.log order by _seq") == ["insert", "update", "delete"])
            #expect(try bench.lines("select n, _current from mirror.past order by _seq") == ["1|f", "2|f", "|t"])
            #expect(
                try bench.lines("select n, _deleted_at is not null, tableoid::regclass from mirror.kept") == [
                    "2|t|mirror.kept_2026"
                ])
            #expect(try bench.lines("select count(*) from only mirror.log_default") == ["0"])
            #expect(try bench.lines("select count(*) from only mirror.past_default") == ["0"])
            // One that is in the default partition, where NULL is not equal to itself.
            try bench.set("/o/b/n", "3")
            for name in ["log", "past", "kept"] { _ = try bench.operators.rebuild(try bench.mirror(name)) }
            #expect(
                try bench.lines("select n, tableoid::regclass from mirror.kept where k = 'b'") == [
                    "3|mirror.kept_default"
                ])
            #expect(try bench.problems() == [])
        }
    }

    /// What comes when no more partitions may be made is in the default one, until more may be.
    @Test func thereAreNoMorePartitionsThanAllowed() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.orders(partition: #", "at most": 1"#))
            try bench.following { _ in
                try bench.set("/o/a/at", #""2026-01-01""#)
                try bench.catchUp("orders")
                try bench.set("/o/b/at", #""2026-02-01""#)
                try bench.set("/o/c/at", #""2026-02-02""#)
                try bench.catchUp("orders")
                let before = ["a||mirror.orders_2026_01", "b||mirror.orders_default", "c||mirror.orders_default"]
                #expect(try rows(bench) == before)
                let plan = try bench.operators.plan(
                    try definition(Self.orders(partition: #", "at most": 2"#)), namespace: "test")
                #expect(plan.actionName == "alter")
                #expect(
                    plan.reasons.joined()
                        == "the partitions: every month of at, 1 at most → every month of at, 2 at most")
                _ = try bench.operators.execute(plan)
                // Rows that wait for it go along.
                try bench.set("/o/c/n", "1")
                try bench.catchUp("orders")
                let isMoved = try eventually {
                    try bench.set("/o/c/n", "1")
                    try bench.catchUp("orders")
                    return try rows(bench).last == "c|1|mirror.orders_2026_02"
                }
                #expect(isMoved)
                #expect(try rows(bench)[1] == "b||mirror.orders_2026_02")
            }
            #expect(try bench.problems() == [])
        }
    }

    /// One message may bring thousands of periods: their partitions are made some at a time, and never more than the server has locks
    /// for.
    @Test func manyPeriodsAtOnceAreMadeBitByBit() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.orders(partition: #", "at most": 4000"#).replacing("month", with: "day"))
            let count = {
                try bench.lines("select count(*) from pg_inherits where inhparent = 'mirror.orders'::regclass")
            }
            let most = KnownPartitions.mostInStep
            try bench.following { _ in
                let days = (0..<1_000).map { "\"k\($0)\": {\"at\": \(1_700_000_000_000 + $0 * 86_400_000)}" }
                try bench.set("/o", "{\(days.joined(separator: ", "))}")
                try bench.catchUp("orders")
                #expect(try count() == ["\(most + 1)"])
                #expect(try bench.lines("select count(*) from mirror.orders_default") == ["\(1_000 - most)"])
                // Those that have waited come with whatever comes next.
                try bench.set("/o/x/n", "1")
                try bench.catchUp("orders")
                #expect(try count() == ["\(2 * most + 1)"])
                #expect(try bench.lines("select count(*) from mirror.orders_default") == ["\(1_001 - 2 * most)"])
            }
            #expect(try bench.problems() == [])
            _ = try bench.operators.rebuild(try bench.mirror("orders"))
            let table = MirrorTable(try bench.mirror("orders").definition, name: "orders", label: "")
            let locks = Int(try bench.lines(MirrorTable.lockTableSQL)[0]) ?? 0
            #expect(table.mostPartitions(locks: 6_400) == 400 && table.mostPartitions(locks: 10) == 1)
            #expect(try count() == ["\(min(1_000, table.mostPartitions(locks: locks)) + 1)"])
            #expect(try bench.lines("select count(*) from mirror.orders") == ["1001"])
            try bench.operators.drop(try bench.mirror("orders"))
        }
    }

    /// It is a part of the table, and is there again when it is needed.
    @Test func theDefaultPartitionIsMadeAgain() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a", #"{"at": "2026-01-01", "n": 1}"#)
            try bench.apply(Self.orders())
            try bench.following { _ in
                try bench.set("/o/a/n", "2")
                try bench.catchUp("orders")
                try bench.script("drop table mirror.orders_default")
                try bench.set("/o/a/at", "null")
                try bench.catchUp("orders")
                #expect(try rows(bench) == ["a|2|mirror.orders_default"])
                #expect(try bench.errors("orders") == [])
            }
            #expect(try bench.problems() == [])
        }
    }

    /// A report that reads all of the table holds the default partition: the mirror goes on meanwhile.
    @Test func aReaderHoldsUpAPartitionAndNotTheMirror() throws {
        try MirrorBench.with { bench in
            try bench.apply(Self.orders())
            let reader = try PostgresConnection(bench.url)
            defer { reader.close() }
            try reader.executeScript("begin; select from mirror.orders")
            try bench.following { _ in
                try bench.set("/o/a", #"{"at": "2026-01-01", "n": 1}"#)
                try bench.catchUp("orders")
                #expect(try rows(bench) == ["a|1|mirror.orders_default"])
            }
            try reader.executeScript("commit")
            // Whoever follows anew has not been refused yet.
            try bench.following { _ in
                try bench.set("/o/b", #"{"at": "2026-01-02", "n": 2}"#)
                try bench.catchUp("orders")
            }
            #expect(try rows(bench) == ["a|1|mirror.orders_2026_01", "b|2|mirror.orders_2026_01"])
            #expect(try bench.problems() == [])
        }
    }

    /// What an operator has made of the partitions stays, and is no harm.
    @Test func operatorsMayMakeAndRemovePartitions() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a", #"{"at": "2026-01-01"}"#)
            try bench.apply(Self.orders())
            try bench.script(
                """
                create table mirror.orders_2026_02 (x int);
                create table mirror.spring partition of mirror.orders for values from ('2026-03-10') to ('2026-05-01');
                create view mirror.january as select count(*) from mirror.orders_2026_01
                """)
            try bench.following { _ in
                try bench.set("/o/b/at", #""2026-02-01""#)
                try bench.set("/o/c/at", #""2026-03-01""#)
                try bench.set("/o/d/at", #""2026-03-11""#)
                try bench.set("/o/e/at", #""2026-04-11""#)
                try bench.catchUp("orders")
            }
            #expect(
                try rows(bench) == [
                    "a||mirror.orders_2026_01", "b||mirror.orders_2026_02_1", "c||mirror.orders_default",
                    "d||mirror.spring", "e||mirror.spring",
                ])
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
                try rows(bench) == [
                    "a||mirror.orders_2026_01", "b||mirror.orders_2026_02_1", "c||mirror.orders_2026_03",
                    "d||mirror.orders_2026_03", "e||mirror.orders_2026_04",
                ])
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
            try bench.apply(Self.orders())
            try bench.script(
                """
                alter table mirror.orders enable row level security;
                create policy few on mirror.orders for select to \(role) using (n > 1)
                """)
            try bench.following { _ in
                try bench.set("/o/b", #"{"at": "2026-02-01", "n": 2}"#)
                try bench.catchUp("orders")
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
            let divided = try bench.apply(Self.orders())
            #expect(
                divided?.lost.count == 1 && divided?.lost.first?.contains("one_n") == true, "\(divided?.lost ?? [])")
            #expect(try partitions(bench).count == 10)
            #expect(try bench.lines("select * from mirror.counted") == ["9"])
            try bench.script("create index alone on mirror.orders_2026_01 (n)")
            let again = try bench.operators.rebuild(try bench.mirror("orders"))
            #expect(
                again.lost == [
                    "The index alone is on the partition orders_2026_01 alone, which the new table does not get."
                ])
            #expect(try bench.lines("select count(*) from pg_indexes where indexname = 'by_n'") == ["1"])
            let size = try #require(bench.operators.size(of: try bench.mirror("orders")))
            #expect(size.rowCount == 9 && size.byteCount > 9 * 8_192)
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
            }
            #expect(
                try bench.lines("select tableoid::regclass from mirror.orders where n = 1") == ["mirror.orders_2027_01"]
            )
            try bench.apply(plain)
            #expect(try partitions(bench) == [])
            #expect(try bench.lines("select * from mirror.counted") == ["9"])
            #expect(try bench.problems() == [])
        }
    }
}
