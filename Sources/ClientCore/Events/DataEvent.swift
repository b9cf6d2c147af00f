public import Tree

/// The number of one registration of a listener, unique within a database.
public struct RegistrationID: Sendable, Hashable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }
}

/// The kinds of events that a registration receives.
public struct EventKinds: OptionSet, Sendable, Hashable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let value = EventKinds(rawValue: 1)
    public static let childAdded = EventKinds(rawValue: 2)
    public static let childChanged = EventKinds(rawValue: 4)
    public static let childRemoved = EventKinds(rawValue: 8)
    public static let childMoved = EventKinds(rawValue: 16)
    public static let allChildren: EventKinds = [.childAdded, .childChanged, .childRemoved, .childMoved]
}

/// A listener to the data that a query selects.
public struct Registration: Sendable, Hashable {
    public let id: RegistrationID
    public let spec: QuerySpec
    public let kinds: EventKinds

    public init(id: RegistrationID, spec: QuerySpec, kinds: EventKinds) {
        self.id = id
        self.spec = spec
        self.kinds = kinds
    }
}

/// An event for one registration. A database's events are raised in the order in which they are returned.
public struct DataEvent: Sendable {
    public enum Kind: Sendable, Hashable {
        case value
        /// With the child's key. `previous` is the key of the child before it in the query's order; nil for the first
        /// child.
        case childAdded(Key, previous: Key?)
        case childChanged(Key, previous: Key?)
        case childMoved(Key, previous: Key?)
        /// The event's node is the removed value.
        case childRemoved(Key)
    }

    public let registration: RegistrationID
    public let kind: Kind
    /// The whole value, or the child's value.
    public let node: Node
    /// The order of the value's children; the children of a child are in the same order.
    public let index: Query.Index
    /// The position in the server's log at which the value was current; nil if the value contains data that only this
    /// client has, or if the position is unknown.
    public internal(set) var seq: Int64?

    public init(registration: RegistrationID, kind: Kind, node: Node, index: Query.Index) {
        self.registration = registration
        self.kind = kind
        self.node = node
        self.index = index
    }
}

/// The results of one step of the sync tree: first the events, then the listens to start and stop.
public struct SyncEffects: Sendable {
    public var events: [DataEvent] = []
    public var listens: [ListenChange] = []

    public init() {}
}
