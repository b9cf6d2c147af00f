internal import Tree

extension Query {
    /// Whether a child may be within the bounds of both: what one of the same order has loaded is nothing for the other where
    /// they lie apart.
    func mayShareChildren(with other: Query) -> Bool {
        guard index == other.index else { return true }
        return !isLater(start, than: other.end) && !isLater(other.start, than: end)
    }

    /// Whether all that this query selects is among what another one has loaded, whatever the data: the order is the
    /// same, the bounds lie within the other's, and no limit of the other's cuts anything off.
    ///
    /// - Parameter count: how many children the other has loaded. Fewer than its limit are all within its bounds.
    func isServed(by other: Query, thatHasLoaded count: @autoclosure () -> Int) -> Bool {
        guard index == other.index else { return false }
        let startsWithin = other.start == nil || start == other.start || isLater(start, than: other.start)
        let endsWithin = other.end == nil || end == other.end || isLater(other.end, than: end)
        guard startsWithin, endsWithin else { return false }
        switch other.limit {
        case nil: return true
        case .first(let most) where count() < most, .last(let most) where count() < most: return true
        case .first(let most):
            guard case .first(let wanted) = limit else { return false }
            return wanted <= most && start == other.start
        case .last(let most):
            guard case .last(let wanted) = limit else { return false }
            return wanted <= most && end == other.end
        }
    }

    /// Whether a bound's value is strictly behind another's. Equal values with other keys are left out: they are rare.
    private func isLater(_ bound: Bound?, than other: Bound?) -> Bool {
        guard let bound, let other else { return false }
        if index == .key {
            guard case .string(let first) = bound.value.node, case .string(let second) = other.value.node else {
                return false
            }
            // The names of the least and the greatest key are no keys.
            guard first.utf8.first != UInt8(ascii: "["), second.utf8.first != UInt8(ascii: "[") else { return false }
            return Key(second) < Key(first)
        }
        return ValueOrder.compare(other.value.node, bound.value.node) < 0
    }
}
