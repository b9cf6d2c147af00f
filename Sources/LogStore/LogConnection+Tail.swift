public import Postgres

/// What a session that listens hears of.
public enum Announcement: Sendable, Equatable {
    case commit(namespace: Int64, head: Int64)
    case message(PeerMessage)
}

extension LogConnection {
    /// Throws unless the database's schema is this program's.
    public func checkSchema() throws(LogStoreError) { try Migrations.check(postgres) }

    /// From now on `waitForAnnouncements` hears.
    public func listen() throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            try postgres.executeScript("listen \(Self.channel); listen \(Self.peerChannel)")
        }
    }

    /// Waits until commits are announced or gateways say something, for so long or until woken.
    public func waitForAnnouncements(
        milliseconds: Int, wake: WakeHandle?
    ) throws(LogStoreError) -> [Announcement] {
        let notifications = try translated { () throws(PostgresError) in
            try postgres.waitForNotifications(timeoutMilliseconds: milliseconds, wake: wake)
        }
        return notifications.compactMap { notification in
            if notification.channel == Self.peerChannel {
                return PeerMessage(payload: notification.payload).map { .message($0) }
            }
            let parts = notification.payload.split(separator: " ")
            guard notification.channel == Self.channel, parts.count == 2, let id = Int64(parts[0]),
                let head = Int64(parts[1])
            else { return nil }
            return .commit(namespace: id, head: head)
        }
    }

    /// The heads of these namespaces, and the batches that stand for them. Those that are not there are left out.
    public func heads(
        _ namespaces: [Int64]
    ) throws(LogStoreError) -> [(namespace: Int64, head: Int64, batch: [UInt8]?)] {
        var ids = PostgresArray(of: .int8)
        for id in namespaces { ids.appendInt8(id) }
        return try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select id, head, \(Self.headBatch) from pathmirror.namespace where id = any($1)", [.array(ids)])
            var heads: [(namespace: Int64, head: Int64, batch: [UInt8]?)] = []
            heads.reserveCapacity(rows.rowCount)
            for row in 0..<rows.rowCount {
                heads.append((try rows.int64(row, 0), try rows.int64(row, 1), try Self.bytes(rows, row, 2)))
            }
            return heads
        }
    }
}
