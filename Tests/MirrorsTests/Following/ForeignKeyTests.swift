import LogStore
import Mirrors
import TestSupport
import Testing
import Tree

/// Checks foreign keys between mirrors' tables, and to other tables: no row is lost, no mirror stops, and waiting rows
/// are written without intervention.
@Suite struct ForeignKeyTests {
    /// The times at which a key is checked: with each statement, or when the transaction commits.
    private static let timings = ["", "deferrable initially deferred"]

    /// Runs `body` with items that refer to their orders. By its name, the items' mirror comes first.
    private func withOrders(
        _ timing: String, keepingErrors: Int = 100, _ body: (MirrorBench) throws -> Void
    ) throws {
        try MirrorBench.with { bench in
            try bench.apply(
                #"{"name": "b_orders", "path": "/orders/{o}", "columns": {"by": "text"}, "filter": "data.child('by').exists()"}"#
            )
            try bench.apply(
                #"{"name": "a_items", "path": "/orders/{o}/items/{i}", "columns": {"n": {"type": "bigint", "path": "."}}, "keep errors": \#(keepingErrors)}"#
            )
            try bench.script(
                "alter table mirror.a_items add constraint of_order foreign key (o) references mirror.b_orders \(timing)"
            )
            try bench.following { _ in try body(bench) }
        }
    }

    private func expectNoErrors(_ bench: MirrorBench, _ names: String...) throws {
        #expect(try eventually { try names.allSatisfy { try bench.errors($0) == [] } })
        #expect(try bench.lines("select name from pathmirror.mirror_status where state <> 'running'") == [])
        #expect(try bench.problems() == [])
    }

