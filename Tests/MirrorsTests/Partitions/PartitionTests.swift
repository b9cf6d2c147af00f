import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

@testable import Mirrors

/// Tables that are divided by time.
@Suite struct PartitionTests {
    @Test(arguments: [false, true]) func rowsAreInTheirPartitions(isThereBefore: Bool) throws {
        try MirrorBench.with { bench in
            let set = {
                try bench.set("/o/a", #"{"at": "2026-01-31T23:59:59.999Z", "n": 1}"#)
                try bench.set("/o/b", #"{"at": "2026-02-01T00:00:00Z", "n": 2}"#)
                try bench.set("/o/c", #"{"n": 3}"#)
            }
            if isThereBefore { try set() }
            try bench.apply(dividedOrders())
            try bench.following { _ in
                if !isThereBefore { try set() }
                try bench.catchUp("orders")
                let expected = [
                    "a|1|mirror.orders_2026_01", "b|2|mirror.orders_2026_02", "c|3|mirror.orders_default",
                ]
                try expectPlaced(bench, expected)
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
                try expectPlaced(
                    bench,
                    ["a|1|mirror.orders_2026_02", "b|2|mirror.orders_default", "c|3|mirror.orders_2027_03"])
                try bench.set("/o/a", "null")
                try bench.set("/o/b/n", "5")
                try bench.catchUp("orders")
                #expect(try placedRows(bench) == ["b|5|mirror.orders_default", "c|3|mirror.orders_2027_03"])
            }
            #expect(try bench.problems() == [])
            _ = try bench.operators.rebuild(try bench.mirror("orders"))
            #expect(try placedRows(bench) == ["b|5|mirror.orders_default", "c|3|mirror.orders_2027_03"])
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
                try expectPlaced(bench, ["a|2|mirror.visits_2026_w06", "a|3|mirror.visits_2026_w05"], "visits")
            }
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
                let isDivided = try eventually {
                    try bench.lines("select tableoid::regclass from mirror.kept") == ["mirror.kept_2026"]
                        && bench.lines("select from mirror.log_default union all select from mirror.past_default") == []
                }
                #expect(isDivided)
            }
            #expect(
                try bench.lines("select _operation from mirror.log order by _seq") == ["insert", "update", "delete"])
            #expect(try bench.lines("select n, _current from mirror.past order by _seq") == ["1|f", "2|f", "|t"])
            #expect(try bench.lines("select n, _deleted_at is not null from mirror.kept") == ["2|t"])
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
            try bench.apply(dividedOrders(partition: #", "at most": 1"#))
            try bench.following { _ in
                try bench.set("/o/a/at", #""2026-01-01""#)
                try bench.catchUp("orders")
                try bench.set("/o/b/at", #""2026-02-01""#)
                try bench.set("/o/c/at", #""2026-02-02""#)
                try bench.catchUp("orders")
                let before = ["a||mirror.orders_2026_01", "b||mirror.orders_default", "c||mirror.orders_default"]
                try expectPlaced(bench, before)
                let plan = try bench.operators.plan(
                    try definition(dividedOrders(partition: #", "at most": 2"#)), namespace: "test")
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
                    return try placedRows(bench).last == "c|1|mirror.orders_2026_02"
                }
                #expect(isMoved)
                #expect(try placedRows(bench)[1] == "b||mirror.orders_2026_02")
            }
            #expect(try bench.problems() == [])
        }
    }

    /// One message may bring thousands of periods: their partitions are made some at a time, and never more than allowed.
    @Test func manyPeriodsAtOnceAreMadeBitByBit() throws {
        try MirrorBench.with { bench in
            try bench.apply(dividedOrders(partition: #", "at most": 60"#).replacing("month", with: "day"))
            let count = {
                try bench.lines("select count(*) from pg_inherits where inhparent = 'mirror.orders'::regclass")
            }
            try bench.following { _ in
                let days = (0..<1_000).map { "\"k\($0)\": {\"at\": \(1_700_000_000_000 + $0 * 86_400_000)}" }
                try bench.set("/o", "{\(days.joined(separator: ", "))}")
                try bench.catchUp("orders")
                // Those that have waited come with whatever comes next.
                let isFull = try eventually {
                    try bench.set("/o/x/n", "1")
                    try bench.catchUp("orders")
                    return try count() == ["61"]
                }
                #expect(try isFull || count() == ["61"])
                #expect(try bench.lines("select count(*) from mirror.orders_default") == ["941"])
            }
            #expect(try bench.problems() == [])
            _ = try bench.operators.rebuild(try bench.mirror("orders"))
            #expect(try count() == ["61"])
            #expect(try bench.lines("select count(*) from mirror.orders") == ["1001"])
            let table = MirrorTable(try bench.mirror("orders").definition, name: "orders", label: "")
            #expect(table.mostPartitions(locks: 6_400) == 60 && table.mostPartitions(locks: 320) == 20)
        }
    }

    /// Who waits for a partition that is being made sees each row, once.
    @Test func readersMissNothingWhilePartitionsAreMade() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a/at", #""2026-01-01""#)
            try bench.apply(dividedOrders())
            let found = MutexBox<Set<String>>([])
            let isDone = MutexBox(false)
            let url = bench.url
            let readers = (0..<2).map { _ in
                Thread(name: "reading") {
                    guard let reader = try? PostgresConnection(url) else { return }
                    defer { reader.close() }
                    while !isDone.withLock({ $0 }) {
                        let count = try? reader.execute("select count(*) from mirror.orders").int64(0, 0)
                        found.withLock { _ = $0.insert("\(count ?? -1)") }
                    }
                }
            }
            try bench.following { _ in
                for month in 1...60 {
                    let day = "\(2030 + month / 12)-0\(1 + month % 9)-01"
                    try bench.set("/o/a/at", "\"\(day)\"")
                    try bench.catchUp("orders")
                    let place = "mirror.orders_\(day.prefix(7).replacing("-", with: "_"))"
                    let isThere = try eventually {
                        try bench.lines("select tableoid::regclass from mirror.orders") == [place]
                    }
                    #expect(isThere)
                }
            }
            isDone.withLock { $0 = true }
            for reader in readers { reader.join() }
            #expect(found.withLock { $0 } == ["1"])
        }
    }

    /// What refers to a row stays: nothing moves to another partition by itself.
    @Test func whatIsReferredToStaysWhereItIs() throws {
        try MirrorBench.with { bench in
            try bench.apply(
                #"""
                {"name": "orders", "path": "/o/{k}", "columns": {"at": {"type": "date", "not null": "error"}, "n": "bigint"},
                 "partition": {"by": "at", "every": "month"}}
                """#)
            try bench.following { _ in
                try bench.script(
                    """
                    create table mirror.note (k text collate "C", at date, foreign key (k, at) references mirror.orders (k, at) on delete cascade)
                    """)
                try bench.set("/o/a/at", #""2026-01-01""#)
                try bench.catchUp("orders")
                try bench.script("insert into mirror.note select k, at from mirror.orders")
                try bench.set("/o/b/at", #""2026-01-02""#)
                try bench.catchUp("orders")
            }
            #expect(try placedRows(bench) == ["a||mirror.orders_default", "b||mirror.orders_default"])
            #expect(try bench.lines("select k from mirror.note") == ["a"])
        }
    }

    /// A long name is cut where it says least.
    @Test func thePeriodStaysInALongName() throws {
        let name = String(repeating: "o", count: 60)
        let long = MirrorTable(
            try definition(dividedOrders().replacing("\"orders\"", with: "\"\(name)\"")), name: name, label: "")
        #expect(long.partitionName("2026_01").hasSuffix("_2026_01") && long.partitionName("2026_01").utf8.count <= 63)
        #expect(long.partitionName("2026_01").hasPrefix("ooooo"))
    }

    /// It is a part of the table, and is there again when it is needed.
    @Test func theDefaultPartitionIsMadeAgain() throws {
        try MirrorBench.with { bench in
            try bench.set("/o/a", #"{"at": "2026-01-01", "n": 1}"#)
            try bench.apply(dividedOrders())
            try bench.following { _ in
                try bench.set("/o/a/n", "2")
                try bench.catchUp("orders")
                try bench.script("drop table mirror.orders_default")
                try bench.set("/o/a/at", "null")
                try bench.catchUp("orders")
                #expect(try placedRows(bench) == ["a|2|mirror.orders_default"])
                #expect(try bench.errors("orders") == [])
            }
            #expect(try bench.problems() == [])
        }
    }

    /// A report that reads all of the table holds the default partition: the mirror goes on meanwhile.
    @Test func aReaderHoldsUpAPartitionAndNotTheMirror() throws {
        try MirrorBench.with { bench in
            try bench.apply(dividedOrders())
            let reader = try PostgresConnection(bench.url)
            defer { reader.close() }
            try reader.executeScript("begin; select from mirror.orders")
            try bench.following { _ in
                try bench.set("/o/a", #"{"at": "2026-01-01", "n": 1}"#)
                try bench.catchUp("orders")
                #expect(try placedRows(bench) == ["a|1|mirror.orders_default"])
            }
            try reader.executeScript("commit")
            // Whoever follows anew has not been refused yet.
            try bench.following { _ in
                try bench.set("/o/b", #"{"at": "2026-01-02", "n": 2}"#)
                try bench.catchUp("orders")
                try expectPlaced(bench, ["a|1|mirror.orders_2026_01", "b|2|mirror.orders_2026_01"])
            }
            #expect(try bench.problems() == [])
        }
    }
}
