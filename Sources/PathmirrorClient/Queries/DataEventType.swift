internal import ClientCore

/// What a listener is told of.
public enum DataEventType: Int, Sendable, Hashable, CaseIterable {
    /// A child came; at first, each child that is there.
    case childAdded
    /// A child went. The snapshot is what it was.
    case childRemoved
    /// A child has another value.
    case childChanged
    /// A child has another place in the query's order.
    case childMoved
    /// The whole value, at first and after each change.
    case value
}

extension DataEventType {
    var kinds: EventKinds {
        switch self {
        case .childAdded: .childAdded
        case .childRemoved: .childRemoved
        case .childChanged: .childChanged
        case .childMoved: .childMoved
        case .value: .value
        }
    }
}

/// The number of one listener, by which it is removed. Unique within the process, never 0.
public typealias DatabaseHandle = UInt
