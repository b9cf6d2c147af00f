internal import ClientCore
internal import Synchronization
internal import Tree

/// Somebody who is told of a query's events.
// Safe: the closures, which need not be Sendable, run on the database's callback queue only, one after the other; the
// rest is constant or atomic.
final class Listener: @unchecked Sendable {
    /// Unique within the process, so that a handle never means another database's listener.
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

    /// Whether somebody is told when the server refuses the data.
    var wantsErrors: Bool { cancel != nil }

    /// From now on nothing is told.
    func end() { isOver.store(true, ordering: .releasing) }

    /// The database is gone: a loop over a sequence of events, which would wait for ever, ends. On the callback queue.
    func tellFinished() { finish?() }

    /// Tells the app. On the callback queue.
    func tell(_ event: DataEvent) {
        guard !isOver.load(ordering: .acquiring) else { return }
        if isForOneEvent { end() }
        let path = event.kind.childKey.map(query.path.appending) ?? query.path
        let ref = DatabaseReference(owner: query.owner, path: path)
        self.event(event.kind, DataSnapshot(ref: ref, node: event.node, index: event.index, seq: event.seq))
    }

    /// Tells the app that nothing more comes. On the callback queue.
    func tellCancelled(_ error: DatabaseError) {
        guard !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return }
        cancel?(error)
    }
}
