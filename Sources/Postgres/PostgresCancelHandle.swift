import CPostgres

/// Stops the work of one ``PostgresConnection`` from any other thread.
// @unchecked Sendable is safe: a PGcancel is immutable, PQcancel is documented to be thread-safe, and this object
// alone frees it, when the last reference goes.
public final class PostgresCancelHandle: @unchecked Sendable {
    private let cancel: OpaquePointer?
    private let interrupt: Interrupt

    init(_ cancel: OpaquePointer?, _ interrupt: Interrupt) {
        self.cancel = cancel
        self.interrupt = interrupt
    }

    deinit {
        PQfreeCancel(cancel)
    }

    /// Asks the server to stop the running statement, which then fails with SQLSTATE 57014; the connection stays
    /// usable. If none is running, nothing happens. Opens a connection of its own and blocks until the server has
    /// taken the request: not for the cooperative pool.
    ///
    /// - Returns: Whether the request was delivered, not whether it had an effect.
    @discardableResult
    public func cancelStatement() -> Bool {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { message in
            PQcancel(cancel, message.baseAddress, Int32(message.count)) == 1
        }
    }

    /// When anything last came from the server, in milliseconds of the monotonic clock.
    public var lastHeardMilliseconds: Int64 { interrupt.lastHeardMilliseconds }

    /// Makes the owner's current and every later call throw `cancelled` at once and close the connection, whether or
    /// not the server answers: for shutting down. Never blocks.
    public func abandon() {
        interrupt.set()
    }
}
