internal import ClientCore
internal import Foundation
internal import Tree

/// A query under construction, with the checks against contradictory calls.
struct QueryBuilder: Sendable, Equatable {
    private(set) var query = Query()
    private var hasOrder = false

    // MARK: Order

    func ordered(by index: Query.Index) throws(InvalidArgument) -> QueryBuilder {
        guard !hasOrder else { throw InvalidArgument("the query already has an order") }
        var copy = self
        copy.query.index = index
        copy.hasOrder = true
        try copy.checkBounds()
        return copy
    }

    func ordered(byChild name: String) throws(InvalidArgument) -> QueryBuilder {
        switch name {
        case "$key", ".key": throw InvalidArgument("use queryOrderedByKey()")
        case "$value", ".value": throw InvalidArgument("use queryOrderedByValue()")
        case "$priority", ".priority": throw InvalidArgument("use queryOrderedByPriority()")
        default: break
        }
        let path = try PathText.path(name)
        guard !path.isRoot, !path.isInfo else { throw InvalidArgument("\"\(name)\" is not the path of a child") }
        return try ordered(by: .child(path))
    }

    // MARK: Bounds

    func starting(at value: Any?, key: String?, isInclusive: Bool) throws(InvalidArgument) -> QueryBuilder {
        guard query.start == nil else { throw InvalidArgument("the query already has a start") }
        var copy = self
        copy.query.start = try bound(value, key, isInclusive: isInclusive)
        try copy.checkBounds()
        return copy
    }

    func ending(at value: Any?, key: String?, isInclusive: Bool) throws(InvalidArgument) -> QueryBuilder {
        guard query.end == nil else { throw InvalidArgument("the query already has an end") }
        var copy = self
        copy.query.end = try bound(value, key, isInclusive: isInclusive)
        try copy.checkBounds()
        return copy
    }

    func equal(to value: Any?, key: String?) throws(InvalidArgument) -> QueryBuilder {
        try starting(at: value, key: key, isInclusive: true).ending(at: value, key: key, isInclusive: true)
    }

    private func bound(_ value: Any?, _ key: String?, isInclusive: Bool) throws(InvalidArgument) -> Query.Bound {
        let node = try NodeReader.node(of: value, at: .root)
        switch node {
        case .null, .bool, .int, .double, .string: break
        default: throw InvalidArgument("a bound must be null, a Boolean, a number or a string")
        }
        if let key {
            guard KeyRules.violation(in: Key(key)) == nil else { throw InvalidArgument("\"\(key)\" is not a key") }
        }
        return Query.Bound(value: .init(node), key: key.map(Key.init), isInclusive: isInclusive)
    }

    /// Checks the bounds: with the order by key, they must be keys without a `childKey`; with the order by priority, they
    /// must be possible priorities.
    private func checkBounds() throws(InvalidArgument) {
        for bound in [query.start, query.end] {
            guard let bound else { continue }
            switch query.index {
            case .key:
                guard case .string = bound.value.node, bound.key == nil else {
                    throw InvalidArgument("a query that is ordered by key takes strings as bounds, and no childKey")
                }
            case .priority:
                if case .bool = bound.value.node {
                    throw InvalidArgument("a query that is ordered by priority takes numbers and strings as bounds")
                }
            case .value, .child: break
            }
        }
    }

    // MARK: Limit

    func limited(to limit: Query.Limit) throws(InvalidArgument) -> QueryBuilder {
        guard query.limit == nil else { throw InvalidArgument("the query already has a limit") }
        let count =
            switch limit {
            case .first(let count), .last(let count): count
            }
        guard count > 0, count <= Int(Int32.max) else { throw InvalidArgument("a limit is at least 1 and below 2^31") }
        var copy = self
        copy.query.limit = limit
        return copy
    }
}
