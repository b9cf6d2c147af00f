/// Loses the connection at chosen calls, so that tests can make any call of an operation fail. A connection without one loses none.
///
/// Calls are statements, pipelines, COPY, and connecting itself; waiting for notifications is none. Each connection asks on its own thread.
public protocol CallFaults: Sendable {
    /// Whether a call loses the connection. Asked once for each, before anything of it is sent.
    ///
    /// - Parameters:
    ///   - connection: the application's name, as the connection string has it.
    ///   - statement: the beginning of the statement's text, or its name.
    func fault(on connection: String, of statement: String) -> CallFault
}

/// How a call loses its connection.
public enum CallFault: Sendable, Hashable, CaseIterable {
    case none
    /// Nothing of the call reaches the server.
    case before
    /// The server has done what it was told, and its answer does not arrive.
    case after
}

/// The faults of one connection, and whether the call under way loses its answer.
struct FaultyCalls {
    private let faults: any CallFaults
    private let connection: String
    private var losesAnswer = false

    init(_ faults: any CallFaults, on url: PostgresURL) {
        self.faults = faults
        connection = url.options["application_name"] ?? ""
    }

    /// True where nothing of the call is to be sent.
    mutating func losesCall(_ statement: String) -> Bool {
        let fault = faults.fault(on: connection, of: statement)
        losesAnswer = fault == .after
        return fault == .before
    }

    /// Whether the answer of the call under way is lost. Says so once.
    mutating func takeLosesAnswer() -> Bool {
        defer { losesAnswer = false }
        return losesAnswer
    }

    static let lost = "the connection was lost on purpose"
}

extension PostgresConnection {
    /// Loses the connection where the call is to fail before anything of it is sent.
    func failBefore(_ statement: @autoclosure () -> String) throws(PostgresError) {
        guard faultyCalls != nil else { return }
        let statement = statement()
        guard faultyCalls?.losesCall(statement) == true else { return }
        throw link.failure(.connectionLost, FaultyCalls.lost, statement: statement)
    }

    /// Loses the connection where the answer of the call under way is not to arrive.
    func failAfter(_ statement: @autoclosure () -> String) throws(PostgresError) {
        guard faultyCalls?.takeLosesAnswer() == true else { return }
        throw link.failure(.connectionLost, FaultyCalls.lost, statement: statement())
    }
}
