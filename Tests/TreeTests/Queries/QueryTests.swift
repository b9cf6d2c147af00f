import Testing
import Tree

/// Checks the children that queries select (reference: rtdb-protocol 3.1, 6.3).
struct QueryTests {
    typealias Bound = Query.Bound

    static let dinosaurs = """
        {"a":{"height":2,"name":"x"},"b":{"height":4},"c":{"height":"tall"},"d":{"name":"y"},"e":{"height":2},
         "f":{"height":true},"g":{"height":{"cm":1}},"h":7}
        """

    private func keys(_ query: Query, of text: String) throws -> String {
        query.select(from: try node(text)).keys.joined(separator: " ")
    }

    private func bound(_ value: Node, _ key: String? = nil, _ isInclusive: Bool = true) -> Bound {
        Bound(value: .init(value), key: key.map { Key($0) }, isInclusive: isInclusive)
    }

    private let height = Query.Index.child(path("height"))

    @Test func `by child: missing first, then booleans, numbers, strings, objects`() throws {
        func first(_ count: Int) throws -> String {
            try keys(Query(index: height, limit: .first(count)), of: Self.dinosaurs)
        }
        #expect(try first(1) == "d")
        #expect(try first(2) == "d h")
        #expect(try first(3) == "d f h")
        #expect(try first(4) == "a d f h")
        #expect(try first(5) == "a d e f h")
        #expect(try first(6) == "a b d e f h")
        #expect(try first(7) == "a b c d e f h")
        #expect(try first(100) == "a b c d e f g h")
        #expect(try keys(Query(index: height, limit: .last(2)), of: Self.dinosaurs) == "c g")
    }

    @Test func `by child: bounds, with and without a key`() throws {
        func select(_ start: Bound?, _ end: Bound?) throws -> String {
            try keys(Query(index: height, start: start, end: end), of: Self.dinosaurs)
        }
        #expect(try select(bound(.int(2)), bound(.int(2))) == "a e")
        #expect(try select(bound(.int(2), "b"), bound(.int(4))) == "b e")
        #expect(try select(bound(.int(2)), bound(.int(2), "b")) == "a")
        #expect(try select(bound(.int(2), "a", false), bound(.int(2))) == "e")
        #expect(try select(bound(.int(2)), bound(.int(2), "e", false)) == "a")
        #expect(try select(bound(.int(2), nil, false), nil) == "b c g")
        #expect(try select(nil, bound(.int(2), nil, false)) == "d f h")
        #expect(try select(bound(.double(1.5)), bound(.double(2.0))) == "a e")
        #expect(try select(bound(.null), bound(.null)) == "d h")
        #expect(try select(bound(.int(5)), bound(.int(2))) == "")
    }

    @Test(arguments: ["[MIN_NAME]", "[MIN_KEY]"], ["[MAX_NAME]", "[MAX_KEY]"])
    func `sentinels stand below and above all keys`(lowest: String, highest: String) throws {
        func select(_ start: Bound?, _ end: Bound?) throws -> String {
            try keys(Query(index: height, start: start, end: end), of: Self.dinosaurs)
        }
        #expect(try select(bound(.int(2), highest), nil) == "b c g")
        #expect(try select(bound(.int(2), highest, false), nil) == "b c g")
        #expect(try select(bound(.int(2), lowest), bound(.int(2))) == "a e")
        #expect(try select(nil, bound(.int(2), lowest)) == "d f h")
        #expect(try select(nil, bound(.int(2), lowest, false)) == "d f h")
        #expect(try select(nil, bound(.int(2), highest)) == "a d e f h")
        let text = #"{"1":1,"a":2,"b":3}"#
        for limit in [nil, Query.Limit.first(9), .last(9)] {
            func byKey(_ start: String?, _ end: String?) throws -> String {
                let start = start.map { bound(.string($0)) }
                let end = end.map { bound(.string($0)) }
                return try keys(Query(index: .key, start: start, end: end, limit: limit), of: text)
            }
            #expect(try byKey(lowest, highest) == "1 a b")
            #expect(try byKey(highest, nil) == "")
            #expect(try byKey(nil, lowest) == "")
        }
    }

