import ClientCore
import ClientSupport
import Dispatch
import Foundation
import Synchronization
import TestSupport
import Tree

@testable import PathmirrorClient

/// One app of the model, with its listeners; it can be ended and restarted.
final class ModelClient {
    let number: Int
    let round: Path
    let proxy: FaultProxy?
    private let url: String
    private let name: String
    private let directory: String?
    private let cacheBytes: UInt
    let journal: WriteJournal
    private(set) var database: Database
    private(set) var watches: [(watch: Watch, query: DatabaseQuery, handle: DatabaseHandle)] = []
    var isOffline = false
    private let lossCounter = LossCounter()

    /// Counts the connections that have ended, as observed by the app.
    final class LossCounter: Sendable {
        let count = Atomic<Int>(0)
        private let wasConnected = Atomic<Bool>(false)

        func take(isConnected: Bool) {
            let before = wasConnected.exchange(isConnected, ordering: .acquiringAndReleasing)
            if before, !isConnected { count.add(1, ordering: .acquiringAndReleasing) }
        }
    }

    init(
        number: Int, round: Path, port: UInt16, proxy: FaultProxy?, directory: String?, cacheBytes: UInt,
        journal: WriteJournal
    ) {
        self.number = number
        self.round = round
        self.proxy = proxy
        self.directory = directory
        self.cacheBytes = cacheBytes
        self.journal = journal
        url = "http://127.0.0.1:\(proxy?.port ?? port)"
        name = "model \(round) \(number)"
        database = Self.start(name, url, directory, cacheBytes)
        begin()
    }

    private static func start(_ name: String, _ url: String, _ directory: String?, _ bytes: UInt) -> Database {
        let app = PathmirrorApp.configure(url: url, name: name, directory: directory.map { URL(fileURLWithPath: $0) })
        let database = Database.database(app: app)
        database.callbackQueue = DispatchQueue(label: name)
        database.isPersistenceEnabled = directory != nil
        database.configure { settings in
            settings.cacheBytes = bytes
            settings.getWait = 50
            settings.connection = { connection in
                connection.firstRetry = 5
                connection.longestRetry = 50
                connection.pingWhenOwed = 300
                connection.pingWhenIdle = 600
                connection.pongTimeout = 600
                connection.connectTimeout = 2_000
            }
        }
        return database
    }

    private func begin() {
        let counter = lossCounter
        database.reference(withPath: ".info/connected").observe(.value) { snapshot in
            counter.take(isConnected: snapshot.value as? Bool ?? false)
        }
        // The barrier is written last: its arrival shows that all earlier data has arrived.
        listen(Watch(path: round.appending(ModelPaths.barrier), query: PlainQuery(), kinds: .value))
    }

    var isPersistent: Bool { directory != nil }
    var losses: Int { lossCounter.count.load(ordering: .acquiring) }
    var lossesNow: @Sendable () -> Int {
        let counter = lossCounter
        return { counter.count.load(ordering: .acquiring) }
    }

    func reference(_ path: Path) -> DatabaseReference { database.reference(withPath: path.description) }

    /// Ends the app, and optionally restarts it. Returns the problems of its listeners.
    func end(startsAgain: Bool) async -> [String] {
        let problems = watches.flatMap(\.watch.problems)
        await database.app?.delete()
        // Completions receive nothing more, but those already on the queue still run.
        let queue = database.callbackQueue
        await withUnsafeContinuation { continuation in queue.async { continuation.resume() } }
        lossCounter.take(isConnected: false)
        watches = []
        journal.clientEnded(number, keepsWrites: isPersistent, losses: losses)
        if startsAgain {
            isOffline = false
            database = Self.start(name, url, directory, cacheBytes)
            begin()
        }
        return problems
    }

    // MARK: Listeners

    func listen(_ watch: Watch) {
        let query = watch.query.query(at: reference(watch.path))
        let handle: DatabaseHandle
        if watch.kinds == .value {
            handle = query.observe(.value, with: { watch.take(.value, $0) }, withCancel: { watch.cancel($0) })
        } else {
            // All kinds use one registration, as in `childEvents()`, so that no event comes between the first and the
            // last.
            let cancel: (any Error) -> Void = { watch.cancel($0) }
            handle = query.listen(watch.kinds, cancel: cancel) { kind, snapshot in watch.take(kind, snapshot) }
        }
        watches.append((watch, query, handle))
    }

    /// Removes a random listener. Returns the problems that it found.
    func unlisten(_ random: inout SeededGenerator) -> [String] {
        // The first listener, for the barrier, stays.
        guard watches.count > 1 else { return [] }
        let (watch, query, handle) = watches.remove(at: 1 + random.below(watches.count - 1))
        query.removeObserver(withHandle: handle)
        return watch.problems
    }

    // MARK: Connection

    func setOffline(_ isOffline: Bool) {
        self.isOffline = isOffline
        if isOffline { database.goOffline() } else { database.goOnline() }
    }
}
