package import ClientCore
internal import Runtime
internal import SQLite
package import Tree

/// A store in an SQLite file. Confined to the thread of its database.
///
/// The pending writes saved in a turn are one transaction, durable against power failure when `commit` returns. A removed write is
/// then durable against the end of the process, but a power failure may restore it, and it is sent again. Server data alone waits
/// until there are `mostWaiting` changes, a write is saved, or `flush` is called.
///
/// A damaged file is set aside, and a new file starts with the pending writes that could be read. After any other failure the store
/// neither saves nor reads anything.
package final class SQLiteClientStore: ClientStore {
    /// The maximum number of changes of server data that wait for a transaction.
    private static let mostWaiting = 1000

    package let path: String
    private let layout: StoreLayout
    private let report: (StorageNotice) -> Void
    private var file: StoreFile?
    package private(set) var isUsable = true
    package private(set) var generation = 0

    /// The number and urgency of the changes since the last commit, which determine when the next one is due.
    private var waiting = 0
    private var hasUrgentChange = false
    private var unsaved: [PendingWrite] = []
    private var removed: Set<WriteID> = []

    /// Opens a file. Creates it if it does not exist, and sets it aside if it is damaged.
    ///
    /// - Parameter report: Called on the thread of the database, also by this initializer.
    package init(
        path: String, layout: StoreLayout = StoreLayout(), report: @escaping (StorageNotice) -> Void
    ) throws(StorageError) {
        self.path = path
        self.layout = layout
        self.report = report
        do throws(SQLiteError) {
            let file = try Self.openPrivately(path, layout)
            let damaged = try file.removeDamagedWrites()
            _ = try file.trackedQueries()
            self.file = file
            if damaged > 0 { report(.writesDamaged(file: path, count: damaged)) }
        } catch {
            guard error.saysThatFileIsDamaged else { throw StorageError(error, file: path) }
            do throws(SQLiteError) { try restart(error) } catch { throw StorageError(error, file: path) }
        }
    }

    private static func openPrivately(_ path: String, _ layout: StoreLayout) throws(SQLiteError) -> StoreFile {
        do throws(PrivateFile.Failure) {
            if let slash = path.lastIndex(of: "/"), slash != path.startIndex {
                try PrivateFile.makeFolder(String(path[..<slash]))
            }
            try PrivateFile.make(path)
            for suffix in ["-wal", "-journal"] { try PrivateFile.refuseLink(path + suffix) }
        } catch { throw SQLiteError(failure: error) }
        return try StoreFile(.file(path), layout: layout)
    }

    // MARK: Failures

    private func attempt<Result>(
        _ otherwise: Result, _ body: (StoreFile) throws(SQLiteError) -> Result
    ) -> Result {
        guard isUsable, let file else { return otherwise }
        do throws(SQLiteError) { return try body(file) } catch {
            failed(error)
            return otherwise
        }
    }

    private func change(urgent: Bool, count: Int = 1, _ body: (StoreFile) throws(SQLiteError) -> Void) {
        attempt(()) { (file) throws(SQLiteError) in
            try file.begin()
            try body(file)
            waiting += count
            if urgent { hasUrgentChange = true }
        }
    }

    private func failed(_ error: SQLiteError) {
        if error.saysThatFileIsDamaged {
            do throws(SQLiteError) { return try restart(error) } catch { return stop(error) }
        }
        stop(error)
    }

    /// The file remains open, so that no other process can take it, and answered writes are still removed from it if possible.
    private func stop(_ error: SQLiteError) {
        isUsable = false
        file?.rollBack()
        report(.stopped(file: path, reason: error.description))
    }

    /// Sets the damaged file aside and creates a new one with those of its writes that can be read.
    private func restart(_ error: SQLiteError) throws(SQLiteError) {
        file?.rollBack()
        var writes: [WriteID: PendingWrite] = [:]
        if let connection = try? file?.connection ?? SQLiteConnection(.file(path), patience: 500) {
            for write in StoreFile.rescuedWrites(connection) + unsaved { writes[write.id] = write }
            connection.close()
        }
        file = nil
        for id in removed { writes[id] = nil }
        let newName = DamagedFiles.name(of: path, at: Clock.unixMilliseconds)
        do throws(PrivateFile.Failure) {
            _ = try PrivateFile.rename(path, to: newName)
            _ = try PrivateFile.rename(path + "-wal", to: newName + "-wal")
            PrivateFile.remove(path + "-shm")
            PrivateFile.remove(path + "-journal")
        } catch { throw SQLiteError(failure: error) }
        DamagedFiles.removeOld(of: path)
        let fresh = try Self.openPrivately(path, layout)
        try fresh.begin()
        for write in writes.values { try fresh.save(write) }
        try fresh.commit(isDurable: true)
        file = fresh
        generation += 1
        forgetChanges()
        report(
            .setAside(file: path, newName: newName, rescuedWrites: writes.count, reason: error.reason))
    }

    private func forgetChanges() {
        waiting = 0
        hasUrgentChange = false
        unsaved.removeAll()
        removed.removeAll()
    }

    // MARK: Saving

    package func commit() {
        guard hasUrgentChange || waiting >= Self.mostWaiting else { return }
        flush()
    }

    package func flush() {
        guard waiting > 0 else { return }
        attempt(()) { (file) throws(SQLiteError) in
            try file.commit(isDurable: !unsaved.isEmpty)
            forgetChanges()
        }
    }

    /// Saves all changes and closes the file. Nothing is saved or read afterwards.
    package func close() {
        flush()
        isUsable = false
        file?.connection.close()
        file = nil
    }

    /// Limits the file to a number of pages, to simulate a full disk. For tests.
    func limitPages(to count: Int) {
        attempt(()) { (file) throws(SQLiteError) in
            try file.connection.execute("PRAGMA max_page_count = \(count)")
        }
    }

    // MARK: Pending writes

    package func pendingWrites() -> [PendingWrite] {
        attempt([]) { (file) throws(SQLiteError) in try file.pendingWrites() }
    }

    package func save(_ write: PendingWrite) {
        unsaved.append(write)
        change(urgent: true) { (file) throws(SQLiteError) in try file.save(write) }
    }

    package func removeWrite(_ id: WriteID) {
        guard isUsable else {
            // If this succeeds, the write is not sent again after a restart.
            file?.removeWriteIfPossible(id)
            return
        }
        removed.insert(id)
        unsaved.removeAll { $0.id == id }
        change(urgent: true) { (file) throws(SQLiteError) in try file.removeWrite(id) }
    }

    package func signIn() -> SignInState {
        attempt(SignInState()) { (file) throws(SQLiteError) in try file.signIn() }
    }

    package func save(_ signIn: SignInState) {
        change(urgent: true) { (file) throws(SQLiteError) in try file.save(signIn) }
    }

    // MARK: Server data

    package func serverData(at path: Path) -> Node {
        attempt(.null) { (file) throws(SQLiteError) in try file.serverData(at: path) }
    }

    package func serverData(at path: Path, children: Set<Key>) -> Node {
        attempt(.null) { (file) throws(SQLiteError) in try file.serverData(at: path, children: children) }
    }

    package func setServerData(_ node: Node, at path: Path) {
        change(urgent: false, count: 1 + node.rowCount) { (file) throws(SQLiteError) in
            try file.setServerData(node, at: path)
        }
    }

    package func mergeServerData(_ changes: [Change], at path: Path) {
        for change in changes { setServerData(change.value, at: path.appending(change.path)) }
    }

    package func prune(below path: Path, keeping: [Path]) {
        change(urgent: false) { (file) throws(SQLiteError) in try file.prune(below: path, keeping: keeping) }
    }

    package func serverDataBytes() -> Int { isUsable ? file?.cacheBytes ?? 0 : 0 }

    // MARK: Tracked queries

    package func trackedQueries() -> [TrackedQuery] {
        attempt([]) { (file) throws(SQLiteError) in try file.trackedQueries() }
    }

    package func save(_ query: TrackedQuery) {
        change(urgent: false) { (file) throws(SQLiteError) in try file.save(query) }
    }

    package func removeTrackedQuery(_ id: Int64) {
        change(urgent: false) { (file) throws(SQLiteError) in try file.removeTrackedQuery(id) }
    }

    package func trackedKeys(_ id: Int64) -> Set<Key> {
        attempt([]) { (file) throws(SQLiteError) in try file.trackedKeys(id) }
    }

    package func setTrackedKeys(_ keys: Set<Key>, of id: Int64) {
        change(urgent: false) { (file) throws(SQLiteError) in try file.setTrackedKeys(keys, of: id) }
    }

    package func updateTrackedKeys(adding: Set<Key>, removing: Set<Key>, of id: Int64) {
        change(urgent: false) { (file) throws(SQLiteError) in
            try file.updateTrackedKeys(adding: adding, removing: removing, of: id)
        }
    }
}

