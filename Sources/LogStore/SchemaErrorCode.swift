import Postgres

/// The SQLSTATEs that functions of schema `pathmirror` raise, besides those of PostgreSQL. docs/reference/sqlstates.md is printed
/// from them.
enum SchemaErrorCode: String, CaseIterable {
    case headMoved = "PM001"
    case ordersTaken = "PM002"
    case alreadyDone = "PM003"
    case logNeeded = "PM004"
    case misplaced = "PM005"

    /// Why a function raises it.
    var meaning: String {
        switch self {
        case .headMoved: "The head of the namespace is not where the writer expected it: another writer was faster."
        case .ordersTaken: "What a session ordered for its disconnection was carried out or changed by another gateway."
        case .alreadyDone:
            """
            A write of this name, or a later one, was done before; a feed's place belongs to another worker; or `wait_for` \
            reached its timeout.
            """
        case .logNeeded:
            "Retention may not drop these entries: a reader needs them, a snapshot is missing, or a move runs."
        case .misplaced: "The namespace lives in another database, or is on its way to or from this one."
        }
    }

    /// What the caller of a function does about it.
    var remedy: String {
        switch self {
        case .headMoved: "Begin a new transaction and write again."
        case .ordersTaken: "None: the orders were carried out."
        case .alreadyDone: "Do not write again. After `wait_for`: see why the mirror lags, or wait for longer."
        case .logNeeded: "`pathmirror retention ls` names the reader."
        case .misplaced: "Ask the database that has the namespace: `pathmirror namespace ls`."
        }
    }
}

extension SchemaErrorCode {
    /// The code that a failed statement was answered with; nil for PostgreSQL's own.
    init?(_ error: any Error) {
        guard let state = (error as? PostgresError)?.sqlState else { return nil }
        self.init(rawValue: state)
    }
}
