import LogStore

/// Why the engine could not do what was asked; nothing was written unless the case says otherwise.
public enum EngineError: Error, Sendable, Equatable, CustomStringConvertible {
    case unknownNamespace(String)
    /// PostgreSQL can't be reached, or refused.
    case unavailable(String)
    /// PostgreSQL was lost during COMMIT and did not come back in time: the write may be in the log or not.
    case outcomeUnknown
    /// The namespace is on its way to another database, or there already: whoever comes again finds it where it is then.
    case moving
    /// More writes are waiting than the settings allow.
    case overloaded
    /// The gateway is shutting down.
    case stopping
    /// The database holds what Pathmirror never writes.
    case corrupt(String)

    public var description: String {
        switch self {
        case .unknownNamespace(let name): "There is no namespace \"\(name)\"."
        case .unavailable(let reason): "The database is unavailable: \(reason)"
        case .outcomeUnknown:
            "The database was lost while the write was committed: it may have been written or not. Read it before trying again."
        case .moving: "The namespace moves to another database. Try again later."
        case .overloaded: "Too many writes are waiting. Try again later."
        case .stopping: "The gateway is shutting down."
        case .corrupt(let what): "The stored data is damaged: \(what)"
        }
    }
}

extension EngineError {
    /// What a failure of the database means for a write of which nothing was written.
    init(_ error: LogStoreError) {
        switch error {
        case .corrupt(let what): self = .corrupt(what)
        case .unknownNamespace(let name): self = .unknownNamespace(name)
        case .stopped: self = .stopping
        default: self = .unavailable("\(error)")
        }
    }
}