    @Test(arguments: timings) func parentsComeBeforeTheirChildrenAndGoAfterThem(timing: String) throws {
        try withOrders(timing) { bench in
            func after(_ lines: [String]) throws {
                try bench.catchUp("b_orders", "a_items")
                #expect(try bench.lines("select o, i from mirror.a_items order by 1, 2") == lines)
                #expect(try bench.errors("a_items") == [] && bench.errors("b_orders") == [])
            }
            try bench.set("/orders/o1", #"{"by": "ada", "items": {"x": 1, "y": 2}}"#)
            try after(["o1|x", "o1|y"])
            try bench.update("/orders", [("o2", #"{"by": "bob", "items": {"z": 3}}"#), ("o1/items/x", "null")])
            try after(["o1|y", "o2|z"])
            try bench.set("/orders/o1", "null")
            try after(["o2|z"])
            try bench.set(
                "/orders", #"{"o3": {"by": "cyd", "items": {"p": 1}}, "o4": {"by": "dee", "items": {"q": 1}}}"#)
            try after(["o3|p", "o4|q"])
            try bench.update("/", [("orders/o3", "null"), ("orders/o4", #"{"by": "dee", "items": {"r": 1}}"#)])
            try after(["o4|r"])
            try bench.set("/orders", "null")
            try after([])
            try expectNoErrors(bench, "a_items", "b_orders")
        }
    }

    /// Checks that the items of an order without a row have no rows until the order has one, and that their errors do
    /// not count against `keep errors`.
    @Test(arguments: timings) func childrenWaitForTheirParents(timing: String) throws {
        try withOrders(timing, keepingErrors: 2) { bench in
            let items = (0..<9).map { "\"i\($0)\": \($0)" }.joined(separator: ", ")
            try bench.update(
                "/orders", [("o1", "{\"items\": {\(items)}}"), ("o2", #"{"by": "bob", "items": {"z": 3}}"#)])
            try bench.catchUp("b_orders", "a_items")
            #expect(try bench.lines("select o, i from mirror.a_items") == ["o2|z"])
            let errors = try bench.errors("a_items")
            #expect(errors.count == 9 && errors.allSatisfy { $0.contains(": for now, the table refuses the row: ") })
            #expect(try bench.problems() == [])
            let seq = try bench.set("/orders/o1/by", #""ada""#)
            let isThere = "select count(*), min(_seq) >= \(seq) from mirror.a_items where o = 'o1'"
            #expect(try eventually { try bench.lines(isThere) == ["9|t"] })
            try expectNoErrors(bench, "a_items", "b_orders")
        }
    }

    /// Checks that rows also wait for rows of a table that is not a mirror's.
    @Test(arguments: timings) func rowsWaitForOtherTables(timing: String) throws {
        try withOrders(timing) { bench in
            try bench.script(
                """
                create table mirror.people (name text primary key);
                alter table mirror.b_orders add constraint of_person foreign key (by) references mirror.people \(timing)
                """)
            try bench.set("/orders/o1", #"{"by": "ada", "items": {"x": 1}}"#)
            try bench.catchUp("b_orders", "a_items")
            #expect(try bench.lines("select count(*) from mirror.a_items") == ["0"])
            try bench.script("insert into mirror.people values ('ada')")
            #expect(
                try eventually {
                    try bench.lines("select o, i from mirror.a_items join mirror.b_orders using (o)") == ["o1|x"]
                })
            try expectNoErrors(bench, "a_items", "b_orders")
        }
    }

    /// Checks that rows that other rows refer to by a value remain until those are removed, and that unrelated rows do
    /// not remain.
    @Test(arguments: timings) func parentsStayAsLongAsOthersReferToThem(timing: String) throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "people", "path": "/people/{p}", "columns": {"n": "bigint"}}"#)
            try bench.apply(#"{"name": "orders", "path": "/orders/{o}", "columns": {"by": "text"}}"#)
            try bench.script(
                "alter table mirror.orders add constraint of_person foreign key (by) references mirror.people \(timing)"
            )
            try bench.following { _ in
                func expect(_ people: [String], _ orders: [String]) throws {
                    let found = try eventually {
                        try bench.lines("select p, n from mirror.people order by p") == people
                            && bench.lines("select o, by from mirror.orders order by o") == orders
                    }
                    let rows =
                        try bench.lines("select p, n from mirror.people")
                        + bench.lines("select o, by from mirror.orders")
                    #expect(found, "\(rows)")
                }
                try bench.set("/people", #"{"ada": {"n": 1}, "bob": {"n": 1}, "cyd": {"n": 1}}"#)
                try bench.set("/orders", #"{"o1": {"by": "ada"}, "o2": {"by": "bob"}}"#)
                try expect(["ada|1", "bob|1", "cyd|1"], ["o1|ada", "o2|bob"])
                // All people are written again, one fewer: the orders keep theirs.
                try bench.set("/people", #"{"bob": {"n": 2}, "dee": {"n": 2}}"#)
                try expect(["ada|1", "bob|2", "dee|2"], ["o1|ada", "o2|bob"])
                #expect(
                    try eventually {
                        try bench.errors("people").count == 1
                            && bench.errors("people").allSatisfy {
                                $0.hasPrefix(" of /people/ada: for now, the table keeps the row: ")
                            }
                    })
                #expect(
                    try bench.lines("select name from pathmirror.mirror_status where state <> 'running'") == [])
                try bench.set("/orders/o1/by", #""dee""#)
                try expect(["bob|2", "dee|2"], ["o1|dee", "o2|bob"])
                // Both rows are removed in one entry.
                try bench.update("/", [("people/dee", "null"), ("orders/o1", "null"), ("people/bob/n", "3")])
                try expect(["bob|3"], ["o2|bob"])
                try expectNoErrors(bench, "people", "orders")
            }
        }
    }

    /// Checks more waiting records than are tried at once.
    @Test func manyRowsWaitAndOthersContinue() throws {
        try withOrders("", keepingErrors: 2) { bench in
            let items = (0..<1_200).map { "\"i\($0)\": \($0)" }.joined(separator: ", ")
            try bench.set("/orders/o1", "{\"items\": {\(items)}}")
            for number in 0..<20 {
                try bench.set("/orders/o2", "{\"by\": \"bob\", \"items\": {\"z\": \(number)}}")
                try bench.catchUp("b_orders", "a_items")
                #expect(try bench.lines("select o, i, n from mirror.a_items") == ["o2|z|\(number)"])
            }
            try bench.set("/orders/o1/by", #""ada""#)
            #expect(try eventually { try bench.lines("select count(*) from mirror.a_items") == ["1201"] })
            try expectNoErrors(bench, "a_items", "b_orders")
        }
    }

    /// Checks a refused row whose previous row cannot be removed either, because another table refers to it.
    @Test func aRefusedRowToWhichOthersRefer() throws {
        try withOrders("") { bench in
            try bench.set("/orders/o1", #"{"by": "ada", "items": {"x": 1}}"#)
            try bench.catchUp("b_orders", "a_items")
            try bench.script(
                """
                alter table mirror.a_items add constraint few check (n < 5);
                create table mirror.notes (o text, i text, foreign key (o, i) references mirror.a_items);
                insert into mirror.notes values ('o1', 'x')
                """)
            try bench.update("/orders/o1/items", [("x", "7"), ("y", "2")])
            try bench.catchUp("b_orders", "a_items")
            #expect(try bench.lines("select i, n from mirror.a_items order by i") == ["x|1", "y|2"])
            #expect(try bench.errors("a_items").count == 1)
            try bench.set("/orders/o1/items/x", "3")
            try bench.catchUp("b_orders", "a_items")
            #expect(try bench.lines("select i, n from mirror.a_items order by i") == ["x|3", "y|2"])
            try expectNoErrors(bench, "a_items", "b_orders")
        }
    }

    /// Checks that the gateway retries a row that an operator's command could not write.
    @Test func rowsThatACommandCouldNotWriteAreTriedAgain() throws {
        try withOrders("") { bench in
            try bench.set("/orders/o1", #"{"by": "ada", "items": {"x": 1}}"#)
            try bench.catchUp("b_orders", "a_items")
            try bench.script("delete from mirror.a_items; delete from mirror.b_orders")
            _ = try bench.operators.applyAgain(try bench.mirror("a_items"), from: 1)
            #expect(try bench.errors("a_items").count == 1)
            _ = try bench.operators.applyAgain(try bench.mirror("b_orders"), from: 1)
            #expect(try eventually { try bench.lines("select o, i from mirror.a_items") == ["o1|x"] })
            try expectNoErrors(bench, "a_items", "b_orders")
        }
    }

    /// Checks that many waiting rows do not prevent errors of other kinds from being recorded.
    @Test func errorsAreKeptBesideManyThatWait() throws {
        try withOrders("", keepingErrors: 2) { bench in
            let items = (0..<9).map { "\"i\($0)\": \($0)" }.joined(separator: ", ")
            try bench.set("/orders/o1", "{\"items\": {\(items)}}")
            try bench.set("/orders/o2/by", #""bob""#)
            try bench.script("alter table mirror.a_items add constraint few check (n < 50)")
            for (number, key) in ["x", "y", "z"].enumerated() {
                try bench.set("/orders/o2/items/\(key)", "\(70 + number)")
            }
            try bench.catchUp("b_orders", "a_items")
            let errors = try bench.errors("a_items")
            #expect(errors.filter { $0.contains(": for now, ") }.count == 9)
            #expect(errors.filter { $0.hasPrefix(" of /orders/o2/items/") }.count == 2)
            #expect(try bench.operators.unkeptErrors(try bench.mirror("a_items")) == 1)
        }
    }

    /// Counts errors in a separate table, including those that are later removed.
    private static let notingErrors = """
        create table public.noted (reason text);
        create function public.note() returns trigger language plpgsql as $$
        begin
            insert into public.noted values (new.reason);
            return new;
        end $$;
        create trigger note after insert on pathmirror.mirror_error for each row execute function public.note()
        """

    /// Checks that rows of one mirror that violate a deferred key do not cause rows of another mirror to be refused.
    @Test(arguments: ["", #", "deleted": "soft""#]) func aDeferredKeyBlamesNoOtherRow(member: String) throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "bookings", "path": "/bookings/{b}", "columns": {"room": "text"}}"#)
            try bench.apply(#"{"name": "rooms", "path": "/rooms/{r}", "columns": {"n": "bigint"}\#(member)}"#)
            try bench.script(
                """
                alter table mirror.bookings add foreign key (room) references mirror.rooms deferrable initially deferred;
                alter table mirror.rooms add constraint few check (n < 50);
                \(Self.notingErrors)
                """)
            try bench.following { _ in
                let rooms = (0..<20).map { ("rooms/r\(10 + $0)/n", $0 == 7 ? "77" : "\($0)") }
                try bench.update("/", [("bookings/b1/room", #""r29""#)] + rooms)
                try bench.catchUp("bookings", "rooms")
                #expect(try bench.lines("select count(*) from mirror.rooms") == ["19"])
                #expect(try bench.lines("select b, room from mirror.bookings") == ["b1|r29"])
                #expect(try bench.errors("rooms").map { String($0.prefix(14)) } == [" of /rooms/r17"])
                #expect(try bench.lines("select count(*) from public.noted") == ["1"])
            }
        }
    }

    /// Checks that constraints return to their declared timing for other mirrors of the transaction after a table was
    /// written row by row.
    @Test func keysStayDeferredForTheOthers() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "a", "path": "/a/{k}", "columns": {"n": "bigint"}}"#)
            try bench.apply(#"{"name": "bookings", "path": "/bookings/{b}", "columns": {"room": "text"}}"#)
            try bench.apply(#"{"name": "rooms", "path": "/rooms/{r}", "columns": {"n": "bigint"}}"#)
            try bench.script(
                """
                alter table mirror.bookings add foreign key (room) references mirror.rooms deferrable initially deferred;
                alter table mirror.a add constraint few check (n < 50);
                \(Self.notingErrors)
                """)
            try bench.following { _ in
                try bench.update("/", [("a/k/n", "77"), ("bookings/b1/room", #""r""#), ("rooms/r/n", "1")])
                try bench.catchUp("a", "bookings", "rooms")
                #expect(try bench.lines("select b, room from mirror.bookings") == ["b1|r"])
                #expect(try bench.lines("select count(*) from public.noted") == ["1"])
            }
        }
    }

    /// Checks that rows of a collection that is written as a whole remain if they are part of the new value, when a key
    /// prevents the table from being emptied.
    @Test(arguments: [false, true]) func rowsThatAreWrittenAgainAreNotRemoved(byImport: Bool) throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "orders", "path": "/orders/{o}", "columns": {"n": "bigint"}}"#)
            try bench.apply(
                #"{"name": "items", "path": "/items/{o}/{i}", "columns": {"n": {"type": "bigint", "path": "."}}}"#)
            try bench.script(
                """
                alter table mirror.items add foreign key (o) references mirror.orders;
                create table public.removed (o text);
                create function public.note() returns trigger language plpgsql as $$
                begin
                    insert into public.removed values (old.o);
                    return old;
                end $$;
                create trigger note after delete on mirror.orders for each row execute function public.note()
                """)
            try bench.following { _ in
                let orders = (0..<30).map { "\"o\(10 + $0)\": {\"n\": 1}" }.joined(separator: ", ")
                try bench.set("/orders", "{\(orders)}")
                try bench.set("/items/o10/x", "1")
                try bench.catchUp("orders", "items")
                if byImport {
                    let log = try LogConnection(bench.url)
                    defer { log.close() }
                    let record = try #require(try log.namespace(named: "test"))
                    let importer = try Importer(
                        log, record, at: Path(splitting: "/orders"), settings: Importer.Settings())
                    for number in 0..<29 { try importer.add(Array("/orders/o\(10 + number)/n".utf8), .int(2)) }
                    try importer.finish()
                } else {
                    let fewer = (0..<29).map { "\"o\(10 + $0)\": {\"n\": 2}" }.joined(separator: ", ")
                    try bench.set("/orders", "{\(fewer)}")
                }
                try bench.catchUp("orders", "items")
                #expect(try bench.lines("select count(*), min(n) from mirror.orders") == ["29|2"])
                #expect(try bench.lines("select o from public.removed") == ["o39"])
                try expectNoErrors(bench, "orders", "items")
            }
        }
    }

    /// Checks that refused rows of a table with soft deletion are not retried, and that their errors do not announce a
    /// retry.
    @Test func rowsOfASoftTableDoNotWait() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "m", "path": "/v/{k}", "columns": {"by": "text"}, "deleted": "soft"}"#)
            try bench.script(
                """
                create table mirror.people (name text primary key);
                alter table mirror.m add constraint of_person foreign key (by) references mirror.people
                """)
            try bench.following { _ in
                try bench.set("/v/a/by", #""ada""#)
                try bench.catchUp("m")
                let errors = try bench.errors("m")
                #expect(errors.count == 1 && errors[0].hasPrefix(" of /v/a: the table refuses the row: "), "\(errors)")
            }
        }
    }

    /// Checks the separate SQLSTATE of PostgreSQL 18 for rows protected by a key with `on delete restrict`.
    @Test func restrictedRowsAreTriedAgain() throws {
        try MirrorBench.with { bench in
            try bench.apply(#"{"name": "m", "path": "/v/{k}", "columns": {"x": "bigint"}}"#)
            try bench.script(
                """
                create table public.restricting (k text);
                insert into public.restricting values ('a');
                create function public.restrict() returns trigger language plpgsql as $$
                begin
                    if exists (select from public.restricting where k = old.k) then
                        raise exception 'restricted' using errcode = '23001';
                    end if;
                    return old;
                end $$;
                create trigger restrict before delete on mirror.m for each row execute function public.restrict()
                """)
            try bench.following { _ in
                try bench.set("/v", #"{"a": {"x": 1}, "b": {"x": 2}}"#)
                try bench.catchUp("m")
                try bench.set("/v", "null")
                try bench.catchUp("m")
                let errors = try bench.errors("m")
                #expect(
                    errors.count == 1 && errors[0].hasPrefix(" of /v/a: for now, the table keeps the row: "),
                    "\(errors)")
                try bench.script("delete from public.restricting")
                #expect(try eventually { try bench.lines("select k from mirror.m") == [] })
                try expectNoErrors(bench, "m")
            }
        }
    }
}
