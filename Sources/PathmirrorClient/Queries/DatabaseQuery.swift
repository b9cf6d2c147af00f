internal import ClientCore
internal import Tree

/// A query: a path of a database with an order, bounds and a limit. Immutable; safe to use from any thread.
///
/// Invalid calls, such as a second order or a path that contains `.`, terminate the process with a message that names the call,
/// like programming errors elsewhere in Swift. Firebase's SDK raises an exception.
// Immutable: the stored properties are constants of Sendable types, and the only subclass, in this module, has none.
public class DatabaseQuery: @unchecked Sendable {
    /// The database of the query.
    let owner: Database
    let path: Path
    let builder: QueryBuilder

    init(owner: Database, path: Path, builder: QueryBuilder = QueryBuilder()) {
        self.owner = owner
        self.path = path
        self.builder = builder
    }

    /// Creates a query of the root of the default database (`Database.database()`).
    public convenience init() { self.init(owner: Database.database(), path: .root) }

    /// The reference to the query's path.
    public var ref: DatabaseReference { DatabaseReference(owner: owner, path: path) }

    var spec: QuerySpec { QuerySpec(path: path, query: builder.query) }

    /// Sets whether the query's data is kept in sync with the server even without listeners, and is never evicted from the disk cache.
    public func keepSynced(_ keepSynced: Bool) {
        let spec = spec
        owner.repository.perform { $0.setKeptSynced(spec, keepSynced) }
    }

    private func refined(
        _ function: String, _ body: (QueryBuilder) throws(InvalidArgument) -> QueryBuilder
    ) -> DatabaseQuery {
        let builder = Misuse.check(function) { () throws(InvalidArgument) in try body(self.builder) }
        return DatabaseQuery(owner: owner, path: path, builder: builder)
    }
}

// MARK: - Order

extension DatabaseQuery {
    /// Returns a query that orders the children by the values at a path below them: children without a value first, then false,
    /// true, numbers, strings, objects.
    public func queryOrdered(byChild key: String) -> DatabaseQuery {
        refined("queryOrdered(byChild:)") { (builder) throws(InvalidArgument) in try builder.ordered(byChild: key) }
    }

    /// Returns a query that orders the children by key: integers first, by value, then the other keys by UTF-16.
    public func queryOrderedByKey() -> DatabaseQuery {
        refined("queryOrderedByKey()") { (builder) throws(InvalidArgument) in try builder.ordered(by: .key) }
    }

    /// Returns a query that orders the children by their own values.
    public func queryOrderedByValue() -> DatabaseQuery {
        refined("queryOrderedByValue()") { (builder) throws(InvalidArgument) in try builder.ordered(by: .value) }
    }

    /// Returns a query that orders the children by priority, which is also the default order.
    public func queryOrderedByPriority() -> DatabaseQuery {
        refined("queryOrderedByPriority()") { (builder) throws(InvalidArgument) in try builder.ordered(by: .priority) }
    }
}

// MARK: - Limit

extension DatabaseQuery {
    /// Returns a query for the first children in the order.
    public func queryLimited(toFirst limit: UInt) -> DatabaseQuery {
        refined("queryLimited(toFirst:)") { (builder) throws(InvalidArgument) in
            try builder.limited(to: .first(Int(clamping: limit)))
        }
    }

    /// Returns a query for the last children in the order.
    public func queryLimited(toLast limit: UInt) -> DatabaseQuery {
        refined("queryLimited(toLast:)") { (builder) throws(InvalidArgument) in
            try builder.limited(to: .last(Int(clamping: limit)))
        }
    }
}

// MARK: - Bounds

extension DatabaseQuery {
    /// Returns a query for the children whose value in the order is at least this value: null, a Boolean, a number or a string.
    public func queryStarting(atValue startValue: Any?) -> DatabaseQuery {
        queryStarting(atValue: startValue, childKey: nil)
    }

    /// Returns a query for the children from this value on. Of the children with this value, it selects those with at
    /// least the key `childKey`.
    public func queryStarting(atValue startValue: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryStarting(atValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.starting(at: startValue, key: childKey, isInclusive: true)
        }
    }

    /// Returns a query for the children whose value in the order is greater than this value.
    public func queryStarting(afterValue startAfterValue: Any?) -> DatabaseQuery {
        queryStarting(afterValue: startAfterValue, childKey: nil)
    }

    /// Returns a query for the children above this value, and for those with this value and a greater key than `childKey`.
    public func queryStarting(afterValue startAfterValue: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryStarting(afterValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.starting(at: startAfterValue, key: childKey, isInclusive: false)
        }
    }

    /// Returns a query for the children whose value in the order is at most this value.
    public func queryEnding(atValue endValue: Any?) -> DatabaseQuery {
        queryEnding(atValue: endValue, childKey: nil)
    }

    /// Returns a query for the children up to this value. Of the children with this value, it selects those with at
    /// most the key `childKey`.
    public func queryEnding(atValue endValue: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryEnding(atValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.ending(at: endValue, key: childKey, isInclusive: true)
        }
    }

    /// Returns a query for the children whose value in the order is less than this value.
    public func queryEnding(beforeValue endValue: Any?) -> DatabaseQuery {
        queryEnding(beforeValue: endValue, childKey: nil)
    }

    /// Returns a query for the children below this value, and for those with this value and a smaller key than `childKey`.
    public func queryEnding(beforeValue endValue: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryEnding(beforeValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.ending(at: endValue, key: childKey, isInclusive: false)
        }
    }

    /// Returns a query for the children that have this value in the order.
    public func queryEqual(toValue value: Any?) -> DatabaseQuery { queryEqual(toValue: value, childKey: nil) }

    /// Returns a query for the child with this key, if it has this value in the order.
    public func queryEqual(toValue value: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryEqual(toValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.equal(to: value, key: childKey)
        }
    }
}

extension DatabaseQuery: Equatable, Hashable {
    /// Returns whether both queries select the same data of the same database.
    public static func == (left: DatabaseQuery, right: DatabaseQuery) -> Bool {
        left.owner === right.owner && left.path == right.path && left.builder.query == right.builder.query
    }

    /// Hashes the path and the query.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(path)
        hasher.combine(builder.query)
    }
}

extension DatabaseQuery {
    /// Requests the server's current value once. Without a connection, `block` receives the local value from a listener or from
    /// disk, or an error if there is none.
    ///
    /// - Parameter block: Runs once, on the callback queue.
    public func getData(completion block: @escaping ((any Error)?, DataSnapshot?) -> Void) {
        owner.repository.get(GetRequest(query: self, completion: block))
    }

    /// Returns the server's current value, or without a connection the local value. Throws `CancellationError` as soon
    /// as the task is cancelled.
    public func getData() async throws -> DataSnapshot {
        try await Answer.wait { answer in
            getData { error, snapshot in
                if let snapshot {
                    answer.give(.success(snapshot))
                } else {
                    answer.give(.failure(error ?? DatabaseError(.unknown, "The server did not answer.")))
                }
            }
        }
    }
}
