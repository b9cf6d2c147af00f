internal import ClientCore
internal import Tree

extension DatabaseQuery {
    /// Tells `block` of events, beginning with what is known now, until the listener is removed.
    ///
    /// - Parameters:
    ///   - eventType: which events.
    ///   - block: runs on the database's `callbackQueue`, once for each event, in order. It is kept until the listener is
    ///     removed.
    /// - Returns: the listener's number, for `removeObserver(withHandle:)`.
    @discardableResult
    public func observe(_ eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void) -> DatabaseHandle {
        observe(eventType, with: block, withCancel: nil)
    }

    /// As `observe(_:with:)`; `block` is also given the key of the sibling before the child, nil for the first.
    @discardableResult
    public func observe(
        _ eventType: DataEventType, andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void
    ) -> DatabaseHandle {
        observe(eventType, andPreviousSiblingKeyWith: block, withCancel: nil)
    }

    /// As `observe(_:with:)`; `cancelBlock` is told when the server refuses the data, now or later. Nothing else is told
    /// after that.
    @discardableResult
    public func observe(
        _ eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void,
        withCancel cancelBlock: ((any Error) -> Void)?
    ) -> DatabaseHandle {
        listen(eventType.kinds, cancel: cancelBlock) { _, snapshot in block(snapshot) }
    }

    /// As `observe(_:with:withCancel:)`; `block` is also given the key of the sibling before the child, nil for the first.
    @discardableResult
    public func observe(
        _ eventType: DataEventType, andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void,
        withCancel cancelBlock: ((any Error) -> Void)?
    ) -> DatabaseHandle {
        listen(eventType.kinds, cancel: cancelBlock) { kind, snapshot in block(snapshot, kind.previousKey) }
    }

    // MARK: Once

    /// Tells `block` of the first event, and of no other.
    public func observeSingleEvent(of eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void) {
        observeSingleEvent(of: eventType, with: block, withCancel: nil)
    }

    /// As `observeSingleEvent(of:with:)`; `block` is also given the key of the sibling before the child.
    public func observeSingleEvent(
        of eventType: DataEventType, andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void
    ) {
        observeSingleEvent(of: eventType, andPreviousSiblingKeyWith: block, withCancel: nil)
    }

    /// As `observeSingleEvent(of:with:)`; `cancelBlock` is told instead when the server refuses the data.
    public func observeSingleEvent(
        of eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void,
        withCancel cancelBlock: ((any Error) -> Void)?
    ) {
        listen(eventType.kinds, once: true, cancel: cancelBlock) { _, snapshot in block(snapshot) }
    }

    /// As `observeSingleEvent(of:with:withCancel:)`; `block` is also given the key of the sibling before the child.
    public func observeSingleEvent(
        of eventType: DataEventType, andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void,
        withCancel cancelBlock: ((any Error) -> Void)?
    ) {
        listen(eventType.kinds, once: true, cancel: cancelBlock) { kind, snapshot in block(snapshot, kind.previousKey) }
    }

    /// The first event's snapshot. Where the server refuses the data, or the app is deleted, it never returns, as it throws
    /// nothing in the vendor's SDK; `getData()` throws there.
    public func observeSingleEvent(of eventType: DataEventType) async -> DataSnapshot {
        await observeSingleEventAndPreviousSiblingKey(of: eventType).0
    }

    /// As `observeSingleEvent(of:)`, with the key of the sibling before the child, nil for the first.
    public func observeSingleEventAndPreviousSiblingKey(of eventType: DataEventType) async -> (DataSnapshot, String?) {
        await withUnsafeContinuation { continuation in
            listen(eventType.kinds, once: true, cancel: nil) { kind, snapshot in
                continuation.resume(returning: (snapshot, kind.previousKey))
            }
        }
    }

    // MARK: Removing

    /// Removes the listener with this number, if it listens to this place. Called on the `callbackQueue`, its block runs no
    /// more after this.
    public func removeObserver(withHandle handle: DatabaseHandle) {
        owner.repository.removeListener(handle, at: path)
    }

    /// Removes all listeners of this query; of a reference, all listeners at its place, whatever their queries.
    public func removeAllObservers() {
        owner.repository.removeListeners(of: spec)
    }

    @discardableResult
    func listen(
        _ kinds: EventKinds, once: Bool = false, cancel: ((any Error) -> Void)?, finish: (() -> Void)? = nil,
        _ event: @escaping (DataEvent.Kind, DataSnapshot) -> Void
    ) -> DatabaseHandle {
        let listener = Listener(
            query: self, kinds: kinds, isForOneEvent: once, event: event, cancel: cancel, finish: finish)
        owner.repository.add(listener)
        return listener.handle
    }
}

extension DataEvent.Kind {
    var previousKey: String? {
        switch self {
        case .childAdded(_, let previous), .childChanged(_, let previous), .childMoved(_, let previous): previous?.text
        case .value, .childRemoved: nil
        }
    }

    /// The child's key; nil of the whole value.
    var childKey: Key? {
        switch self {
        case .childAdded(let key, _), .childChanged(let key, _), .childMoved(let key, _), .childRemoved(let key): key
        case .value: nil
        }
    }
}

extension DatabaseQuery {
    /// The value now and after each change, until the task ends or the loop is left. Each use of this property is a listener
    /// of its own, from that moment on.
    ///
    /// A loop that is slower than the changes is given the newest value only. It ends with an error where the server refuses
    /// the data, and without one when the app is deleted.
    public var snapshots: AsyncThrowingStream<DataSnapshot, any Error> {
        AsyncThrowingStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let handle = listen(
                .value, cancel: { continuation.finish(throwing: $0) }, finish: { continuation.finish() }
            ) { _, snapshot in
                continuation.yield(snapshot)
            }
            continuation.onTermination = { [self] _ in removeObserver(withHandle: handle) }
        }
    }

    /// What happens to the children, beginning with each that is there, in order.
    ///
    /// No event is left out, so what a slow loop has not taken yet is kept in memory. Each call is a listener of its own, from
    /// that moment on. The loop ends with an error where the server refuses the data, and without one when the app is deleted.
    public func childEvents() -> AsyncThrowingStream<ChildEvent, any Error> {
        AsyncThrowingStream(bufferingPolicy: .unbounded) { continuation in
            let handle = listen(
                .allChildren, cancel: { continuation.finish(throwing: $0) }, finish: { continuation.finish() }
            ) { kind, snapshot in
                if let event = ChildEvent(kind, snapshot) { continuation.yield(event) }
            }
            continuation.onTermination = { [self] _ in removeObserver(withHandle: handle) }
        }
    }
}

extension ChildEvent {
    init?(_ kind: DataEvent.Kind, _ snapshot: DataSnapshot) {
        switch kind {
        case .value: return nil
        case .childAdded: self = .added(snapshot, after: kind.previousKey)
        case .childChanged: self = .changed(snapshot, after: kind.previousKey)
        case .childMoved: self = .moved(snapshot, after: kind.previousKey)
        case .childRemoved: self = .removed(snapshot)
        }
    }
}

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
