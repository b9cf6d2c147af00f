internal import ClientCore
internal import Tree

extension DatabaseQuery {
    /// Adds a listener. `block` receives the events, beginning with the data that the client knows, until the listener is removed.
    ///
    /// - Parameters:
    ///   - eventType: The type of the events.
    ///   - block: Runs on the database's `callbackQueue`, once for each event, in order. It is retained until the listener is removed.
    /// - Returns: The listener's handle, for `removeObserver(withHandle:)`.
    @discardableResult
    public func observe(_ eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void) -> DatabaseHandle {
        observe(eventType, with: block, withCancel: nil)
    }

    /// Adds a listener like `observe(_:with:)`. `block` also receives the key of the child's preceding sibling, or
    /// nil for the first child.
    @discardableResult
    public func observe(
        _ eventType: DataEventType, andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void
    ) -> DatabaseHandle {
        observe(eventType, andPreviousSiblingKeyWith: block, withCancel: nil)
    }

    /// Adds a listener like `observe(_:with:)`. `cancelBlock` is called if the server refuses the data, now or
    /// later. No events follow.
    @discardableResult
    public func observe(
        _ eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void,
        withCancel cancelBlock: ((any Error) -> Void)?
    ) -> DatabaseHandle {
        listen(eventType.kinds, cancel: cancelBlock) { _, snapshot in block(snapshot) }
    }

    /// Adds a listener like `observe(_:with:withCancel:)`. `block` also receives the key of the child's preceding sibling, or
    /// nil for the first child.
    @discardableResult
    public func observe(
        _ eventType: DataEventType, andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void,
        withCancel cancelBlock: ((any Error) -> Void)?
    ) -> DatabaseHandle {
        listen(eventType.kinds, cancel: cancelBlock) { kind, snapshot in block(snapshot, kind.previousKey) }
    }

    // MARK: Single events

    /// Calls `block` with the first event only.
    public func observeSingleEvent(of eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void) {
        observeSingleEvent(of: eventType, with: block, withCancel: nil)
    }

    /// Calls `block` with the first event only, and with the key of the child's preceding sibling.
    public func observeSingleEvent(
        of eventType: DataEventType, andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void
    ) {
        observeSingleEvent(of: eventType, andPreviousSiblingKeyWith: block, withCancel: nil)
    }

    /// Calls `block` with the first event only. Calls `cancelBlock` instead if the server refuses the data.
    public func observeSingleEvent(
        of eventType: DataEventType, with block: @escaping (DataSnapshot) -> Void,
        withCancel cancelBlock: ((any Error) -> Void)?
    ) {
        listen(eventType.kinds, once: true, cancel: cancelBlock) { _, snapshot in block(snapshot) }
    }

    /// Calls `block` with the first event only, and with the key of the child's preceding sibling. Calls `cancelBlock` instead if
    /// the server refuses the data.
    public func observeSingleEvent(
        of eventType: DataEventType, andPreviousSiblingKeyWith block: @escaping (DataSnapshot, String?) -> Void,
        withCancel cancelBlock: ((any Error) -> Void)?
    ) {
        listen(eventType.kinds, once: true, cancel: cancelBlock) { kind, snapshot in block(snapshot, kind.previousKey) }
    }

    /// Returns the snapshot of the first event. If the server refuses the data or the app is deleted, it never returns, because the
    /// method does not throw in Firebase's SDK. `getData()` throws in these cases.
    public func observeSingleEvent(of eventType: DataEventType) async -> DataSnapshot {
        await observeSingleEventAndPreviousSiblingKey(of: eventType).0
    }

    /// Returns the snapshot of the first event, with the key of the child's preceding sibling, or nil for the first child.
    public func observeSingleEventAndPreviousSiblingKey(of eventType: DataEventType) async -> (DataSnapshot, String?) {
        await withUnsafeContinuation { continuation in
            listen(eventType.kinds, once: true, cancel: nil) { kind, snapshot in
                continuation.resume(returning: (snapshot, kind.previousKey))
            }
        }
    }

    // MARK: Removing listeners

    /// Removes the listener with this handle if it listens to this path. If called on the `callbackQueue`, its block does not run again.
    public func removeObserver(withHandle handle: DatabaseHandle) {
        owner.repository.removeListener(handle, at: path)
    }

    /// Removes all listeners of this query; for a reference, all listeners at its path, regardless of their queries.
    public func removeAllObservers() {
        owner.repository.removeListeners(of: spec)
    }

    @discardableResult
    func listen(
        _ kinds: EventKinds, once: Bool = false, cancel: ((any Error) -> Void)?, finish: (() -> Void)? = nil,
        _ event: @escaping (DataEvent.Kind, DataSnapshot) -> Void
    ) -> DatabaseHandle {
        let listener = EventObserver(
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

    /// The child's key, or nil for an event of the whole value.
    var childKey: Key? {
        switch self {
        case .childAdded(let key, _), .childChanged(let key, _), .childMoved(let key, _), .childRemoved(let key): key
        case .value: nil
        }
    }
}

extension DatabaseQuery {
    /// The value now and after each change, until the task or the loop ends. Each use of this property adds a listener.
    ///
    /// A loop that is slower than the changes receives only the latest value. It ends with an error if the server refuses the data,
    /// and without an error when the app is deleted.
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

    /// Returns the events of the children, beginning with each existing child in order.
    ///
    /// No event is skipped: events that a slow loop has not consumed yet are kept in memory. Each call adds a listener.
    /// The loop ends with an error if the server refuses the data, and without an error when the app is deleted.
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

/// A change of a child of a query's path.
public enum ChildEvent: Sendable {
    /// A new child. `after` is the key of the preceding child in the query's order, or nil for the first child.
    case added(DataSnapshot, after: String?)
    /// A child with a changed value.
    case changed(DataSnapshot, after: String?)
    /// A child with a changed position in the order.
    case moved(DataSnapshot, after: String?)
    /// A removed child. The snapshot contains its last value.
    case removed(DataSnapshot)

    /// The child.
    public var snapshot: DataSnapshot {
        switch self {
        case .added(let snapshot, _), .changed(let snapshot, _), .moved(let snapshot, _), .removed(let snapshot):
            snapshot
        }
    }
}

/// The type of the events that a listener receives.
public enum DataEventType: Int, Sendable, Hashable, CaseIterable {
    /// A child was added. Initially, each existing child.
    case childAdded
    /// A child was removed. The snapshot contains its last value.
    case childRemoved
    /// A child's value has changed.
    case childChanged
    /// A child's position in the query's order has changed.
    case childMoved
    /// The whole value, initially and after each change.
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

/// The handle for removing a listener. Unique within the process, and never 0.
public typealias DatabaseHandle = UInt
