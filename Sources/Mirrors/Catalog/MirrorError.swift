public import JSONText
public import LogStore
public import Postgres

/// What can go wrong with a mirror.
public enum MirrorError: Error, Sendable, CustomStringConvertible {
    case database(PostgresError)
    case log(LogStoreError)
    /// One mirror's table refused what it was told; the others are well.
    case table(mirror: String, PostgresError)
    /// Somebody else has moved the cursor or changed the definition: read them anew.
    case moved
    /// Somebody else is at work on these mirrors' tables.
    case held([String])
    /// The entries behind the cursor are not in the log any more.
    case pruned(cursor: Int64, retainedFrom: Int64)
    /// Asked to stop.
    case stopped
    /// The namespace has no mirror of that name.
    case unknownMirror(name: String, namespace: String)
    /// Something to tell the operator, as a sentence.
    case refused(String)
    /// A stored definition that this program can't read.
    case definition(DefinitionError)

    public var description: String {
        switch self {
        case .database(let error): "\(error)"
        case .log(let error): "\(error)"
        case .table(let mirror, let error): "The table of mirror \"\(mirror)\" can't be written: \(error)"
        case .moved: "The mirror was changed by somebody else meanwhile."
        case .held(let names): "Somebody else is at work on the tables of \(names.joined(separator: ", "))."
        case .pruned(let cursor, let retainedFrom):
            "The mirror is at seq \(cursor), but the log begins at \(retainedFrom): make it anew with 'pathmirror replay mirror'."
        case .stopped: "Stopped."
        case .unknownMirror(let name, let namespace): "There is no mirror \"\(name)\" of namespace \"\(namespace)\"."
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

    /// Nothing came back in time: neither an answer nor a refusal.
    var isSilence: Bool {
        if case .database(let error) = self { error.kind == .timeout || error.isSilentConnect } else { false }
    }

    /// The connection to one of the databases is gone.
    var endsConnection: Bool {
        switch self {
        case .database(let error), .table(_, let error): error.endsConnection
        case .log(let error): error.isConnectionLost
        default: false
        }
    }
}
