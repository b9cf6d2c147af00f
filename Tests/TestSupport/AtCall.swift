public import Postgres
import Runtime

/// Runs a closure just before a program sends a certain statement, so that other actions happen between two of its
/// calls.
public final class AtCall: CallFaults {
    private let connection: String?
    private let statement: String
    private let occurrence: Int
    private let fault: CallFault
    private let body: @Sendable () throws -> Void
    private let state = MutexBox((calls: 0, problem: String?.none))

    /// - Parameters:
    ///   - statement: The beginning of the statement.
    ///   - occurrence: Which call of the statement, from 1.
    ///   - connection: The connection's name, or nil for any.
    ///   - fault: How the call fails after `body`.
    ///   - body: Called once, on the program's thread.
    public init(
        _ statement: String, occurrence: Int = 1, on connection: String? = nil, losing fault: CallFault = .none,
        _ body: @escaping @Sendable () throws -> Void
    ) {
        self.statement = statement
        self.occurrence = occurrence
        self.connection = connection
        self.fault = fault
        self.body = body
    }

    /// Whether the call was made and `body` has succeeded.
    public var isDone: Bool { state.withLock { $0.calls >= occurrence && $0.problem == nil } }

    public func fault(on connection: String, of statement: String) -> CallFault {
        guard self.connection ?? connection == connection, statement.hasPrefix(self.statement) else { return .none }
        let isDue = state.withLock { state in
            state.calls += 1
            return state.calls == occurrence
        }
        guard isDue else { return .none }
        do {
            try body()
        } catch {
            state.withLock { $0.problem = "\(error)" }
        }
        return fault
    }
}

/// Runs a script over a new connection.
public func runScript(_ script: String, on url: PostgresURL) throws {
    let connection = try PostgresConnection(url)
    defer { connection.close() }
    try connection.executeScript(script)
}
