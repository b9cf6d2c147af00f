import CPostgres
import Glibc
public import Runtime

/// A notification received by a connection that LISTENs.
public struct PostgresNotification: Sendable, Equatable {
    public let channel: String
    public let payload: String
    /// The process id of the backend that sent the notification. A connection also receives its own notifications.
    public let senderPID: Int32

    public init(channel: String, payload: String, senderPID: Int32) {
        self.channel = channel
        self.payload = payload
        self.senderPID = senderPID
    }
}

extension PostgresConnection {
    /// Waits until a notification arrives, `timeoutMilliseconds` have passed (0 waits forever), or `wake` was called.
    /// Returns the notifications that have arrived, possibly none. Notifications that arrived during other calls are
    /// returned at once.
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
            // Notifications that arrived before the connection was lost are returned. The next call reports the loss.
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

    /// Throws if the server is known to have closed the connection. Does not wait.
    public func checkConnection() throws(PostgresError) {
        _ = try begin("a check of the connection", isSent: false)
        defer { end() }
        // The first read returns the server's last data, and the second one reports the end.
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
