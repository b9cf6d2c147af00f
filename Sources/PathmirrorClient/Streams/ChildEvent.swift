/// What happened to a child of a query's place.
public enum ChildEvent: Sendable {
    /// It came. `after`: the key of the child before it in the query's order, nil for the first.
    case added(DataSnapshot, after: String?)
    /// It has another value.
    case changed(DataSnapshot, after: String?)
    /// It has another place in the order.
    case moved(DataSnapshot, after: String?)
    /// It went. The snapshot is what it was.
    case removed(DataSnapshot)

    /// The child.
    public var snapshot: DataSnapshot {
        switch self {
        case .added(let snapshot, _), .changed(let snapshot, _), .moved(let snapshot, _), .removed(let snapshot):
            snapshot
        }
    }
}
