internal import ClientCore
internal import Dispatch
internal import Synchronization
internal import Tree

/// The thread-safe interface to a running database. Passes requests from any thread to the database's own serial queue.
///
/// Requests that arrive while the queue is busy are processed in one turn, at whose end all their changes are written to disk together.
// Safe: `database` is used only on `queue`; all other state is constant or guarded by a lock.
final class Repository: @unchecked Sendable {
    typealias Job = @Sendable (LocalDatabase) -> Void

    private struct Waiting {
        var jobs: [Job] = []
        /// Signalled when the changes of the jobs' turn are on disk.
        var callers: [DispatchSemaphore] = []
        var isScheduled = false
        var isClosed = false
    }

    private let queue = DispatchQueue(label: "pathmirror.database", qos: .userInitiated)
    /// Set on the queues of all databases: a transaction's block that writes to another database must not wait for it, because the
    /// other database may be doing the same.
    private static let onQueue = DispatchSpecificKey<Bool>()
    private let callbackQueue: DispatchQueue
    private let isPersistent: Bool
    private let waiting = Mutex(Waiting())
    private let listeners = Mutex<[DatabaseHandle: EventObserver]>([:])
    private let timeOffset = Atomic<Int64>(0)
    private var database: LocalDatabase?

    init(address: DatabaseAddress, settings: DatabaseSettings, app: PathmirrorApp?, isOffline: Bool) {
        callbackQueue = settings.callbackQueue
        isPersistent = settings.isPersistenceEnabled
        queue.setSpecific(key: Self.onQueue, value: true)
        queue.async { [self] in
            database = LocalDatabase(address: address, settings: settings, app: app, outside: self)
        }
        perform { $0.start(isOffline: isOffline) }
    }

    /// The difference between the server's time and this machine's, in milliseconds.
    var serverTimeOffset: Int64 {
        get { timeOffset.load(ordering: .relaxed) }
        set { timeOffset.store(newValue, ordering: .relaxed) }
    }

    // MARK: Turns

    /// Runs the job on the queue after all earlier jobs. Returns at once.
    ///
    /// - Returns: False if the database is closed; the job is then not run.
    @discardableResult
    func perform(_ job: @escaping Job) -> Bool { enqueue(job, caller: nil) }

    /// Runs the job like `perform`, but with persistence returns only when the job's changes are on disk. Within a job (a
    /// transaction's block), also of another database, it returns at once.
    private func performAndKeep(_ job: @escaping Job) -> Bool {
        guard isPersistent, DispatchQueue.getSpecific(key: Self.onQueue) == nil else { return perform(job) }
        let semaphore = DispatchSemaphore(value: 0)
        // The semaphore of a job that does not run would never be signalled.
        guard enqueue(job, caller: semaphore) else { return false }
        semaphore.wait()
        return true
    }

    private func enqueue(_ job: @escaping Job, caller: DispatchSemaphore?, closes: Bool = false) -> Bool {
        let (mustSchedule, isClosed) = waiting.withLock { waiting in
            if waiting.isClosed { return (false, true) }
            waiting.jobs.append(job)
            if let caller { waiting.callers.append(caller) }
            waiting.isClosed = closes
            defer { waiting.isScheduled = true }
            return (!waiting.isScheduled, false)
        }
        if mustSchedule { queue.async { self.runTurn() } }
        return !isClosed
    }

    private func runTurn() {
        let (jobs, callers) = waiting.withLock { waiting in
            defer {
                waiting.jobs = []
                waiting.callers = []
                waiting.isScheduled = false
            }
            return (waiting.jobs, waiting.callers)
        }
        if let database {
            for job in jobs {
                job(database)
                database.carryOutEffects()
            }
            database.endTurn()
        }
        for caller in callers { caller.signal() }
    }

    /// Runs the job on the queue after a delay in milliseconds.
    func perform(after delay: Int64, _ job: @escaping Job) {
        queue.asyncAfter(deadline: .now() + .milliseconds(Int(max(0, delay)))) { [weak self] in self?.perform(job) }
    }

    /// Runs the body on the callback queue, after all earlier ones.
    func callBack(_ body: @escaping @Sendable () -> Void) { callbackQueue.async(execute: body) }

    /// Closes the database and fails the pending requests. Returns when no more jobs run.
    func close() async {
        let ended = listeners.withLock { listeners in
            defer { listeners = [:] }
            return Array(listeners.values)
        }
        for listener in ended { listener.end() }
        callBack { for listener in ended { listener.reportFinished() } }
        await withUnsafeContinuation { continuation in
            _ = enqueue({ $0.close() }, caller: nil, closes: true)
            queue.async { [self] in
                if waiting.withLock({ !$0.jobs.isEmpty }) { runTurn() }
                database = nil
                continuation.resume()
            }
        }
    }

    // MARK: Requests

    func add(_ listener: EventObserver) {
        if !listener.isForOneEvent { listeners.withLock { $0[listener.handle] = listener } }
        guard !perform({ $0.add(listener) }) else { return }
        forget(listener)
        callBack { listener.reportCancelled(.appIsDeleted) }
    }

    func removeListener(_ handle: DatabaseHandle, at path: Path) {
        let listener = listeners.withLock { listeners -> EventObserver? in
            guard let listener = listeners[handle], listener.registration.spec.path == path else { return nil }
            listeners[handle] = nil
            return listener
        }
        guard let listener else { return }
        listener.end()
        perform { $0.remove([listener]) }
    }

    func removeListeners(of spec: QuerySpec) {
        let removed = listeners.withLock { listeners in
            let removed = listeners.values.filter {
                let other = $0.registration.spec
                return other == spec || (spec.query == Query() && other.path == spec.path)
            }
            for listener in removed { listeners[listener.handle] = nil }
            return removed
        }
        guard !removed.isEmpty else { return }
        for listener in removed { listener.end() }
        perform { $0.remove(removed) }
    }

    /// Removes a listener from the table. It receives no more events.
    func forget(_ listener: EventObserver) { listeners.withLock { $0[listener.handle] = nil } }

    func write(_ content: PendingWrite.Content, at path: Path, _ completion: WriteCompletion?) {
        guard !performAndKeep({ $0.write(content, at: path, completion) }), let completion else { return }
        callBack { completion.report(DatabaseError.appIsDeleted) }
    }

    func onDisconnect(_ operation: OnDisconnectOperation, at path: Path, _ completion: WriteCompletion?) {
        guard !perform({ $0.onDisconnect(operation, at: path, completion) }), let completion else { return }
        callBack { completion.report(DatabaseError.appIsDeleted) }
    }

    func get(_ request: GetRequest) {
        guard !perform({ $0.get(request) }) else { return }
        callBack { request.report(.appIsDeleted) }
    }

    func wait(_ id: RequestID, _ wait: SeqWait, milliseconds: Int64?) {
        guard !perform({ $0.wait(id, wait, milliseconds: milliseconds) }) else { return }
        callBack { wait.end(DatabaseError.appIsDeleted) }
    }

    func run(_ transaction: TransactionRequest) {
        guard !perform({ $0.run(transaction) }) else { return }
        callBack { transaction.report(DatabaseError.appIsDeleted, isCommitted: false, nil) }
    }
}

extension DatabaseError {
    /// The error of requests to a database whose app was deleted.
    static var appIsDeleted: DatabaseError {
        DatabaseError(.unavailable, "The database's app was deleted: configure another app and use its database.")
    }
}
