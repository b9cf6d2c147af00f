public import Tree

/// The `query` variable: the parameters of a read as rules see them (reference: security-rules 8).
public struct QueryContext: Sendable {
    public enum Order: Sendable, Equatable {
        /// A read without a query over the socket: no flag is true.
        case none
        case key
        case value
        case priority
        /// The child path as the client wrote it, without slashes at the ends.
        case child(String)
    }

    public var order: Order
    /// The bounds, or `.null` for none.
    public var startAt: Node
    public var endAt: Node
    public var equalTo: Node
    public var limitToFirst: Int?
    public var limitToLast: Int?

    public init(
        order: Order = .none, startAt: Node = .null, endAt: Node = .null, equalTo: Node = .null,
        limitToFirst: Int? = nil, limitToLast: Int? = nil
    ) {
        self.order = order
        self.startAt = startAt
        self.endAt = endAt
        self.equalTo = equalTo
        self.limitToFirst = limitToFirst
        self.limitToLast = limitToLast
    }

    /// A read of everything, without any order.
    public static let plain = QueryContext()

    /// - Parameter namesPriority: whether the client named the priority order. Otherwise the protocol's default index,
    ///   priority, means no order: such a read is plain without bounds and limits, and ordered by key with them.
    public init(_ query: Query?, namesPriority: Bool = false) {
        guard let query else {
            self = .plain
            return
        }
        switch query.index {
        case .key: order = .key
        case .value: order = .value
        case .priority where namesPriority: order = .priority
        case .priority: order = query.selectsAll ? .none : .key
        case .child(let path): order = .child(String(path.description.unicodeScalars.dropFirst()))
        }
        startAt = query.start?.value.node ?? .null
        endAt = query.end?.value.node ?? .null
        // The protocol has no equality, but expresses it by both bounds at one value.
        let isEquality = query.start != nil && query.start == query.end && query.start?.isInclusive == true
        equalTo = isEquality ? startAt : .null
        switch query.limit {
        case .first(let count): limitToFirst = count
        case .last(let count): limitToLast = count
        case nil: break
        }
    }

    /// Returns the context of a read over REST, where a plain read is ordered by key and an order is always named.
    public static func overREST(_ query: Query?) -> QueryContext {
        guard let query else { return QueryContext(order: .key) }
        return QueryContext(query, namesPriority: true)
    }

    @inline(__always)
    func isOrdered(by order: QueryOrder) -> Bool {
        switch order {
        case .key: self.order == .key
        case .value: self.order == .value
        case .priority: self.order == .priority
        }
    }

    func value(of field: QueryField) -> Value {
        switch field {
        case .orderByChild:
            if case .child(let path) = order { return .string(path) }
            return .null
        case .startAt: return Value(startAt)
        case .endAt: return Value(endAt)
        case .equalTo: return Value(equalTo)
        case .limitToFirst: return limitToFirst.map { .number(Double($0)) } ?? .null
        case .limitToLast: return limitToLast.map { .number(Double($0)) } ?? .null
        }
    }
}
