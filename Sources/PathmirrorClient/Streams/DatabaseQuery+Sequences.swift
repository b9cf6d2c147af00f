internal import ClientCore

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
