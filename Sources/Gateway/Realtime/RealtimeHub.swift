import Engine
import HTTPServer
import Placement
import Runtime
import Synchronization
import Wire

/// A loop's realtime sessions and their listens: begins, checks and ends them. One for each loop.
final class RealtimeHub: RealtimeHost, GroupSubscriber {
    let context: RealtimeContext
    let loop: EventLoop
    private let link: LoopLink<RealtimeHub>
    /// The sessions of this loop.
    let sessions = SessionTable()
    private let listens: ListenerTable<RealtimeListen>
    private let writes: RealtimeWrites
    private let slots: TransactionSlots
    private var lastListen: UInt64 = 0
    /// Sessions that have ended, with those of their listens that are not removed yet.
    private var ending: [String: (session: RealtimeSession, listens: [RealtimeListen])] = [:]
    private(set) var isDraining = false

    init(_ context: RealtimeContext, _ loop: EventLoop) {
        self.context = context
        self.loop = loop
        link = LoopLink(loop)
        listens = ListenerTable(
            loop, bufferBytes: context.settings.streamBufferBytes, delivered: context.metrics.listenEvents)
        writes = RealtimeWrites(loop, sessions)
        slots = TransactionSlots(context, loop, sessions)
        link.lead(to: self)
    }

    var sessionLoop: any SessionLoop { link }

    // MARK: Sessions

    /// Whether another session may begin, on any loop.
    var hasRoom: Bool { context.metrics.sessions.current < context.settings.maxSessions }

    func begin(
        _ namespace: LiveNamespace, _ transport: any SessionTransport, isLoopback: Bool, _ remoteAddress: String,
        isExtended: Bool = false
    ) -> RealtimeSession {
        let session = RealtimeSession(
            context.settings.sessionLabel + SessionDirectory.makeToken(), self, loop, namespace, transport,
            isLoopback: isLoopback, remoteAddress: remoteAddress, isExtended: isExtended)
        sessions.add(session)
        context.directory.add(session.id, link)
        context.metrics.sessions.add(1)
        context.metrics.sessionsOpened.add()
        return session
    }

    func ended(_ id: String, _ completion: @escaping @Sendable () -> Void) {
        guard let session = sessions.remove(id) else { return completion() }
        context.metrics.sessions.add(-1)
        session.ended(completion)
        // Comes last, so that a caller that waits for the end of all sessions finds their operations in flight.
        context.directory.remove(id)
    }

    /// Ends the session that a reconnecting client names as its last one, before the new session continues. Otherwise
    /// the end of the old session would undo changes of the new one (reference: rtdb-protocol 9).
    func endEarlier(_ last: String, before session: RealtimeSession) {
        guard last != session.id else { return }
        session.hold()
        let id = session.id
        let isReleased = MutexBox(false)
        let release: @Sendable () -> Void = { [link] in
            let isFirst = isReleased.withLock { value -> Bool in
                defer { value = true }
                return !value
            }
            if isFirst { link.post(to: id) { $0.release() } }
        }
        // The new session must not wait forever for the database to finish the old one.
        _ = loop.schedule(afterMilliseconds: 5_000) { release() }
        if let sessionLoop = context.directory.sessionLoop(of: last) {
            sessionLoop.end(last, release)
        } else {
            context.databases.engine(of: session.namespace).disconnects.takeOver(last, in: session.namespace, release)
        }
    }

    /// Closes all sessions once their writes are answered. Their onDisconnect operations begin at once, however long
    /// clients take to close their connections.
    ///
    /// - Parameter database: closes only sessions of this database's namespaces; nil for all.
    func closeSessions(in database: Int? = nil) {
        for session in sessions.all where database == nil || session.namespace.key.database == database {
            session.close()
        }
    }

    /// Closes all sessions, and prevents new ones.
    func drain() {
        isDraining = true
        closeSessions()
    }

    // MARK: Listens