extension SQLiteError {
    /// All statements of this module are correct, so a failing statement means that the schema was changed. The file of a later
    /// version is left unchanged.
    fileprivate var saysThatFileIsDamaged: Bool {
        kind == .damaged || (kind == .misuse && code != SQLiteError.misuseCode)
    }
}

/// The reason why there is no store.
package enum StorageError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another process, or another database object of this process, has the file. Files are not shared, because each process would
    /// send the other's pending writes.
    case inUse(file: String)
    /// A later version of the library wrote the file.
    case laterVersion(file: String, reason: String)
    /// The file cannot be opened or created.
    case unavailable(file: String, reason: String)

    init(_ error: SQLiteError, file: String) {
        switch error.kind {
        case .inUse: self = .inUse(file: file)
        case .misuse: self = .laterVersion(file: file, reason: error.reason)
        default: self = .unavailable(file: file, reason: error.description)
        }
    }

    package var description: String {
        switch self {
        case .inUse(let file):
            "The database file \(file) is in use by another process; give each process its own folder, or end the "
                + "other process"
        case .laterVersion(let file, let reason):
            "The database file \(file) can't be read: \(reason). Use a newer version of the library, or remove the file"
        case .unavailable(let file, let reason):
            "The database file \(file) can't be opened: \(reason). Check its folder's permissions and space"
        }
    }
}

