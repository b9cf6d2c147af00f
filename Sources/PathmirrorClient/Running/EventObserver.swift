internal import ClientCore
internal import Synchronization
internal import Tree

/// A listener of the app, which receives a query's events.
// Safe: the closures, which need not be Sendable, run only on the database's callback queue, one after the other. All other
// state is constant or atomic.
final class EventObserver: @unchecked Sendable {
    /// Handles are unique within the process, so that a handle never refers to another database's listener.
    private static let lastHandle = Atomic<UInt>(0)

    let handle: DatabaseHandle
    let registration: Registration
    let isForOneEvent: Bool
    private let query: DatabaseQuery
    private let event: (DataEvent.Kind, DataSnapshot) -> Void
    private let cancel: ((any Error) -> Void)?
    private let finish: (() -> Void)?
    private let isOver = Atomic<Bool>(false)

    init(
        query: DatabaseQuery, kinds: EventKinds, isForOneEvent: Bool = false,
        event: @escaping (DataEvent.Kind, DataSnapshot) -> Void, cancel: ((any Error) -> Void)?,
        finish: (() -> Void)? = nil
    ) {
        handle = Self.nextHandle()
        registration = Registration(id: RegistrationID(rawValue: UInt64(handle)), spec: query.spec, kinds: kinds)
        self.query = query
        self.isForOneEvent = isForOneEvent
        self.event = event
        self.cancel = cancel
        self.finish = finish
    }

    static func nextHandle() -> DatabaseHandle { lastHandle.add(1, ordering: .relaxed).newValue }

    /// Whether the app is notified if the server refuses the data.
    var wantsErrors: Bool { cancel != nil }

    /// Ends the listener. It receives no more events.
    func end() { isOver.store(true, ordering: .releasing) }

    /// Ends a loop over a sequence of events after the database was closed, because the loop would wait forever. Must
    /// run on the callback queue.
    func reportFinished() { finish?() }

    /// Delivers an event to the app. Must run on the callback queue.
    func report(_ event: DataEvent) {
        guard !isOver.load(ordering: .acquiring) else { return }
        if isForOneEvent { end() }
        let path = event.kind.childKey.map(query.path.appending) ?? query.path
        let ref = DatabaseReference(owner: query.owner, path: path)
        self.event(event.kind, DataSnapshot(ref: ref, node: event.node, index: event.index, seq: event.seq))
    }

    /// Notifies the app that no more events follow. Must run on the callback queue.
    func reportCancelled(_ error: DatabaseError) {
        guard !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return }
        cancel?(error)
    }
}
