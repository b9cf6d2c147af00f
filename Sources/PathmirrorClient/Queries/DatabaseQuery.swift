internal import ClientCore
internal import Tree

/// A place of a database and what of it is asked for: its order, its bounds and its limit. Immutable; safe to use from any
/// thread.
///
/// Calls that can't be meant, such as a second order or a path with a `.` in it, end the process with a message that names
/// the call, as other programmers' errors do in Swift; the vendor's SDK raises an exception there.
// Immutable: its stored properties are constants of Sendable types, and its one subclass, of this module, has none.
public class DatabaseQuery: @unchecked Sendable {
    /// The database that it belongs to.
    let owner: Database
    let path: Path
    let builder: QueryBuilder

    init(owner: Database, path: Path, builder: QueryBuilder = QueryBuilder()) {
        self.owner = owner
        self.path = path
        self.builder = builder
    }

    /// The root of the default database (`Database.database()`).
    public convenience init() { self.init(owner: Database.database(), path: .root) }

    /// The reference to the query's place.
    public var ref: DatabaseReference { DatabaseReference(owner: owner, path: path) }

    var spec: QuerySpec { QuerySpec(path: path, query: builder.query) }

    /// Keeps what the query selects in sync with the server, also while nobody listens, and never drops it from the cache on
    /// disk.
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
    /// The children by the values at a path below them: those without one first, then false, true, numbers, strings, objects.
    public func queryOrdered(byChild key: String) -> DatabaseQuery {
        refined("queryOrdered(byChild:)") { (builder) throws(InvalidArgument) in try builder.ordered(byChild: key) }
    }

    /// The children by their keys: integers first, by value, then the others by UTF-16.
    public func queryOrderedByKey() -> DatabaseQuery {
        refined("queryOrderedByKey()") { (builder) throws(InvalidArgument) in try builder.ordered(by: .key) }
    }

    /// The children by their own values.
    public func queryOrderedByValue() -> DatabaseQuery {
        refined("queryOrderedByValue()") { (builder) throws(InvalidArgument) in try builder.ordered(by: .value) }
    }

    /// The children by their priorities, which is also the order without any of these calls.
    public func queryOrderedByPriority() -> DatabaseQuery {
        refined("queryOrderedByPriority()") { (builder) throws(InvalidArgument) in try builder.ordered(by: .priority) }
    }
}

// MARK: - Limit

extension DatabaseQuery {
    /// The first children in the query's order.
    public func queryLimited(toFirst limit: UInt) -> DatabaseQuery {
        refined("queryLimited(toFirst:)") { (builder) throws(InvalidArgument) in
            try builder.limited(to: .first(Int(clamping: limit)))
        }
    }

    /// The last children in the query's order.
    public func queryLimited(toLast limit: UInt) -> DatabaseQuery {
        refined("queryLimited(toLast:)") { (builder) throws(InvalidArgument) in
            try builder.limited(to: .last(Int(clamping: limit)))
        }
    }
}

// MARK: - Bounds

extension DatabaseQuery {
    /// The children whose value in the query's order is at least this: null, a Boolean, a number or a string.
    public func queryStarting(atValue startValue: Any?) -> DatabaseQuery {
        queryStarting(atValue: startValue, childKey: nil)
    }

    /// The children from this value on; of those that have it, only those whose keys are at least `childKey`.
    public func queryStarting(atValue startValue: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryStarting(atValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.starting(at: startValue, key: childKey, isInclusive: true)
        }
    }

    /// The children whose value in the query's order is above this.
    public func queryStarting(afterValue startAfterValue: Any?) -> DatabaseQuery {
        queryStarting(afterValue: startAfterValue, childKey: nil)
    }

    /// The children above this value, and those that have it and whose keys are above `childKey`.
    public func queryStarting(afterValue startAfterValue: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryStarting(afterValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.starting(at: startAfterValue, key: childKey, isInclusive: false)
        }
    }

    /// The children whose value in the query's order is at most this.
    public func queryEnding(atValue endValue: Any?) -> DatabaseQuery {
        queryEnding(atValue: endValue, childKey: nil)
    }

    /// The children up to this value; of those that have it, only those whose keys are at most `childKey`.
    public func queryEnding(atValue endValue: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryEnding(atValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.ending(at: endValue, key: childKey, isInclusive: true)
        }
    }

    /// The children whose value in the query's order is below this.
    public func queryEnding(beforeValue endValue: Any?) -> DatabaseQuery {
        queryEnding(beforeValue: endValue, childKey: nil)
    }

    /// The children below this value, and those that have it and whose keys are below `childKey`.
    public func queryEnding(beforeValue endValue: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryEnding(beforeValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.ending(at: endValue, key: childKey, isInclusive: false)
        }
    }

    /// The children that have this value in the query's order.
    public func queryEqual(toValue value: Any?) -> DatabaseQuery { queryEqual(toValue: value, childKey: nil) }

    /// The child with this key, if it has this value in the query's order.
    public func queryEqual(toValue value: Any?, childKey: String?) -> DatabaseQuery {
        refined("queryEqual(toValue:childKey:)") { (builder) throws(InvalidArgument) in
            try builder.equal(to: value, key: childKey)
        }
    }
}

extension DatabaseQuery: Equatable, Hashable {
    /// Whether both ask for the same of the same place of the same database.
    public static func == (left: DatabaseQuery, right: DatabaseQuery) -> Bool {
        left.owner === right.owner && left.path == right.path && left.builder.query == right.builder.query
    }

    /// Takes the place and the query in.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(path)
        hasher.combine(builder.query)
    }
}

extension DatabaseQuery {
    /// The value as the server has it now, asked for once. Without a connection, what the client has of it, from a listener or
    /// from disk; an error where it has nothing.
    ///
    /// - Parameter block: runs once, on the callback queue.
    public func getData(completion block: @escaping ((any Error)?, DataSnapshot?) -> Void) {
        owner.repository.get(GetRequest(query: self, completion: block))
    }

    /// As `getData(completion:)`. Throws `CancellationError` as soon as the task is cancelled.
    public func getData() async throws -> DataSnapshot {
        try await Answer.wait { answer in
            getData { error, snapshot in
                if let snapshot {
                    answer.give(.success(snapshot))
                } else {
                    answer.give(.failure(error ?? DatabaseError(.unknown, "There is no answer.")))
                }
            }
        }
    }
}
