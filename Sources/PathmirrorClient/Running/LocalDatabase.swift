internal import ClientCore
internal import Foundation
internal import Runtime
internal import Tree
internal import Wire

/// A running database: its data, its listeners, its connection and its disk cache. Confined to the queue of its `Repository`, which
/// calls `carryOutEffects` after each step and `endTurn` after several steps.
final class LocalDatabase {
    let settings: DatabaseSettings
    unowned let outside: Repository
    /// The server's address, for messages.
    let origin: String
    let tokenProvider: PathmirrorApp.TokenProvider?
    let transport: any RealtimeTransport

    let tree: SyncTree
    /// The tree of `.info`, which the client itself answers.
    let infoTree = SyncTree()
    var info: [Path: Node] = [:]
    private(set) var cache: CacheManager?
    private(set) var store: (any ClientStore)?

    var machine: ConnectionMachine
    var channel: (number: ConnectionNumber, channel: any RealtimeChannel)?
    var isOffline = false
    var isConnected = false
    var outageNotices = OutageNotices()
    private(set) var isClosed = false
    /// Whether writes of an earlier run wait until a user signs in.
    var isHoldingRestored = false
    var hasReportedHeldWrites = false
    /// The most recent token request.
    var token: TokenQuestion?
    var isHoldingWrites = false

    var bareListens = BareListens()
    var listeners: [RegistrationID: EventObserver] = [:]
    /// The paths of the writes that the server has not answered.
    var unanswered: [WriteID: Path] = [:]
    var hasRestoredWrites = false
    var completions: [WriteID: WriteCompletion] = [:]
    let writeNumbers = WriteNumbers()
    /// Identifies the writes of this run. Each run has its own identifier, because a copy of the app's file must not produce the
    /// same names as the copied file.
    let writer = WriteName.makeWriter()
    var namedWrites: Int64 = 0
    var lastRequest: UInt64 = 0
    var disconnectRequests: [RequestID: (path: Path, completion: WriteCompletion?)] = [:]
    var disconnectQueue = DisconnectQueue()
    var gets = PendingGets()
    /// The callers that wait for entries of the server's log.
    var waits: [RequestID: SeqWait] = [:]
    /// The path of the last answered get request.
    var lastGet: Path?
    let transactions: TransactionQueue
    var transactionRequests: [TransactionID: RunningTransaction] = [:]

    /// The callbacks to run at the end of the turn, in order.
    private var callbacks: [@Sendable () -> Void] = []
    /// The time at which a running timer will call `wake`, or nil if there is none.
    private var wakesAt: Int64?
    private var flushesAt: Int64?
    /// Whether the turn only flushes, so that no further flush is needed.
    private var onlyFlushes = false

    init(address: DatabaseAddress, settings: DatabaseSettings, app: PathmirrorApp?, outside: Repository) {
        self.settings = settings
        self.outside = outside
        origin = address.origin
        tokenProvider = app?.tokenProvider
        transport = settings.transport ?? app?.transport ?? NoTransport()
        store = settings.isPersistenceEnabled ? app.flatMap { DatabaseFile.open(address, of: $0) } : nil
        cache = store.map { CacheManager(store: $0, budget: Int(settings.cacheBytes)) }
        tree = SyncTree(cache: cache)
        transactions = TransactionQueue(
            tree: tree, makeWriteID: writeNumbers.next,
            makeRegistrationID: { RegistrationID(rawValue: UInt64(EventObserver.nextHandle())) },
            serverTime: { [unowned outside] in Clock.unixMilliseconds + outside.serverTimeOffset })
        var connection = ConnectionSettings(
            host: address.host, port: address.port, isSecure: address.isSecure, namespace: address.namespace)
        settings.connection?(&connection)
        machine = ConnectionMachine(connection, seed: UInt64.random(in: 0 ... .max))
    }

    var now: Int64 { Clock.monotonicMilliseconds }
    /// The server's time in milliseconds since 1970, if known; otherwise this machine's.
    var serverTime: Int64 { Clock.unixMilliseconds + outside.serverTimeOffset }

    func start(isOffline: Bool) {
        setInfo(InfoPath.connected, .bool(false))
        setInfo(InfoPath.serverTimeOffset, .int(0))
        restoreWrites()
        holdRestoredWrites()
        self.isOffline = isOffline
        if !isOffline { machine.goOnline(now: now) }
    }

    func setOffline(_ isOffline: Bool) {
        self.isOffline = isOffline
        if isOffline { machine.goOffline(now: now) } else { machine.goOnline(now: now) }
        if isOffline { answerGetsFromCache() }
    }

    /// Closes the database and fails the pending requests. Pending writes remain on disk.
    func close() {
        isClosed = true
        token?.task.cancel()
        token = nil
        setOffline(true)
        carryOutEffects()
        giveUpAnswers()
        endWaits()
        cache?.flush()
        cache = nil
        store = nil
    }

