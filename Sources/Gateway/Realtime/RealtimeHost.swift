import Engine
import HTTPServer
import Wire

/// What a realtime session needs of the loop that it lives on. Belongs to that loop's thread.
protocol RealtimeHost: AnyObject {
    var context: RealtimeContext { get }
    /// Reaches the sessions of this loop from other threads.
    var home: any SessionHome { get }

    /// Adds a listen to its group, and tells from which snapshot on the group hears.
    func join(_ target: ListenTarget, _ session: RealtimeSession) -> (RealtimeListen, Snapshot)
    /// The listen of that number, while it is one.
    func listen(_ id: UInt64, in group: ListenerGroup) -> RealtimeListen?
    func forget(_ listen: RealtimeListen)
    /// Forgets the listens of a session that has ended, some in each slice of the loop's time.
    func forgetLater(_ listens: [RealtimeListen], of session: RealtimeSession)

    /// Queues a write, and calls `body` with what becomes of it, unless the session has ended by then. Returns the write's
    /// number.
    @discardableResult
    func submit(
        _ write: Write, for session: RealtimeSession, _ body: @escaping (RealtimeSession, WriteOutcome) -> Void
    ) -> UInt64
    /// Calls `body` when the write of that number is done, whether the session has ended or not.
    func afterWrite(_ number: UInt64, _ body: @escaping () -> Void)

    /// Does what follows from an event in a queue of transactions.
    func follow(_ outcome: TransactionQueue.Outcome, at key: TransactionKey)
    /// Sees to it that a slot ends.
    func watch(_ slot: TransactionQueue.Slot, at key: TransactionKey)

    /// The session's connection is gone.
    func ended(_ id: String, _ completion: @escaping @Sendable () -> Void)
}

extension RealtimeHost {
    func ended(_ id: String) { ended(id) {} }
}

/// The realtime sessions of one loop, as other threads reach them.
protocol SessionHome: AnyObject, Sendable {
    /// Does `work` with a session on its loop, or `otherwise` there where the session has ended.
    func post(
        to id: String, otherwise: @escaping @Sendable () -> Void, _ work: @escaping @Sendable (RealtimeSession) -> Void)
    /// Closes a session and ends it, and calls `completion` once what it wanted done then is done; at once where it has ended.
    func end(_ id: String, _ completion: @escaping @Sendable () -> Void)
    /// Closes all sessions of the loop, of the namespaces of a database, once their writes are done.
    func closeAll(in database: Int)
    /// See `RealtimeHost.follow`.
    func follow(_ outcome: TransactionQueue.Outcome, at key: TransactionKey)
}

extension SessionHome {
    /// Does `work` with a session on its loop; nothing where the session has ended.
    func post(to id: String, _ work: @escaping @Sendable (RealtimeSession) -> Void) {
        post(to: id, otherwise: {}, work)
    }
}