    func join(_ target: ListenTarget, _ session: RealtimeSession) -> (RealtimeListen, Snapshot) {
        let key = ListenerKey(
            namespace: session.namespace.key, path: target.path, query: target.query,
            encoding: session.isExtended ? .markedRealtime : .realtime)
        let (group, snapshot) = context.groups.join(key, session.namespace, link)
        lastListen += 1
        let listen = RealtimeListen(lastListen, target, group, session, seq: snapshot.seq)
        listens.add(listen)
        context.metrics.listens.add(1)
        return (listen, snapshot)
    }

    func listen(_ id: UInt64, in group: ListenerGroup) -> RealtimeListen? {
        listens.find(id, in: ObjectIdentifier(group))
    }

    func forget(_ listen: RealtimeListen) {
        guard listens.remove(listen.id, from: ObjectIdentifier(listen.group)) != nil else { return }
        context.metrics.listens.add(-1)
        context.groups.leave(listen.group, link)
    }

    /// The listens refer to the session until they are removed.
    func forgetLater(_ listens: [RealtimeListen], of session: RealtimeSession) {
        guard !listens.isEmpty else { return }
        ending[session.id] = (session, listens)
        forgetSome(of: session.id)
    }

    private func forgetSome(of id: String) {
        while let listen = ending[id]?.listens.popLast() {
            forget(listen)
            if loop.isSliceOver { return link.post { $0.forgetSome(of: id) } }
        }
        ending[id] = nil
    }

    func hear(_ news: GroupMessage, from group: ObjectIdentifier) { listens.hear(news, from: group) }

    // MARK: Writes

    func submit(
        _ write: Write, for session: RealtimeSession, _ body: @escaping (RealtimeSession, WriteOutcome) -> Void
    ) -> UInt64 {
        writes.submit(write, for: session, body)
    }

    func afterWrite(_ number: UInt64, _ body: @escaping () -> Void) { writes.afterWrite(number, body) }

    func follow(_ outcome: TransactionTurns.Outcome, at key: TransactionKey) { slots.follow(outcome, at: key) }

    func watch(_ slot: TransactionTurns.Slot, at key: TransactionKey) { slots.watch(slot, at: key) }

    // MARK: Time

    /// Ends sessions whose peers have disconnected silently, logins that are no longer valid, and listens whose readers
    /// lost access by data elsewhere or by time. Processes some in each slice of the loop's time.
    func sweep(then completion: @escaping @Sendable () -> Void = {}) {
        link.inSlices(sessions.ids, of: self) { hub, id in
            hub.sweep(id)
        } then: { _ in
            completion()
        }
    }

    private func sweep(_ id: String) {
        guard let session = sessions[id] else { return }
        let now = Clock.monotonicMilliseconds
        let timeout = Milliseconds(context.settings.sessionTimeoutMilliseconds)
        // Another database may have a namespace of that name: the client finds it when it reconnects.
        if session.namespace.hasEnded { return session.close() }
        session.recheckLogin(now: Clock.unixMilliseconds)
        session.transport.tick()
        if now - session.lastHeard > timeout
            || now - session.lastSaid > Milliseconds(context.settings.keepAliveTimeoutMilliseconds)
        {
            session.transport.abandon()
            return ended(session.id)
        }
        if now - session.lastHeard > timeout / 3 { session.transport.ping() }
        // Rules may depend on data outside of a listen's path. This check finds readers that lost access by a change
        // elsewhere; listens are also checked before each event.
        let seq = session.namespace.snapshot.seq
        guard seq != session.recheckedSeq else { return }
        session.recheckedSeq = seq
        session.recheckListens()
    }
}

extension LoopLink: SessionLoop where Owner == RealtimeHub {
    func post(
        to id: String, otherwise: @escaping @Sendable () -> Void, _ work: @escaping @Sendable (RealtimeSession) -> Void
    ) {
        post { hub in
            if let session = hub.sessions[id] { work(session) } else { otherwise() }
        }
    }

