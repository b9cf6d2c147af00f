import Rules
import Testing
import Tree

/// Checks the properties of a read's query that rules see (security-rules 8).
@Suite struct QueryRuleTests {
    private func allows(_ expression: String, _ query: QueryContext) throws -> Bool {
        let rules = try rules("{\"rules\":{\".read\":\"\(expression)\"}}")
        return rules.mayRead(.root, query: query, root: .null, auth: .unauthenticated, now: 0).isAllowed
    }

    private func bound(_ value: Node, inclusive: Bool = true) -> Query.Bound {
        Query.Bound(value: .init(value), isInclusive: inclusive)
    }

    @Test func orders() throws {
        let flags = ["query.orderByKey", "query.orderByValue", "query.orderByPriority"]
        for (order, index) in [
            (QueryContext.Order.key, 0), (.value, 1), (.priority, 2), (.none, nil), (.child("a/b"), nil),
        ] as [(QueryContext.Order, Int?)] {
            let context = QueryContext(order: order)
            for (position, flag) in flags.enumerated() { #expect(try allows(flag, context) == (position == index)) }
            #expect(try allows("query.orderByChild == null", context) == (order != .child("a/b")))
            #expect(try allows("query.orderByChild == 'a/b'", context) == (order == .child("a/b")))
        }
    }

    @Test func boundsAndLimits() throws {
        let context = QueryContext(
            order: .value, startAt: .int(2), endAt: .string("x"), equalTo: .bool(true), limitToFirst: 5)
        for expression in [
            "query.startAt == 2", "query.endAt == 'x'", "query.equalTo == true", "query.limitToFirst <= 5",
            "query.limitToLast == null", "query.limitToFirst + 1 == 6",
        ] { #expect(try allows(expression, context), "\(expression)") }
        for expression in ["query.limitToFirst > 5", "query.limitToLast <= 5", "query.startAt > 'a'"] {
            #expect(try !allows(expression, context), "\(expression)")
        }
        for field in ["startAt", "endAt", "equalTo", "limitToFirst", "limitToLast"] {
            #expect(try allows("query.\(field) == null", .plain))
        }
    }

    /// A rule of a deployed file (PureBhaktiArchive/audioseva) needs a string method of a bound.
    @Test func boundsHaveTheMethodsOfStrings() throws {
        let context = QueryContext(order: .child("by/Mail"), startAt: .string("b"), equalTo: .string("Ada@X"))
        for expression in [
            "query.equalTo.toLowerCase() == 'ada@x'", "query.equalTo.toUpperCase() == 'ADA@X'",
            "query.equalTo.length == 5", "query.equalTo.matches(/^A.a@/)", "query.equalTo.contains('@')",
            "query.startAt.beginsWith('b')", "query.startAt.endsWith('b')", "query['equalTo']['length'] == 5",
            "query.equalTo.replace('@', '.') == 'Ada.X'", "query.equalTo.toLowerCase().contains('ada')",
        ] { #expect(try allows(expression, context), "\(expression)") }
        // The order is not a value.
        #expect(throws: RulesError.self) { try allows("query.orderByChild.length > 1", context) }
        // A value that is not a string has no length and no methods; neither has a missing field.
        let numbers = QueryContext(order: .value, startAt: .int(2), endAt: .bool(true), limitToFirst: 5)
        for expression in [
            "query.startAt.length == 1 || true", "query.endAt.toLowerCase() == 'true' || true",
            "query.limitToFirst.contains('5') || true", "query.equalTo.matches(/./) || true",
            "query.limitToLast.length == 0 || true",
        ] { #expect(try !allows(expression, numbers), "\(expression)") }
        #expect(try allows("query.equalTo == null || query.equalTo.length > 3", numbers))
    }

    @Test func queriesOfTheSocketAndOfREST() {
        // Without a query, there is no order on the socket, and the order is by key over REST.
        #expect(QueryContext(nil).order == .none && QueryContext.overREST(nil).order == .key)
        // With the order by priority, there is no explicit order on the socket, and a named one over REST.
        let limited = Query(limit: .first(3))
        #expect(QueryContext(limited).order == .key && QueryContext.overREST(limited).order == .priority)
        #expect(QueryContext(Query(index: .key)).order == .key)
        #expect(QueryContext.overREST(Query(index: .value)).order == .value)
        #expect(QueryContext.overREST(Query(index: .child("a/b"))).order == .child("a/b"))
        #expect(QueryContext(limited).limitToFirst == 3 && QueryContext(limited).limitToLast == nil)
        #expect(QueryContext(Query(limit: .last(4))).limitToLast == 4)
    }

    /// Both bounds at one value are an equality, unless one of them is exclusive.
    @Test func equalities() {
        let three = bound(.int(3))
        #expect(QueryContext(Query(index: .value, start: three, end: three)).equalTo == .int(3))
        #expect(QueryContext(Query(index: .value, start: three, end: bound(.int(4)))).equalTo == .null)
        #expect(QueryContext(Query(index: .value, start: three)).equalTo == .null)
        let outside = bound(.int(3), inclusive: false)
        #expect(QueryContext(Query(index: .value, start: outside, end: outside)).equalTo == .null)
        let null = bound(.null)
        #expect(QueryContext(Query(index: .value, start: null, end: null)).equalTo == .null)
        let keyed = Query.Bound(value: .init(.int(3)), key: Key("a"))
        #expect(QueryContext(Query(index: .value, start: keyed, end: keyed)).equalTo == .int(3))
        #expect(QueryContext(Query(index: .value, start: keyed, end: three)).equalTo == .null)
    }
}
