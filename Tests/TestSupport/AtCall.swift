public import Postgres
import Runtime

/// Does something at the moment when a program is about to send a statement: what happens between two calls of the program.
public final class AtCall: CallFaults {
    private let connection: String?
    private let statement: String
    private let occurrence: Int
    private let fault: CallFault
    private let body: @Sendable () throws -> Void
    private let state = MutexBox((calls: 0, problem: String?.none))

    /// - Parameters:
    ///   - statement: the beginning of the statement.
    ///   - occurrence: which call of it, from 1.
    ///   - connection: the connection's name; nil for any.
    ///   - fault: what the call loses after `body`.
    ///   - body: called once, on the program's thread.
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

    /// Whether the call was made, and `body` has succeeded.
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

/// Runs a script over a connection of its own.
public func runScript(_ script: String, on url: PostgresURL) throws {
    let connection = try PostgresConnection(url)
    defer { connection.close() }
    try connection.executeScript(script)
}
