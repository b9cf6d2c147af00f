import LogStore

/// The reason why the engine could not execute a request. Nothing was written unless the case states otherwise.
public enum EngineError: Error, Sendable, Equatable, CustomStringConvertible {
    case unknownNamespace(String)
    /// PostgreSQL cannot be reached, or rejected the request.
    case unavailable(String)
    /// The connection to PostgreSQL was lost during COMMIT and could not be restored in time: the write may or may not
    /// be in the log.
    case outcomeUnknown
    /// The namespace is moving to another database, or has already moved. A client that retries later finds it there.
    case moving
    /// More requests are waiting than the gateway's limits allow.
    case overloaded
    /// The gateway is shutting down.
    case stopping
    /// The namespace follows an upstream database, and the write is not a message of that upstream.
    case readOnly
    /// Another gateway follows the namespace by now, or the write's message is not the one after the last committed one.
    /// An earlier attempt may commit the message: the follower reads the stored position.
    case superseded
    /// The database contains data that Pathmirror never writes.
    case corrupt(String)

    public var description: String {
        switch self {
        case .unknownNamespace(let name): "There is no namespace \"\(name)\"."
        case .unavailable(let reason): "The database is unavailable: \(reason)"
        case .outcomeUnknown:
            "The connection to the database was lost during the commit: the write may have been committed or not. Read the data before trying again."
        case .moving: "The namespace is being moved to another database. Try again later."
        case .overloaded: "Too many writes are waiting. Try again later."
        case .stopping: "The gateway is shutting down."
        case .readOnly: "The namespace follows an upstream database and is read-only. Write to the upstream."
        case .superseded:
            "Another gateway follows the upstream by now, or an earlier message was not committed. Read the position again."
        case .corrupt(let what): "The stored data is damaged: \(what)"
        }
    }
}

extension EngineError {
    /// Converts a database failure to the error of a write of which nothing was written.
    init(_ error: LogStoreError) {
        switch error {
        case .corrupt(let what): self = .corrupt(what)
        case .unknownNamespace(let name): self = .unknownNamespace(name)
        case .stopped: self = .stopping
        case .followsUpstream: self = .readOnly
        default: self = .unavailable("\(error)")
        }
    }
}
