import Engine
import HTTPServer
import Placement
import Runtime
import Synchronization
import Wire

/// A loop's realtime sessions and their listens: begins them, ends them, and looks after them. One for each loop.
final class RealtimeHub: RealtimeHost, GroupHearer {
    let context: RealtimeContext
    let loop: EventLoop
    private let link: LoopLink<RealtimeHub>
    /// Those that live on this loop.
    let sessions = SessionTable()
    private let listens: ListenerTable<RealtimeListen>
    private let writes: RealtimeWrites
    private let slots: TransactionSlots
    private var lastListen: UInt64 = 0
    /// Sessions that have ended, with those of their listens that are not forgotten yet.
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

    var home: any SessionHome { link }

    // MARK: Sessions

    /// Whether another session may begin, on any loop.
    var hasRoom: Bool { context.metrics.sessions.current < context.settings.maxSessions }

    func begin(
        _ namespace: LiveNamespace, _ transport: any RealtimeTransport, isLoopback: Bool, _ remoteAddress: String,
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
        // Last: who waits until there are no sessions finds their operations under way.
        context.directory.remove(id)
    }

    /// A client that comes back names its last session: that one ends first, lest its end undo what the new one does
    /// (reference: rtdb-protocol 9).
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
        // The new session must not wait for ever for what the database does with the old one.
        _ = loop.schedule(afterMilliseconds: 5_000) { release() }
        if let home = context.directory.home(of: last) {
            home.end(last, release)
        } else {
            context.databases.engine(of: session.namespace).disconnects.takeOver(last, in: session.namespace, release)
        }
    }

    /// Closes all sessions once their writes are done; what they want done then is begun at once, however long clients
    /// take to let go of their connections.
    ///
    /// - Parameter database: only those whose namespaces live there; nil for all.
    func closeSessions(in database: Int? = nil) {
        for session in sessions.all where database == nil || session.namespace.key.database == database {
            session.close()
        }
    }

    /// The same, and no session begins any more.
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

    /// They refer to the session until they are forgotten.
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

    func hear(_ news: GroupNews, from group: ObjectIdentifier) { listens.hear(news, from: group) }

    // MARK: Writes

    func submit(
        _ write: Write, for session: RealtimeSession, _ body: @escaping (RealtimeSession, WriteOutcome) -> Void
    ) -> UInt64 {
        writes.submit(write, for: session, body)
    }

    func afterWrite(_ number: UInt64, _ body: @escaping () -> Void) { writes.afterWrite(number, body) }

    func follow(_ outcome: TransactionQueue.Outcome, at key: TransactionKey) { slots.follow(outcome, at: key) }

    func watch(_ slot: TransactionQueue.Slot, at key: TransactionKey) { slots.watch(slot, at: key) }

    // MARK: Time

    /// Finds peers that have gone silently, logins that hold no more, and readers whom data elsewhere or the time has shut
    /// out, some in each slice of the loop's time.
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
        // There may be another one of its name, in another database: the client finds it when it comes back.
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
        // Rules may look at data that a listen has nothing to do with: whoever lost a permission by a change elsewhere is
        // found here (and before anything is sent anyway).
        let seq = session.namespace.snapshot.seq
        guard seq != session.recheckedSeq else { return }
        session.recheckedSeq = seq
        session.recheckListens()
    }
}

extension LoopLink: SessionHome where Owner == RealtimeHub {
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

    func follow(_ outcome: TransactionQueue.Outcome, at key: TransactionKey) { post { $0.follow(outcome, at: key) } }
}

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

/// The realtime sessions of one loop, by their ids. Belongs to the loop's thread.
final class SessionTable {
    private var sessions: [String: RealtimeSession] = [:]

    subscript(id: String) -> RealtimeSession? { sessions[id] }

    var ids: [String] { Array(sessions.keys) }
    var all: [RealtimeSession] { Array(sessions.values) }

    func add(_ session: RealtimeSession) { sessions[session.id] = session }

    /// Takes a session out; nil where there is none.
    func remove(_ id: String) -> RealtimeSession? { sessions.removeValue(forKey: id) }
}