    func end(_ id: String, _ completion: @escaping @Sendable () -> Void) {
        post { hub in
            hub.sessions[id]?.transport.close()
            hub.ended(id, completion)
        }
    }

    func closeAll(in database: Int) { post { $0.closeSessions(in: database) } }

    func follow(_ outcome: TransactionTurns.Outcome, at key: TransactionKey) { post { $0.follow(outcome, at: key) } }
}

/// The services that a realtime session needs from its loop. Belongs to that loop's thread.
protocol RealtimeHost: AnyObject {
    var context: RealtimeContext { get }
    /// Gives other threads access to the sessions of this loop.
    var sessionLoop: any SessionLoop { get }

    /// Adds a listen to its group, and returns the snapshot after which the group receives changes.
    func join(_ target: ListenTarget, _ session: RealtimeSession) -> (RealtimeListen, Snapshot)
    /// Returns the listen with that number, if it still exists.
    func listen(_ id: UInt64, in group: ListenerGroup) -> RealtimeListen?
    func forget(_ listen: RealtimeListen)
    /// Removes the listens of a session that has ended, some in each slice of the loop's time.
    func forgetLater(_ listens: [RealtimeListen], of session: RealtimeSession)

    /// Queues a write and returns its number. Calls `body` with its outcome, unless the session has ended by then.
    @discardableResult
    func submit(
        _ write: Write, for session: RealtimeSession, _ body: @escaping (RealtimeSession, WriteOutcome) -> Void
    ) -> UInt64
    /// Calls `body` when the write with that number is finished, even if the session has ended.
    func afterWrite(_ number: UInt64, _ body: @escaping () -> Void)

    /// Executes the outcome of an event in a queue of transactions.
    func follow(_ outcome: TransactionTurns.Outcome, at key: TransactionKey)
    /// Watches a slot, and ends it if its session is idle for too long.
    func watch(_ slot: TransactionTurns.Slot, at key: TransactionKey)

    /// Ends a session whose connection has closed.
    func ended(_ id: String, _ completion: @escaping @Sendable () -> Void)
}

extension RealtimeHost {
    func ended(_ id: String) { ended(id) {} }
}

/// Gives other threads access to the realtime sessions of one loop.
protocol SessionLoop: AnyObject, Sendable {
    /// Calls `work` with a session on its loop, or `otherwise` there if the session has ended.
    func post(
        to id: String, otherwise: @escaping @Sendable () -> Void, _ work: @escaping @Sendable (RealtimeSession) -> Void)
    /// Closes and ends a session, and calls `completion` once its onDisconnect operations are executed; at once if it
    /// has ended.
    func end(_ id: String, _ completion: @escaping @Sendable () -> Void)
    /// Closes all sessions of the loop that belong to a database's namespaces, once their writes are answered.
    func closeAll(in database: Int)
    /// See `RealtimeHost.follow`.
    func follow(_ outcome: TransactionTurns.Outcome, at key: TransactionKey)
}

extension SessionLoop {
    /// Calls `work` with a session on its loop; does nothing if the session has ended.
    func post(to id: String, _ work: @escaping @Sendable (RealtimeSession) -> Void) {
        post(to: id, otherwise: {}, work)
    }
}

/// The realtime sessions of one loop, by their ids. Belongs to the loop's thread.
final class SessionTable {
    private var sessions: [String: RealtimeSession] = [:]

    subscript(id: String) -> RealtimeSession? { sessions[id] }

    var ids: [String] { Array(sessions.keys) }
    var all: [RealtimeSession] { Array(sessions.values) }

    func add(_ session: RealtimeSession) { sessions[session.id] = session }

    /// Removes and returns a session; returns nil if there is none.
    func remove(_ id: String) -> RealtimeSession? { sessions.removeValue(forKey: id) }
}
