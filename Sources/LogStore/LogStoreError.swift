public import Postgres

/// An error between a gateway and its log.
public enum LogStoreError: Error, Sendable, CustomStringConvertible {
    /// PostgreSQL rejected a statement, or the connection failed.
    case database(PostgresError)
    /// The database has no Pathmirror schema, or an older one.
    case schemaMissing(found: Int, needed: Int)
    /// The database was migrated by a newer Pathmirror.
    case schemaTooNew(found: Int, known: Int)
    /// An applied migration differs from this program's.
    case migrationChanged(version: Int)
    /// The database's functions differ from this program's files.
    case functionsChanged(file: String)
    case unknownNamespace(String)
    /// The namespace lives in another database, or can't live in this one. Nothing was created.
    case misplaced(String)
    /// An import in chunks conflicted with another client's write.
    case importConflict(String)
    /// The namespace follows an upstream database, so only its follower may write to it. Nothing was written.
    case followsUpstream
    /// The database contains something that this program never writes.
    case corrupt(String)
    /// The log does not contain this part of the entry at `seq`. `count` is the number of parts of the entry, or nil if
    /// the entry is not in the log, for example because retention removed it. If `part` is below `count`, the log is
    /// damaged.
    case partMissing(seq: Int64, part: Int32, count: Int32?)
    /// The program is stopping. The operation in progress was abandoned.
    case stopped
    /// The server is a standby.
    case standby
    /// The server is a primary but accepts no writes.
    case readOnly
    /// The server is on an older timeline than a server that answered before and has taken over from it.
    case outdated(timeline: Int64, newest: Int64)
    /// The database that answers is not the one that was added under this name: it has another id, or none if `found`
    /// is nil.
    case anotherInstallation(database: String, expected: String, found: String?)

    /// Wraps any error of a database operation.
    public init(_ error: any Error) {
        switch error {
        case let error as LogStoreError: self = error
        case let error as PostgresError: self = .init(error)
        default: self = .corrupt("\(error)")
        }
    }

    /// Wraps an error of a statement.
    init(_ error: PostgresError) {
        self = error.sqlState == SchemaErrorCode.following.rawValue ? .followsUpstream : .database(error)
    }

    public var description: String {
        switch self {
        case .database(let error) where error.sqlState == SchemaErrorCode.following.rawValue:
            LogStoreError.followsUpstream.description
        case .database(let error): "\(error)"
        case .followsUpstream:
            """
            The namespace follows an upstream database and is read-only: write to the upstream, or end the following with \
            'pathmirror follow rm'.
            """
        case .standby:
            "The server is a standby, which accepts no writes: connect to the primary, or promote the standby."
        case .readOnly:
            "The server accepts no writes: default_transaction_read_only is on for the server, this database or this role. Set it to off."
        case .outdated(let timeline, let newest):
            """
            The server is on timeline \(timeline), and a server on timeline \(newest) has replaced it. Stop the server on \
            timeline \(timeline). If it is the right server, restart this gateway.
            """
        case .anotherInstallation(let database, let expected, let found):
            """
            At the address of database "\(database)" is another database (\(found ?? "without Pathmirror's schema")) instead of the \
            one that was added (\(expected)), so Pathmirror does not use it. Move the right database back to its address, or \
            register its new address with 'pathmirror database add \(database) URL' and restart the gateways.
            """
        case .schemaMissing(let found, let needed):
            "The database's schema is at version \(found), this program needs \(needed): run 'pathmirror migrate up'."
        case .schemaTooNew(let found, let known):
            "The database's schema is at version \(found), this program knows up to \(known): use a newer pathmirror."
        case .migrationChanged(let version):
            "Migration \(version) in the database differs from this program's: another build of pathmirror made the database. Use that build."
        case .functionsChanged(let file):
            "The database's functions of \"\(file)\" differ from this program's: run 'pathmirror migrate up'."
        case .unknownNamespace(let name): "There is no namespace \"\(name)\"."
        case .importConflict(let what), .misplaced(let what): what
        case .stopped: "The program is stopping."
        case .corrupt(let what): "The database holds data that Pathmirror never writes: \(what)."
        case .partMissing(let seq, _, nil):
            "Entry \(seq) is not in the log. Retention may have removed the entry during the read: read from a retained entry."
        case .partMissing(let seq, let part, let count?) where part < count:
            "Entry \(seq) of the log is damaged: part \(part) of its \(count) parts is missing. Continue with the next entry, and load the tree at that position."
        case .partMissing(let seq, let part, let count?):
            "Entry \(seq) of the log has \(count) parts: there is no part \(part)."
        }
    }

    /// Whether a lock of another transaction caused the error. Nothing was written, and another attempt may succeed.
    public var isLockConflict: Bool {
        guard case .database(let error) = self, let state = error.sqlState else { return false }
        // Deadlock detected; serialization failure; lock not available.
        return ["40P01", "40001", "55P03"].contains(state)
    }

