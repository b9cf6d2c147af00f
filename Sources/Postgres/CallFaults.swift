/// Loses the connection at selected calls, so that tests can make any call of an operation fail. A connection without
/// `CallFaults` loses none.
///
/// Calls are statements, pipelines, COPY and connecting itself, but not waiting for notifications. Each connection asks
/// on its own thread.
public protocol CallFaults: Sendable {
    /// Returns whether a call loses the connection. Called once per call, before anything is sent.
    ///
    /// - Parameters:
    ///   - connection: the application name in the connection string.
    ///   - statement: the beginning of the statement's text, or its name.
    func fault(on connection: String, of statement: String) -> CallFault
}

/// The way in which a call loses its connection.
public enum CallFault: Sendable, Hashable, CaseIterable {
    case none
    /// The server receives nothing of the call.
    case before
    /// The server executes the call, but its answer does not arrive.
    case after
}

/// The faults of one connection, and whether the call in progress loses its answer.
struct FaultyCalls {
    private let faults: any CallFaults
    private let connection: String
    private var losesAnswer = false

    init(_ faults: any CallFaults, on url: PostgresURL) {
        self.faults = faults
        connection = url.options["application_name"] ?? ""
    }

    /// Whether the call must fail before anything is sent.
    mutating func losesCall(_ statement: String) -> Bool {
        let fault = faults.fault(on: connection, of: statement)
        losesAnswer = fault == .after
        return fault == .before
    }

    /// Whether the answer of the call in progress is lost. Resets the fault.
    mutating func takeLosesAnswer() -> Bool {
        defer { losesAnswer = false }
        return losesAnswer
    }

    static let lost = "the connection was lost on purpose"
}

extension PostgresConnection {
    /// Closes the connection and throws if the call must fail before anything is sent.
    func failBefore(_ statement: @autoclosure () -> String) throws(PostgresError) {
        guard faultyCalls != nil else { return }
        let statement = statement()
        guard faultyCalls?.losesCall(statement) == true else { return }
        throw link.failure(.connectionLost, FaultyCalls.lost, statement: statement)
    }

    /// Closes the connection and throws if the answer of the call in progress must be lost.
    func failAfter(_ statement: @autoclosure () -> String) throws(PostgresError) {
        guard faultyCalls?.takeLosesAnswer() == true else { return }
        throw link.failure(.connectionLost, FaultyCalls.lost, statement: statement())
    }
}
