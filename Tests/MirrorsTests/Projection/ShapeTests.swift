import Testing
import Tree

@testable import Mirrors

/// Tests of the shape of data without a schema: records, collections of records, sets, coordinates.
@Suite struct ShapeTests {
    private static func node(_ text: String) throws -> Node { try JSONParser.parse(Array(text.utf8)).node }

    private static let pushID = "-OJ4kfpOl1xGmXKBQoeb"

    @Test(arguments: [
        ("name", KeyKind.name), ("starCount", .name), ("0", .number), ("1742", .number), ("-5", .name),
        (pushID, .pushID),
        ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", .uuid), ("2026-01-31", .date), ("2026-01", .date), ("2026-W05", .date),
        ("20260131", .number), ("aBcD1234eFgH5678iJkL9012mN34", .token), ("deadbeef00112233", .token),
        ("notificationSettingsOfTheUser", .name),
        ("", .name), ("ключ", .name), ("address2", .name),
    ]) func kinds(_ key: String, _ kind: KeyKind) {
        #expect(KeyKind(key) == kind)
    }

    @Test(arguments: [
        (["1", "\"x\""], Shape.leaf), (["1", "2", "{\"a\":1}"], .leaf),
        ([#"{"a":true}"#, #"{"b":true,"c":true}"#], .set),
        ([#"["x","y"]"#, #"["z"]"#], .set),
        // A flag that many values have is a field.
        ([#"{"online":true}"#, #"{"online":true}"#, #"{"online":true}"#], .record),
        ([#"{"type":"Point","coordinates":[1,2]}"#], .json), (["[1.5,2.5]", "[3,4]"], .json),
        (["[[1,2],[3,4]]", "[[5,6]]"], .json),
        (["[1,2,3]", "[1]"], .collection(.index)), ([#"[{"sku":"a"},{"sku":"b"}]"#], .collection(.index)),
        ([#"{"\#(pushID)":{"t":1}}"#], .collection(.other)), ([#"{"17":{"t":1},"4711":{"t":1}}"#], .collection(.other)),
        ([#"{"2026-01-31":3,"2026-02-01":4}"#], .collection(.date)),
        ([#"{"name":"x","age":1}"#, #"{"name":"y"}"#], .record),
        // Names that are keys: their children are similar, and differ between values.
        ([#"{"ada":{"n":1,"m":2},"bob":{"n":2,"m":1},"cyd":{"n":1}}"#], .collection(.other)),
        // Names that are fields: the same in each value.
        ([#"{"home":{"n":1},"work":{"n":2}}"#, #"{"home":{"n":3},"work":{"n":4}}"#, #"{"home":{"n":1}}"#], .record),
        ([#"{"m1":"a","m2":"b"}"#, #"{"m3":"c"}"#], .collection(.other)), ([#"{"theme":"dark","size":5}"#], .record),
    ]) func shapes(_ values: [String], _ shape: Shape) throws {
        #expect(try Shape(values.map(Self.node)) == shape)
    }

    @Test(arguments: [
        (
            "/orders",
            #"{"a":{"total":"9.50","items":[{"sku":"x","n":1},{"sku":"y","n":2}]},"b":{"total":"1.00","items":[{"sku":"z"}]}}"#,
            [
                "orders /orders/{order_id}: total numeric",
                "order_items /orders/{order_id}/items/{item_index}: n bigint, sku text",
            ]
        ),
        (
            "/messages", #"{"r1":{"\#(pushID)":{"t":"hi"}},"r2":{"\#(pushID)":{"t":"ho"}}}"#,
            ["messages /messages/{group_id}/{message_id}: t text"]
        ),
        (
            "/places",
            #"{"a":{"at":{"type":"Point","coordinates":[1,2]}},"b":{"at":{"type":"Point","coordinates":[3,4]}}}"#,
            [
                "places /places/{place_id}: at jsonb"
            ]
        ),
        (
            "/scores", #"{"a":{"marks":[1,2,3]},"b":{"marks":[1]}}"#,
            ["score_marks /scores/{score_id}/marks/{mark_index}: value bigint"]
        ),
        ("/likes", #"{"p1":{"ada":true,"bob":true},"p2":{"cyd":true}}"#, ["likes /likes/{like_id}: value text[]"]),
    ]) func proposals(_ path: String, _ tree: String, _ expected: [String]) throws {
        var inference = TreeInference(limit: 1_000)
        inference.takeChildren(of: try Self.node(tree), at: Path(splitting: path))
        #expect(inference.proposals.map(Self.text) == expected)
    }

    private static func text(_ inference: Inference) -> String {
        let columns = inference.definition.columns.map { "\($0.name) \($0.type.rawValue)" }.joined(separator: ", ")
        return "\(inference.definition.table) \(inference.definition.pattern): \(columns)"
    }

    @Test func aWholeTree() throws {
        var inference = TreeInference(limit: 1_000)
        inference.takeWhole(
            try Self.node(
                #"{"typing":{"lobby":{"ada":5,"bob":6},"attic":{"cyd":7}},"lists":{"1-a":[{"a":1,"b":1}],"2-b":[{"c":1,"d":1}]},"visits":{"2026-01-31":{"17":1}},"config":{"theme":"dark"},"app":{"users":{"ada":{"name":"A","age":1},"bob":{"name":"B","age":2}}},"rooms":{"lobby":{"title":"L","open":true},"attic":{"title":"A","open":false}},"messages":{"lobby":{"\#(Self.pushID)":{"t":"x"}},"attic":{"\#(Self.pushID)":{"t":"y"}}}}"#
            ))
        #expect(
            inference.proposals.map(Self.text) == [
                "users /app/users/{user_id}: age bigint, name text",
                "1_a /lists/1-a/{1_a_index}: a bigint, b bigint", "2_b /lists/2-b/{2_b_index}: c bigint, d bigint",
                "messages /messages/{room_id}/{message_id}: t text",
                "rooms /rooms/{room_id}: open boolean, title text",
                "typing /typing/{room_id}/{typing_id}: value bigint", "visits /visits/{date}/{visit_id}: value bigint",
            ])
    }

    /// Checks that data of a few people under their names in many paths is not given a column per person.
    @Test(arguments: [
        (
            #""lastRead":{"ada":5,"bob":6}"#, #""lastRead":{"bob":7}"#,
            "doc_last_read /docs/{doc_id}/lastRead/{user_id}: value bigint"
        ),
        // All of the people in each path, like the fields of a record.
        (
            #""votes":{"ada":"up","bob":"down","cyd":"up"}"#, #""votes":{"ada":"up","bob":"up","cyd":"down"}"#,
            "doc_votes /docs/{doc_id}/votes/{user_id}: value text"
        ),
        (
            #""perms":{"ada":{"read":true,"write":false}}"#, #""perms":{"ada":{"read":true}}"#,
            "doc_perms /docs/{doc_id}/perms/{user_id}: read boolean, write boolean"
        ),
    ]) func aSmallTeam(_ one: String, _ other: String, _ expected: String) throws {
        var inference = TreeInference(limit: 1_000)
        inference.takeWhole(
            try Self.node(
                #"{"docs":{"d1":{"title":"x",\#(one)},"d2":{"title":"y",\#(other)}},"users":{"ada":{"name":"A"},"bob":{"name":"B"},"cyd":{"name":"C"}}}"#
            ))
        #expect(
            inference.proposals.map(Self.text) == [
                "docs /docs/{doc_id}: title text", expected, "users /users/{user_id}: name text",
            ])
    }

    @Test func setsOfKnownKeysStaySets() throws {
        let users = try Self.node(#"{"users":{"ada":{"name":"A"},"bob":{"name":"B"},"cyd":{"name":"C"}}}"#)
        let known = KnownCollections(in: users)
        let sets = try [#"{"ada":true,"bob":true}"#, #"{"ada":true,"bob":true}"#].map(Self.node)
        #expect(Shape(sets, among: known) == .set && Shape(sets) == .record)
        // Some keys may have been removed: four of five exist.
        #expect(known.name(of: [Key("ada"), Key("bob"), Key("cyd")]) == "user")
        #expect(known.name(of: [Key("ada"), Key("bob"), Key("eve")]) == nil && known.name(of: []) == nil)
    }

    @Test func namesThatDifferAmongBranchesAreKeys() throws {
        let names = ["ada", "bob", "cyd", "dee"]
        let branches = { (value: String) in
            try (0..<8).map { position in
                let there = names.indices.filter { $0 != position % 4 }.map { "\"\(names[$0])\":\(value)" }
                return try Self.node("{\(there.joined(separator: ","))}")
            }
        }
        #expect(try Shape(branches("1")) == .collection(.other) && Shape(branches(#"{"n":1}"#)) == .collection(.other))
        // Optional text fields have the same shape.
        #expect(try Shape(branches("\"x\"")) == .record)
        // A name that is nearly everywhere is a field.
        let fields = try (0..<8).map { try Self.node("{\"x\":1,\"y\":2\($0 == 3 ? "" : ",\"z\":3")}") }
        #expect(Shape(fields) == .record)
    }

    /// Checks that many records with different subsets of many fields form one collection instead of a table each.
    @Test(arguments: [(19, 19), (20, 1), (85, 1)]) func irregularRecords(count: Int, tables: Int) throws {
        let records = (0..<count).map { number in
            let fields = (0..<4).map { field in "\"f\((number * 5 + field * 7) % 11)\":\(number)" }
            return
                "\"thing \(Self.word(number))\":{\(fields.joined(separator: ",")),\"own\(Self.word(number))\":{\"x\":1}}"
        }
        var inference = TreeInference(limit: 1_000)
        inference.takeWhole(try Self.node("{\"things\":{\(records.joined(separator: ","))}}"))
        let patterns = Set(inference.proposals.map(\.definition.pattern.description))
        #expect(tables > 1 ? !patterns.contains("/things/{thing_id}") : patterns == ["/things/{thing_id}"])
    }

    /// Returns a name of letters only, because names with numbers count as keys.
    private static func word(_ number: Int) -> String {
        let letters = Array("abcdefghijklmnopqrstuvwxyz")
        return "\(letters[number / 26])\(letters[number % 26])"
    }

    /// Checks that sections of settings are records of different kinds.
    @Test func sectionsOfSettings() throws {
        let sections = (0..<40).map { number in
            let word = Self.word(number)
            return "\"section \(word)\":{\"first \(word)\":1,\"second \(word)\":true,\"third \(word)\":\"x\"}"
        }
        #expect(Shape([try Self.node("{\(sections.joined(separator: ","))}")]) == .record)
    }

    @Test func evidenceNamesPaths() throws {
        var inference = TreeInference(limit: 1_000)
        let others = (1...48).map { ",\"d\($0)\":{\"n\":\($0)}" }.joined()
        inference.takeChildren(
            of: try Self.node(#"{"a":{"n":1,"t":"x"},"c":{"n":"many"}\#(others)}"#), at: Path(splitting: "/v"))
        let found = try #require(inference.proposals.first)
        #expect(found.example == "/v/a")
        let n = try #require(found.evidence.first { $0.column == "n" })
        #expect(
            n.conversionErrors == 1 && n.conversionErrorExamples == ["/v/c/n"] && n.example == "/v/a/n"
                && n.present == 50)
        #expect(found.evidence.first { $0.column == "t" }?.present == 1)
    }

    @Test func whatAllHaveIsNotNull() throws {
        let records = (0..<20).map {
            "\"k\($0)\":{\"always\":1,\"odd\":\($0 == 7 ? "\"x\"" : "2")\($0 == 3 ? "" : ",\"mostly\":1")}"
        }
        for (count, expected) in [(20, ["always", "odd"]), (19, [])] as [(Int, [String])] {
            var inference = TreeInference(limit: count)
            inference.takeChildren(of: try Self.node("{\(records.joined(separator: ","))}"), at: Path(splitting: "/v"))
            let columns = try #require(inference.proposals.first).definition.columns
            #expect(columns.filter { $0.notNull == .error }.map(\.name) == expected)
            #expect(columns.count == 3)
        }
    }

    @Test func keysHaveTheirTypes() throws {
        var inference = TreeInference(limit: 10)
        inference.takeChildren(of: try Self.node(#"{"17":{"n":1},"4711":{"n":1}}"#), at: Path(splitting: "/v"))
        inference.takeChildren(
            of: try Self.node(#"{"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11":{"n":1}}"#), at: Path(splitting: "/w"))
        inference.takeChildren(of: try Self.node(#"{"17":{"n":1},"007":{"n":1}}"#), at: Path(splitting: "/x"))
        inference.takeChildren(
            of: try Self.node(#"{"2026-01-31":{"n":1},"2024-02-29":{"n":1}}"#), at: Path(splitting: "/y"))
        inference.takeChildren(
            of: try Self.node(#"{"2026-01-31":{"n":1},"2026-02":{"n":1}}"#), at: Path(splitting: "/z"))
        #expect(
            inference.proposals.map { $0.definition.keys.map(\.type) } == [
                [.bigint], [.uuid], [.text], [.date], [.text],
            ])
    }
}
