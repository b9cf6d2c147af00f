import Testing
import Tree

/// Checks the value order (reference: rtdb-protocol 6.3).
struct ValueOrderTests {
    /// Groups of values that sort alike, and before all later groups.
    static let ascending: [[Node]] = [
        [.null],
        [.bool(false), Node.bool(false).withPriority(.int(9))],
        [.bool(true)],
        [.double(-.greatestFiniteMagnitude)],
        [.double(-9_223_372_036_854_777_856)],
        [.int(.min), .double(-9_223_372_036_854_775_808)],
        [.int(.min + 1)],
        [.int(-9_007_199_254_740_993)],
        [.int(-9_007_199_254_740_992), .double(-9_007_199_254_740_992)],
        [.int(-2)],
        [.double(-1.5)],
        [.int(-1)],
        [.double(-.leastNonzeroMagnitude)],
        [.int(0), .double(0), .double(-0.0)],
        [.double(0.5)],
        [.int(1), Node.int(1).withPriority(.string("p"))],
        [.double(1.5)],
        [.int(9_007_199_254_740_992), .double(9_007_199_254_740_992)],
        [.int(9_007_199_254_740_993)],
        [.int(9_007_199_254_740_994), .double(9_007_199_254_740_994)],
        [.int(9_223_372_036_854_774_784), .double(9_223_372_036_854_774_784)],
        [.int(.max)],
        [.double(9_223_372_036_854_775_808)],
        [.double(1e300)],
        [.string("")],
        [.string("10")],
        [.string("9")],
        [.string("A")],
        [.string("a")],
        [.string("aa")],
        [.string("e\u{301}")],
        [.string("é")],
        [.string("😀")],
        [.string("\u{FF5E}")],
        [Node(children: [(Key("z"), .int(1))]), Node(children: [(Key("a"), .int(2))], priority: .int(1))],
    ]

    @Test func `the order is total and exact`() {
        for (first, group) in Self.ascending.enumerated() {
            for left in group {
                for (second, others) in Self.ascending.enumerated() {
                    for right in others {
                        let order = ValueOrder.compare(left, right).signum()
                        #expect(order == (first - second).signum(), "\(json(left)) \(json(right))")
                    }
                }
            }
        }
    }
}