    // MARK: Turns

    /// Runs the body on the callback queue after the end of the turn.
    func callBack(_ body: @escaping @Sendable () -> Void) { callbacks.append(body) }

    /// Stores the changes of the turn and then runs its callbacks, so that an app that terminates in a callback
    /// finds the data it was shown.
    func endTurn() {
        cache?.commit()
        if !callbacks.isEmpty {
            let batch = callbacks
            callbacks = []
            outside.callBack {
                for callback in batch { callback() }
            }
        }
        // The delay starts with the first change: steady traffic does not postpone the flush, and an idle database sets no timer.
        if cache != nil, !onlyFlushes, flushesAt == nil { flushesAt = now + settings.flushDelay }
        onlyFlushes = false
        armTimer()
    }

    /// Sets the common timer of all deadlines. A timer that expires earlier continues to run, and then sets the next one.
    private func armTimer() {
        guard !isClosed else { return }
        let wanted = [machine.deadline, flushesAt, gets.deadline, token?.isAwaitedUntil].compactMap(\.self).min()
        guard let wanted, wakesAt.map({ wanted < $0 }) ?? true else { return }
        wakesAt = wanted
        outside.perform(after: wanted - now) { $0.wake() }
    }

    private func wake() {
        let now = now
        // The timer was replaced by an earlier one.
        guard let wakesAt, wakesAt <= now else { return }
        self.wakesAt = nil
        let isMachineDue = machine.deadline.map { $0 <= now } ?? false
        let areGetsDue = gets.deadline.map { $0 <= now } ?? false
        if isMachineDue { machine.timePassed(now: now) }
        if let until = token?.isAwaitedUntil, until <= now { stopWaitingForToken() }
        if areGetsDue { answerGetsFromCache(before: now) }
        if let time = flushesAt, time <= now {
            cache?.flush()
            flushesAt = nil
            onlyFlushes = !isMachineDue && !areGetsDue
        }
    }
}

extension LocalDatabase {
    /// Fails all requests that wait for the server because the database is closing. Otherwise their callers would wait forever.
    func giveUpAnswers() {
        let error = DatabaseError(
            .disconnected,
            "The app was deleted before the server had answered. "
                + (cache == nil
                    ? "Sent requests may have been executed, the others are lost."
                    : "Plain writes are stored, and sent when the app is configured again; other requests may have been executed or not.")
        )
        for id in completions.keys.sorted() {
            guard let completion = completions.removeValue(forKey: id) else { continue }
            callBack { completion.report(error) }
        }
        for id in transactionRequests.keys.sorted() {
            guard let request = transactionRequests.removeValue(forKey: id)?.request else { continue }
            callBack { request.report(error, isCommitted: false, nil) }
        }
        for id in disconnectRequests.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            guard let completion = disconnectRequests.removeValue(forKey: id)?.completion else { continue }
            callBack { completion.report(error) }
        }
    }
}

/// The file of a database, one for each app, server and name.
enum DatabaseFile {
    static func path(of address: DatabaseAddress, app: PathmirrorApp) -> String {
        var folder = app.directory
        if app.name != PathmirrorApp.defaultName { folder.append(component: PercentEncoding.encode(app.name.utf8)) }
        let server = PercentEncoding.encode("\(address.host):\(address.port)".utf8)
        folder.append(component: "\(server)_\(PercentEncoding.encode(address.namespace.utf8)).sqlite")
        return folder.path
    }

    /// Opens the file. On failure, logs the reason and returns nil; the database then works in memory.
    static func open(_ address: DatabaseAddress, of app: PathmirrorApp) -> (any ClientStore)? {
        let report = { (notice: StorageNotice) in ClientLog.warning("\(notice)") }
        do throws(StorageError) {
            return try SQLiteClientStore(path: path(of: address, app: app), report: report)
        } catch {
            report(.unavailable(error))
            return nil
        }
    }
}

/// Generates the numbers of writes. They ascend across restarts as long as writes of earlier runs are known.
final class WriteNumbers {
    private var last: Int64 = 0

    func next() -> WriteID {
        last += 1
        return WriteID(rawValue: last)
    }

    /// Makes all later numbers greater than `id`.
    func skip(to id: WriteID) { last = max(last, id.rawValue) }
}

/// A transport without a network. Every connection fails.
struct NoTransport: RealtimeTransport {
    func connect(
        to address: RealtimeAddress, _ observer: @escaping @Sendable (TransportEvent) -> Void
    ) -> any RealtimeChannel {
        observer(.closed(.unreachable("this build has no transport")))
        return Channel()
    }

    private struct Channel: RealtimeChannel {
        func send(_ text: [UInt8]) {}
        func close() {}
        func processed(_ byteCount: Int) {}
    }
}
