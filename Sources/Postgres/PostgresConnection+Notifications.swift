import CPostgres
import Glibc
public import Runtime

/// What a NOTIFY brought to a connection that LISTENs.
public struct PostgresNotification: Sendable, Equatable {
    public let channel: String
    public let payload: String
    /// The backend that sent it; one's own notifications come back too.
    public let senderPID: Int32

    public init(channel: String, payload: String, senderPID: Int32) {
        self.channel = channel
        self.payload = payload
        self.senderPID = senderPID
    }
}

extension PostgresConnection {
    /// Waits until a notification has come, `timeoutMilliseconds` have passed (0 waits forever), or `wake` was called;
    /// returns what has come, possibly nothing. Notifications that came during other calls are returned at once.
    ///
    /// - Throws: `connectionLost` or `cancelled`; the connection is then closed.
    public func waitForNotifications(
        timeoutMilliseconds: Milliseconds, wake: WakeHandle? = nil
    ) throws(PostgresError) -> [PostgresNotification] {
        _ = try begin("LISTEN", isSent: false)
        defer { end() }
        let deadline = Deadline(afterMilliseconds: timeoutMilliseconds)
        while true {
            let isAlive = PQconsumeInput(link.connection) == 1
            // What came before the end is still to be had; the next call reports the loss.
            let found = takeNotifications()
            if !found.isEmpty {
                return found
            }
            guard isAlive else {
                throw link.failure(.connectionLost, link.message, statement: "LISTEN")
            }
            if try link.wait(POLLIN, until: deadline, wake: wake, isSoft: true) == 0 {
                return []
            }
        }
    }

    /// Throws where the other side has closed the connection, as far as this side has heard. Does not wait.
    public func checkConnection() throws(PostgresError) {
        _ = try begin("a look at the connection", isSent: false)
        defer { end() }
        // Behind the server's last words, which are read at first, comes the end.
        for _ in 0..<2 where PQconsumeInput(link.connection) != 1 {
            throw link.failure(.connectionLost, link.message)
        }
    }

    private func takeNotifications() -> [PostgresNotification] {
        var found: [PostgresNotification] = []
        while let notification = PQnotifies(link.connection) {
            found.append(
                PostgresNotification(
                    channel: String(cString: notification.pointee.relname),
                    payload: String(cString: notification.pointee.extra),
                    senderPID: notification.pointee.be_pid))
            PQfreemem(notification)
        }
        return found
    }
}
