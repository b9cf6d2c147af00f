/// How values sort: null, false, true, numbers, strings by UTF-16, objects (all alike). Priorities sort the same way
/// (reference: rtdb-protocol 6.3).
public enum ValueOrder {
    /// Negative, zero or positive as the first value sorts before, with or after the second. A leaf's own priority is ignored.
    public static func compare(_ left: Node, _ right: Node) -> Int {
        switch (left, right) {
        case (.int(let first), .int(let second)): first < second ? -1 : (first > second ? 1 : 0)
        case (.double(let first), .double(let second)): first < second ? -1 : (first > second ? 1 : 0)
        case (.int(let first), .double(let second)): compare(first, second)
        case (.double(let first), .int(let second)): -compare(second, first)
        case (.string(let first), .string(let second)): first.codeUnitOrder(against: second)
        case (.prioritized(let first), _): compare(first.value, right)
        case (_, .prioritized(let second)): compare(left, second.value)
        default: rank(left) - rank(right)
        }
    }

    private static func rank(_ node: Node) -> Int {
        switch node {
        case .null: 0
        case .bool(false): 1
        case .bool(true): 2
        case .int, .double: 3
        case .string: 4
        case .branch, .prioritized, .serverValue: 5
        }
    }

    /// Exact: an integer beyond 2^53 is not rounded to the double's grid.
    private static func compare(_ integer: Int64, _ double: Double) -> Int {
        if double >= 9_223_372_036_854_775_808 { return -1 }
        if double < -9_223_372_036_854_775_808 { return 1 }
        // Truncated, and without the C library's rounding, which would have to be linked for it.
        let whole = Int64(double)
        if integer != whole { return integer < whole ? -1 : 1 }
        let rest = double - Double(whole)
        return rest > 0 ? -1 : (rest < 0 ? 1 : 0)
    }
}