    /// Whether the server did not respond in time, neither with an answer nor with a rejection.
    public var isSilence: Bool {
        if case .database(let error) = self { error.kind == .timeout || error.isSilentConnect } else { false }
    }

    /// Whether no connection can be opened or the connection was lost, because the server or the database may be
    /// unavailable. False if a different database answers than the expected one.
    public var isUnreachable: Bool {
        if case .database(let error) = self { error.endsConnection } else { false }
    }

    /// Whether the server responds but must not be used.
    public var isRefusedServer: Bool {
        switch self {
        case .standby, .readOnly, .outdated, .anotherInstallation: true
        default: false
        }
    }

    /// Whether the program is stopping and nothing went wrong.
    public var isStop: Bool {
        if case .stopped = self { true } else { false }
    }

    /// Whether the server has committed without its standby, so that a failover may lose the commit: see
    /// `PostgresError.Kind.localCommit`.
    public var isLocalCommit: Bool {
        if case .database(let error) = self { error.kind == .localCommit } else { false }
    }

    /// Whether another transaction held a lock for longer than this session waits for one. Nothing was written.
    public var isLockTimeout: Bool {
        if case .database(let error) = self { error.kind == .server(sqlState: "55P03") } else { false }
    }

    /// Whether the connection is lost. The outcome of an operation in flight is unknown.
    public var isConnectionLost: Bool {
        switch self {
        case .database(let error): error.isConnectionLost || error.kind == .connect || error.isServerGoingAway
        case .standby, .readOnly, .outdated, .anotherInstallation: true
        default: false
        }
    }
}

extension PostgresError {
    /// Whether the server is shutting down or starting up, has ended this session, or no longer accepts writes.
    var isServerGoingAway: Bool {
        guard let state = sqlState else { return false }
        if isReadOnlyServer { return true }
        return state.hasPrefix("57P") || state.hasPrefix("08")
    }

    /// Whether the connection can't be used any more.
    public var endsConnection: Bool { isConnectionLost || kind == .connect || isServerGoingAway }
}

/// Runs `body`, and wraps its errors in `LogStoreError`.
func translated<Result>(_ body: () throws(PostgresError) -> Result) throws(LogStoreError) -> Result {
    do {
        return try body()
    } catch {
        throw LogStoreError(error)
    }
}

extension LogStoreError {
    /// The error of a function that reads the row of a namespace. Without the row it raises `no_data_found`: the namespace was removed or
    /// moved.
    init(_ error: PostgresError, of namespace: Int64) {
        self = error.sqlState == "P0002" ? .unknownNamespace("\(namespace)") : LogStoreError(error)
    }
}

/// The SQLSTATEs that functions of schema `pathmirror` raise, besides those of PostgreSQL. docs/reference/sqlstates.md is printed
/// from them.
enum SchemaErrorCode: String, CaseIterable {
    case headMoved = "PM001"
    case ordersTaken = "PM002"
    case alreadyDone = "PM003"
    case logNeeded = "PM004"
    case misplaced = "PM005"
    case following = "PM006"
    case superseded = "PM007"

    /// The reason for which a function raises the code.
    var meaning: String {
        switch self {
        case .headMoved:
            "The head of the namespace is not the seq that the writer expected: another writer committed first."
        case .ordersTaken: "Another gateway executed or changed the session's onDisconnect operations."
        case .alreadyDone:
            """
            This write or a later write of its writer was already committed; another worker owns the feed; or `wait_for` \
            reached its timeout.
            """
        case .logNeeded:
            "Retention must not drop these entries: a reader needs them, a snapshot is missing, or a move is in progress."
        case .misplaced: "The namespace is in another database, or is being moved to or from this database."
        case .following:
            "The namespace follows an upstream database: only the gateway that follows may write to it."
        case .superseded:
            "Another gateway follows the upstream by now, or the message is not the one after the last committed one."
        }
    }

    /// The caller's reaction to the code.
    var remedy: String {
        switch self {
        case .headMoved: "Begin a new transaction and write again."
        case .ordersTaken: "None: the operations were executed."
        case .alreadyDone: "Do not write again. After `wait_for`: find out why the mirror lags, or wait longer."
        case .logNeeded: "`pathmirror retention ls` names the reader."
        case .misplaced: "Connect to the database that has the namespace: `pathmirror namespace ls` names it."
        case .following: "Write to the upstream. `pathmirror follow status` names it."
        case .superseded: "Read the position of the namespace's row in `follow`, or let the other gateway follow."
        }
    }
}

extension SchemaErrorCode {
    /// Returns the schema's code of a failed statement, or nil for PostgreSQL's own codes.
    init?(_ error: any Error) {
        guard let state = (error as? PostgresError)?.sqlState else { return nil }
        self.init(rawValue: state)
    }
}