/// A message of a database about its store's failure. Each is reported once.
package enum StorageNotice: Sendable, Equatable, CustomStringConvertible {
    /// The file was damaged and has been renamed. The store restarted with the writes that could be read.
    case setAside(file: String, newName: String, rescuedWrites: Int, reason: String)
    /// Some pending writes are damaged and are not sent.
    case writesDamaged(file: String, count: Int)
    /// The store could not be opened: the database works in memory.
    case unavailable(StorageError)
    /// The store saves nothing from now on, and the database continues in memory. Writes are lost if the process
    /// ends before they are sent.
    case stopped(file: String, reason: String)

    package var description: String {
        switch self {
        case .setAside(let file, let newName, let rescuedWrites, let reason):
            "The database file \(file) is damaged (\(reason)). It was renamed to \(newName), and a new file was created with "
                + "\(rescuedWrites) of its pending writes; other data is loaded from the server again"
        case .writesDamaged(let file, let count):
            "\(count) pending writes in \(file) are damaged and can't be sent"
        case .unavailable(let error):
            "\(error). The database works in memory: writes that are not sent before the process ends are lost"
        case .stopped(let file, let reason):
            "Nothing more can be stored in \(file): \(reason). The database continues in memory: writes that are not sent "
                + "before the process ends are lost. Free space or repair the device, and start the program again"
        }
    }
}

/// Damaged files that were set aside. A limited number is kept for analysis.
enum DamagedFiles {
    /// The maximum number of files kept for a database. The newest are kept.
    static let mostKept = 3

    /// Returns the new name of a damaged file. Times in milliseconds since 1970 have 13 digits until 2286.
    static func name(of path: String, at time: Int64) -> String { "\(path).damaged-\(time)" }

    /// Removes all files except the newest.
    static func removeOld(of path: String) {
        let start = "\(path).damaged-"
        let times = PrivateFile.siblings(of: start).compactMap { Int64($0.dropFirst(start.count)) }
        for time in times.sorted().dropLast(mostKept) {
            let old = name(of: path, at: time)
            PrivateFile.remove(old)
            PrivateFile.remove(old + "-wal")
        }
    }
}
