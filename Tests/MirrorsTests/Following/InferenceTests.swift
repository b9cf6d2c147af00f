import LogStore
import Mirrors
import TestSupport
import Testing
import Tree

/// Tests of the definitions that `mirror infer` proposes for records.
@Suite struct InferenceTests {
    private func inferAll(_ bench: MirrorBench, _ path: String, limit: Int = 1_000) throws -> [Inference] {
        let log = try LogConnection(bench.url)
        defer { log.close() }
        return try Inference.run(log, try #require(try log.namespace(named: "test")), pattern: path, limit: limit)
    }

    /// The proposal for a path that gives one mirror.
    private func infer(_ bench: MirrorBench, _ path: String, limit: Int = 1_000) throws -> Inference {
        let all = try inferAll(bench, path, limit: limit)
        #expect(all.count == 1)
        return try #require(all.first)
    }

    private struct Stopped: Error {}

    /// Checks that a caller can stop the inference through the progress callback, and that nothing is proposed then.
    @Test func notifiedAndStopped() throws {
        try MirrorBench.with { bench in
            try bench.set("/a", #"{"x": {"n": 1}, "y": {"n": 2}}"#)
            let log = try LogConnection(bench.url)
            defer { log.close() }
            let namespace = try #require(try log.namespace(named: "test"))
            var reported: [String] = []
            _ = try Inference.run(log, namespace, pattern: "/a", limit: 10) { stage in
                if case .records(let table, let count) = stage { reported.append("\(table) \(count)") }
            }
            #expect(reported == ["a 2"])
            #expect(throws: Stopped.self) {
                try Inference.run(log, namespace, pattern: "/", limit: 10) { _ in throw Stopped() }
            }
        }
    }

    @Test func typesNamesAndEvidence() throws {
        try MirrorBench.with { bench in
            try bench.set(
                "/blog posts",
                #"""
                {"a": {"title": "A", "starCount": 3, "createdAt": 1700000000000, "author": {"firstName": "Ada", "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, "tags": {"x": true}, "ok": true, "price": 1.5, "day": "2026-01-31", "HTTPStatus": 200},
                 "b": {"title": "B", "starCount": "many", "createdAt": 1700000000001, "author": {"firstName": "Bob"}, "ok": false, "price": 2},
                 "c": {"title": "C", "starCount": 5, "author": {"firstName": 5}}}
                """#)
            let found = try infer(bench, "/blog posts")
            #expect(found.recordCount == 3)
            #expect(found.definition.name == "blog_posts" && found.definition.tableName == "mirror.blog_posts")
            #expect(found.definition.pattern.description == "/blog posts/{blog_post_id}")
            let evidence = Set(
                found.evidence.map {
                    "\($0.column) \($0.type.rawValue) \($0.path) \($0.present) \($0.conversionErrors)"
                })
            #expect(
                evidence == [
                    "title text title 3 0", "star_count text starCount 3 0", "created_at timestamptz createdAt 2 0",
                    "author_first_name text author/firstName 3 0",
                    "author_id uuid author/id 1 0", "tags text[] tags 1 0", "ok boolean ok 2 0",
                    "price double precision price 2 0", "day date day 1 0", "httpstatus bigint HTTPStatus 1 0",
                ])
            // The proposal can be applied unchanged, and holds all data.
            let text = String(decoding: found.definition.encoded(pretty: true), as: UTF8.self)
            try bench.apply(text)
            #expect(
                try bench.lines("select count(*), min(star_count), count(rest) from mirror.blog_posts") == ["3|3|0"])
            #expect(try bench.problems() == [])
        }
    }

    @Test(arguments: [
        ("/posts", "posts", "post_id"), ("/stories", "stories", "story_id"),
        ("/a/userNames", "user_names", "user_name_id"), ("/data", "data", "data_id"),
        ("/é", "é", "é_id"), ("/us", "us", "us_id"), ("/Заказы", "заказы", "заказы_id"), ("/-", "records", "id"),
        ("/boxes", "boxes", "box_id"), ("/addresses", "addresses", "address_id"), ("/iris", "iris", "iris_id"),
    ])
    func namesOfTablesAndKeys(path: String, table: String, key: String) throws {
        try MirrorBench.with { bench in
            try bench.set(path, #"{"k": {"x": 1}}"#)
            let found = try infer(bench, path)
            #expect(found.definition.table == table && found.definition.keys.map(\.name) == [key])
        }
    }

    /// Checks that keys that a pattern cannot express are omitted and reported, without an effect on other keys.
    @Test func keysWithBraces() throws {
        try MirrorBench.with { bench in
            try bench.set(
                "/",
                #"""
                {"{x}": {"y": {"a": 1}, "z": {"a": 2}}, "a{b}": {"y": {"a": 1}, "z": {"a": 2}},
                 "docs": {"d1": {"{items}": [{"a": 1}, {"a": 2}], "a": 1}, "d2": {"{items}": [{"a": 1}], "a": 2}}}
                """#)
            let log = try LogConnection(bench.url)
            defer { log.close() }
            let namespace = try #require(try log.namespace(named: "test"))
            var leftOut: [String] = []
            let found = try Inference.run(log, namespace, pattern: "/", limit: 10) { stage in
                if case .leftOut(let path) = stage { leftOut.append(path) }
            }
            #expect(found.map(\.definition.pattern.description) == ["/docs/{doc_id}"])
            #expect(Set(leftOut) == ["/{x}/{x_id}", "/a{b}/{a_b_id}", "/docs/{doc_id}/{items}/{item_index}"])
            try bench.set("/docs", "null")
            let refusal = #expect(throws: MirrorError.self) { try inferAll(bench, "/") }
            #expect(try "\(#require(refusal))".contains(", except records that no mirror can store"))
        }
    }

    /// Checks that a proposal can be applied for any names of fields, and that valid names are kept.
    @Test func namesOfColumns() throws {
        try MirrorBench.with { bench in
            try bench.set(
                "/rows",
                #"{"a": {"NAME": 1, "Name": 2, "name": 3, "cmax": 4, "ctid": 5, "Zip Code": 6, "zip_code": 7}}"#)
            let found = try infer(bench, "/rows").definition
            let names = Dictionary(uniqueKeysWithValues: found.columns.map { ($0.path.keys[0].text, $0.name) })
            #expect(names["name"] == "name" && names["zip_code"] == "zip_code")
            #expect(names["cmax"] == "cmax_value" && names["ctid"] == "ctid_value")
            #expect(Set([names["NAME"], names["Name"]]) == ["name_2", "name_3"] && names["Zip Code"] == "zip_code_2")
            try bench.apply(String(decoding: found.json, as: UTF8.self))
            #expect(try bench.lines("select name, zip_code, cmax_value from mirror.rows") == ["3|7|4"])
        }
    }

    /// Checks that the table of another mirror is never proposed.
    @Test func tablesThatThereAre() throws {
        try MirrorBench.with { bench in
            try bench.set("/", #"{"Orders": {"a": {"x": 1}}, "orders": {"a": {"x": 1}}}"#)
            try bench.apply(String(decoding: try infer(bench, "/Orders").definition.json, as: UTF8.self))
            #expect(try infer(bench, "/Orders").definition.table == "orders", "the same again")
            #expect(try infer(bench, "/orders").definition.table == "orders_2")
            #expect(try infer(bench, "/orders").definition.name == "orders_2")
            // A table of the same name in another schema is in no proposal's way.
            try bench.apply(#"{"name": "sales", "path": "/sales/{k}", "table": "other.invoices"}"#)
            try bench.set("/invoices", #"{"a": {"x": 1}}"#)
            #expect(try infer(bench, "/invoices").definition.tableName == "mirror.invoices")
            try bench.apply(#"{"name": "shop", "path": "/o/{k}", "table": "things"}"#)
            try bench.set("/shop", #"{"a": {"x": 1}}"#)
            #expect(try infer(bench, "/shop").definition.name == "shop_2")
            // A mirror keeps the name that it has, even if another path would now come first.
            try bench.set("/", #"{"a": {"items": {"k": {"x": 1}}}, "b": {"items": {"k": {"x": 1}}}}"#)
            for one in try inferAll(bench, "/") {
                try bench.apply(String(decoding: one.definition.json, as: UTF8.self))
            }
            try bench.set("/aa", #"{"items": {"k": {"x": 1}}}"#)
            let again = try inferAll(bench, "/").map {
                "\($0.definition.pattern.base) \($0.definition.table) \($0.definition.name)"
            }
            #expect(again == ["/a/items items items", "/aa/items items_3 items_3", "/b/items items_2 items_2"])
            // Names must be ASCII, but tables need not be.
            try bench.set("/", #"{"é": {"a": {"x": 1}}, "中国": {"a": {"x": 1}}}"#)
            let names = try inferAll(bench, "/").map(\.definition)
            #expect(names.map(\.name) == ["records", "records_2"] && Set(names.map(\.table)) == ["é", "中国"])
        }
    }

    @Test func oneRecordIsNoCollection() throws {
        try MirrorBench.with { bench in
            try bench.set("/config", #"{"theme": "dark", "max": 5}"#)
            #expect(throws: MirrorError.self) { try infer(bench, "/config") }
        }
    }

    /// Checks that the proposal names a record in which a common field is missing.
    @Test func recordsThatLackAField() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1, "z": 1}, "b": {"x": 2, "y": 1}, "c": {"y": 2}}"#)
            let found = try infer(bench, "/v").evidence.map { "\($0.column) \($0.present) \($0.missing ?? "-")" }
            #expect(Set(found) == ["x 2 /v/c/x", "y 2 /v/a/y", "z 1 /v/b/z"])
            try bench.set("/v", #"{"a": {"x": 1}, "b": {"x": 2}}"#)
            #expect(try infer(bench, "/v").evidence.map(\.missing) == [nil])
        }
    }

    @Test func equalNamesAreDistinguished() throws {
        try MirrorBench.with { bench in
            try bench.set("/list", #"{"k": {"a b": 1, "a-b": 2, "aB": 3, "é": 4, "rest": 5, "list_id": 6}}"#)
            let names = try infer(bench, "/list").definition
            #expect(Set(names.columns.map(\.name)).count == 6)
            #expect(Set(names.columns.map(\.name)).isSuperset(of: ["a_b", "a_b_2", "a_b_3", "rest", "list_id_2"]))
            #expect(names.rest?.name == "rest_2")
            try bench.apply(String(decoding: names.json, as: UTF8.self))
        }
    }

    @Test func patternsLeavesAndLimits() throws {
        try MirrorBench.with { bench in
            try bench.set("/rooms", #"{"r1": {"messages": {"m1": "hi", "m2": "ho"}}, "r2": {"messages": {"m3": 5}}}"#)
            let found = try infer(bench, "/rooms/{room}/messages/{message}")
            #expect(found.recordCount == 3)
            #expect(
                found.evidence.map { "\($0.column) \($0.type.rawValue) \($0.path) \($0.conversionErrors)" } == [
                    "value text . 0"
                ]
            )
            #expect(try infer(bench, "/rooms/{room}/messages/{message}", limit: 2).recordCount == 2)
            for path in ["/none", "/rooms/r1/messages/m1"] {
                #expect(throws: MirrorError.self) { try infer(bench, path) }
            }
            #expect(throws: MirrorError.self) { try infer(bench, "/bad.path") }
        }
    }

    @Test func pathsOfAllKindsAreLeftToTheRest() throws {
        try MirrorBench.with { bench in
            try bench.set("/v", #"{"a": {"x": 1, "odd": true}, "b": {"x": 2, "odd": 1}, "c": {"x": 3, "odd": "t"}}"#)
            let found = try infer(bench, "/v")
            #expect(found.definition.columns.map(\.name) == ["x"] && found.pathsLeftOut == ["/v/a/odd"])
        }
    }
}