    @Test func `by key: integers first, bounds, limits`() throws {
        let text = #"{"-1":1,"2":1,"10":1,"A":1,"a":1,"b":1,"😀":1,"～":1}"#
        func select(_ start: Bound?, _ end: Bound?, _ limit: Query.Limit? = nil) throws -> String {
            try keys(Query(index: .key, start: start, end: end, limit: limit), of: text)
        }
        #expect(try select(bound(.string("2")), bound(.string("a"))) == "2 10 A a")
        #expect(try select(bound(.string("2"), nil, false), bound(.string("a"), nil, false)) == "10 A")
        #expect(try select(bound(.string("3")), nil, .first(2)) == "10 A")
        #expect(try select(nil, bound(.string("aa")), .last(2)) == "A a")
        #expect(try select(nil, bound(.string("a"), nil, false), .last(2)) == "10 A")
        #expect(try select(nil, nil, .first(2)) == "-1 2")
        #expect(try select(nil, nil, .last(2)) == "😀 ～")
        #expect(try select(nil, nil, .last(0)) == "")
        #expect(try select(nil, nil, .first(0)) == "")
        #expect(try select(bound(.string("zz")), bound(.string("b"))) == "")
        #expect(try select(bound(.string("a ")), nil, .first(1)) == "b")
    }

    @Test func `by value and by priority`() throws {
        let values = #"{"a":3,"b":1,"c":"x","d":true,"e":{"z":1},"f":1}"#
        #expect(try keys(Query(index: .value, limit: .first(3)), of: values) == "b d f")
        #expect(try keys(Query(index: .value, start: bound(.int(1)), end: bound(.int(3))), of: values) == "a b f")
        #expect(try keys(Query(index: .value, limit: .last(1)), of: values) == "e")
        let priorities =
            #"{"a":{".value":1,".priority":"s"},"b":2,"c":{"x":1,".priority":5},"d":{".value":1,".priority":-1}}"#
        #expect(try keys(Query(limit: .first(1)), of: priorities) == "b")
        #expect(try keys(Query(limit: .first(2)), of: priorities) == "b d")
        #expect(try keys(Query(limit: .last(2)), of: priorities) == "a c")
        #expect(try keys(Query(start: bound(.int(-1)), end: bound(.int(5))), of: priorities) == "c d")
        #expect(try keys(Query(start: bound(.null), end: bound(.null)), of: priorities) == "b")
    }

    @Test func `a deep child path, and a priority as index`() throws {
        let text = #"{"a":{"x":{"y":2}},"b":{"x":{"y":1}},"c":{"x":{".value":0,".priority":1}}}"#
        #expect(try keys(Query(index: .child(path("x/y")), limit: .last(1)), of: text) == "a")
        #expect(try keys(Query(index: .child(path("x/y")), limit: .first(2)), of: text) == "b c")
        #expect(try keys(Query(index: .child(path("x/.priority")), limit: .last(1)), of: text) == "c")
    }

    @Test func `the selected view has the children's priorities but not the node's own`() throws {
        let value = try node(#"{"a":{".value":1,".priority":1},"b":2,".priority":9}"#)
        #expect(json(Query().select(from: value)) == #"{"a":{".value":1,".priority":1},"b":2}"#)
        #expect(json(Query(limit: .last(1)).select(from: value)) == #"{"a":{".value":1,".priority":1}}"#)
        #expect(Query(limit: .last(1)).select(from: .int(3)).isNull)
        #expect(Query().select(from: Node.int(3).withPriority(.int(1))).isNull)
        #expect(Query(limit: .last(1)).select(from: .null).isNull)
    }

    @Test func `a query reports whether it admits a child`() throws {
        let query = Query(index: .value, start: bound(.int(2)), end: bound(.int(4), nil, false), limit: .first(1))
        #expect(!query.admits(Key("a"), .int(1)))
        #expect(query.admits(Key("a"), .int(2)))
        #expect(query.admits(Key("a"), .double(3.5)))
        #expect(!query.admits(Key("a"), .int(4)))
        #expect(Query().selectsAll && !query.selectsAll)
    }

    @Test func `equal queries hash alike`() {
        let one = Query(index: height, start: bound(.double(1.5), "k"), limit: .last(3))
        let other = Query(index: .child(Path([Key("height")])), start: bound(.double(1.5), "k"), limit: .last(3))
        #expect(one == other)
        #expect(one.hashValue == other.hashValue)
        #expect(one != Query(index: height, start: bound(.double(1.5), "k", false), limit: .last(3)))
        #expect(one != Query(index: height, end: bound(.double(1.5), "k"), limit: .last(3)))
    }
}
