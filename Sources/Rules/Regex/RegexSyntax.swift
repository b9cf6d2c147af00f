/// A regular expression as a tree. The functions that build trees keep them simple: a counted repetition at least doubles the
/// repeated item, which bounds the depth of trees, together with the limit of their size.
indirect enum RegexSyntax: Equatable {
    /// The empty text.
    case empty
    /// No text, not even the empty one.
    case nothing
    /// One unit of the set, which is not empty.
    case units(UnitSet)
    /// At least two items, none of which is empty or nothing.
    case sequence([RegexSyntax])
    /// At least two branches, none of which is nothing.
    case choice([RegexSyntax])
    /// `high` is nil if there is no upper bound.
    case repeated(RegexSyntax, low: Int, high: Int?)

    static func set(_ units: UnitSet) -> RegexSyntax { units.isEmpty ? .nothing : .units(units) }

    static func joined(_ items: [RegexSyntax]) -> RegexSyntax {
        if items.contains(.nothing) { return .nothing }
        let items = items.filter { $0 != .empty }
        return items.isEmpty ? .empty : items.count == 1 ? items[0] : .sequence(items)
    }

    static func either(_ branches: [RegexSyntax]) -> RegexSyntax {
        let branches = branches.filter { $0 != .nothing }
        if branches.isEmpty { return .nothing }
        var ranges: [ClosedRange<UInt16>] = []
        for branch in branches {
            guard case .units(let units) = branch else { return branches.count == 1 ? branch : .choice(branches) }
            ranges += units.ranges
        }
        return .units(UnitSet(ranges))
    }

    func repeating(_ low: Int, _ high: Int?) -> RegexSyntax {
        if let high, high < low { return .nothing }
        switch self {
        case _ where high == 0, .empty: return .empty
        case .nothing: return low == 0 ? .empty : .nothing
        case _ where low == 1 && high == 1: return self
        case .repeated(let inner, let first, let last) where Self.isPlain(first, last) && Self.isPlain(low, high):
            return .repeated(inner, low: first * low, high: last == 1 && high == 1 ? 1 : nil)
        default: return .repeated(self, low: low, high: high)
        }
    }

    /// Whether the bounds are those of `?`, `*` or `+`.
    private static func isPlain(_ low: Int, _ high: Int?) -> Bool { low <= 1 && (high == nil || high == 1) }

    /// Returns the approximate number of instructions of the tree with its repetitions written out, at most `limit` + 1.
    func size(limit: Int) -> Int {
        func bounded(_ items: [RegexSyntax], _ extra: Int) -> Int {
            var total = 0
            for item in items {
                total += item.size(limit: limit) + extra
                if total > limit { return limit + 1 }
            }
            return total
        }
        switch self {
        case .empty, .nothing: return 1
        case .units(let units): return UnitPairs(units).size
        case .sequence(let items): return bounded(items, 0)
        case .choice(let branches): return bounded(branches, 1)
        case .repeated(let item, let low, let high):
            let size = item.size(limit: limit)
            let copies = size.multipliedReportingOverflow(by: max(low, high ?? 0, 1))
            let branches = copies.partialValue.addingReportingOverflow((high ?? low + 1) - low)
            return copies.overflow || branches.overflow ? limit + 1 : min(branches.partialValue, limit + 1)
        }
    }

    /// Returns the tree without the parts that are unnecessary if any text may follow it (or precede it, with `atStart`).
    func trimmed(atStart: Bool) -> RegexSyntax {
        switch self {
        case .empty, .nothing, .units: return self
        case .sequence(var items):
            // An index, because removing the first item moves all others.
            var edge = atStart ? 0 : items.count - 1
            while items.indices.contains(edge) {
                let trimmed = items[edge].trimmed(atStart: atStart)
                items[edge] = trimmed
                if trimmed != .empty { break }
                edge += atStart ? 1 : -1
            }
            guard items.indices.contains(edge) else { return .empty }
            return .joined(Array(atStart ? items[edge...] : items[...edge]))
        case .choice(let branches):
            let trimmed = branches.map { $0.trimmed(atStart: atStart) }
            return trimmed.contains(.empty) ? .empty : .either(trimmed)
        case .repeated(let item, let low, _):
            return low == 1 ? item.trimmed(atStart: atStart) : item.repeating(low, low)
        }
    }
}
