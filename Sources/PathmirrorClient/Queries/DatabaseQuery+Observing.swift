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
