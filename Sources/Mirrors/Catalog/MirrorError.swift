public import JSONText
public import LogStore
public import Postgres

/// The ways in which a mirror can fail.
public enum MirrorError: Error, Sendable, CustomStringConvertible {
    case database(PostgresError)
    case log(LogStoreError)
    /// One mirror's table rejected a write; the other mirrors are not affected.
    case table(mirror: String, PostgresError)
    /// Another session has moved the cursor or changed the definition: the caller must read them again.
    case moved
    /// Another session is working on the tables of the mirrors with these names.
    case held([String])
    /// The entries after the cursor have been pruned from the log.
    case pruned(cursor: Int64, retainedFrom: Int64)
    /// The namespace has no mirror of this name.
    case unknownMirror(name: String, namespace: String)
    /// A message for the operator, as a sentence.
    case refused(String)
    /// This program can't read a stored definition.
    case definition(DefinitionError)

    public var description: String {
        switch self {
        case .database(let error): "\(error)"
        case .log(let error): "\(error)"
        case .table(let mirror, let error): "The table of mirror \"\(mirror)\" can't be written: \(error)"
        case .moved: "Another process changed the mirror: try again."
        case .held(let names):
            "Another process is changing the tables of \(names.joined(separator: ", ")): try again when it has ended."
        case .pruned(let cursor, let retainedFrom):
            "The mirror is at seq \(cursor), but the log begins at \(retainedFrom): rebuild the mirror with 'pathmirror replay mirror'."
        case .unknownMirror(let name, let namespace): "There is no mirror \"\(name)\" in namespace \"\(namespace)\"."
        case .refused(let reason): reason
        case .definition(let error): "\(error)"
        }
    }

    init(_ error: any Error) {
        switch error {
        case let error as MirrorError: self = error
        case let error as PostgresError: self = .database(error)
        case let error as LogStoreError:
            if case .database(let database) = error { self = .database(database) } else { self = .log(error) }
        case let error as DefinitionError: self = .definition(error)
        default: self = .refused("\(error)")
        }
    }

    /// Whether a database did not answer in time.
    var isSilence: Bool {
        if case .database(let error) = self { error.kind == .timeout || error.isSilentConnect } else { false }
    }

    /// Whether the connection to one of the databases is lost.
    var endsConnection: Bool {
        switch self {
        case .database(let error), .table(_, let error): error.endsConnection
        case .log(let error): error.isConnectionLost
        default: false
        }
    }
}
