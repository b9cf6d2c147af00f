import Postgres

/// The lease under which a gateway saves sessions' operations. While its row exists, no other gateway executes them.
public struct GatewayLease: Sendable, Equatable {
    /// 16 bytes, different for each lease.
    public let gateway: [UInt8]
    /// The number of the gateway's connection that saves. The database rejects late saves of earlier connections.
    public let connection: Int64
    /// The latest heartbeat that the database has acknowledged.
    public var heartbeat: Int64

    public init(gateway: [UInt8], connection: Int64, heartbeat: Int64 = 0) {
        self.gateway = gateway
        self.connection = connection
        self.heartbeat = heartbeat
    }
}

/// The heartbeat of a gateway, as read from its row. It changes between two reads if the gateway was alive in between.
public struct GatewayHeartbeat: Sendable, Hashable {
    public let gateway: String
    public let heartbeat: Int64
    /// Changes with the heartbeats of gateways from before migration 9, which do not count them. Only compared for
    /// equality.
    public let seenAt: String

    public init(gateway: String, heartbeat: Int64, seenAt: String) {
        self.gateway = gateway
        self.heartbeat = heartbeat
        self.seenAt = seenAt
    }
}

extension LogConnection {
    /// Throws if the connection is already known to be lost, so that the caller sends nothing whose outcome would be
    /// unknown.
    public func checkConnection() throws(LogStoreError) {
        try translated { () throws(PostgresError) in try postgres.checkConnection() }
    }

    /// Begins a lease on this connection.
    public func beginLease(_ gateway: [UInt8]) throws(LogStoreError) -> GatewayLease {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                "insert into pathmirror.gateway (id, beat, connection) values ($1, 1, 1)", [.uuid(gateway)])
            return GatewayLease(gateway: gateway, connection: 1, heartbeat: 1)
        }
    }

    /// Continues a lease on this connection. Waits for saves that an earlier connection may still be executing; later
    /// saves of that connection are rejected. Returns nil if the lease has expired or the database was rolled back to
    /// an older state. In the second case, saves since then are lost, and stored operations may belong to sessions that
    /// have ended.
    public func takeOver(_ lease: GatewayLease) throws(LogStoreError) -> GatewayLease? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                update pathmirror.gateway set connection = connection + 1, beat = beat + 1, seen_at = now()
                where id = $1 and connection >= $2 and beat >= $3 returning connection, beat
                """, [.uuid(lease.gateway), .int8(lease.connection), .int8(lease.heartbeat)])
            guard rows.rowCount == 1 else {
                _ = try postgres.execute("delete from pathmirror.gateway where id = $1", [.uuid(lease.gateway)])
                return nil
            }
            return GatewayLease(
                gateway: lease.gateway, connection: try rows.int64(0, 0), heartbeat: try rows.int64(0, 1))
        }
    }

    /// Increments the heartbeat of a gateway and returns its number. Returns nil if the lease has expired.
    public func heartbeat(_ lease: GatewayLease) throws(LogStoreError) -> Int64? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "update pathmirror.gateway set beat = beat + 1, seen_at = now() where id = $1 returning beat",
                [.uuid(lease.gateway)])
            return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
        }
    }

    /// Ends the lease of a gateway that shuts down.
    public func endLease(_ lease: GatewayLease) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute("delete from pathmirror.gateway where id = $1", [.uuid(lease.gateway)])
        }
    }

    /// Returns the heartbeats of all other gateways.
    public func heartbeats(otherThan lease: GatewayLease) throws(LogStoreError) -> [GatewayHeartbeat] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select id::text, beat, seen_at::text from pathmirror.gateway where id <> $1", [.uuid(lease.gateway)])
            var heartbeats: [GatewayHeartbeat] = []
            for row in 0..<rows.rowCount {
                heartbeats.append(
                    GatewayHeartbeat(
                        gateway: try rows.string(row, 0), heartbeat: try rows.int64(row, 1),
                        seenAt: try rows.string(row, 2)))
            }
            return heartbeats
        }
    }

    /// Ends the expired lease of another gateway unless its heartbeat has changed since `gateway` was read. From then
    /// on all its saves are rejected. Returns false if the lease was not ended by this call.
    public func endLease(of gateway: GatewayHeartbeat) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                "delete from pathmirror.gateway where id = $1::uuid and beat = $2 and seen_at::text = $3",
                [.text(gateway.gateway), .int8(gateway.heartbeat), .text(gateway.seenAt)]
            ).affectedRows == 1
        }
    }
}

/// Finds expired leases, that is, those of gateways whose heartbeats have stopped. Pure.
///
/// Clocks of different machines are not compared. A lease has expired if its heartbeat has not changed for the expiry
/// time by the watcher's own monotonic clock, during reads without long gaps. A watcher that could not read, or was
/// suspended between two reads, starts over, because the other gateways may have been stopped as well.
public struct HeartbeatWatch: Sendable {
    private let leaseExpiryMilliseconds: Int64
    private let longestGapMilliseconds: Int64
    /// The time of the first read of each heartbeat.
    private var seen: [GatewayHeartbeat: Int64] = [:]
    private var lastLook: Int64?

    /// - Parameters:
    ///   - leaseExpiryMilliseconds: how long a heartbeat must not have changed.
    ///   - heartbeatMilliseconds: the interval of heartbeats.
    public init(leaseExpiryMilliseconds: Int64, heartbeatMilliseconds: Int64) {
        self.leaseExpiryMilliseconds = leaseExpiryMilliseconds
        longestGapMilliseconds = max(2 * heartbeatMilliseconds, leaseExpiryMilliseconds / 2)
    }

    /// Accepts the heartbeats of the other gateways, and returns those whose leases have expired.
    ///
    /// - Parameters:
    ///   - asked: monotonic milliseconds before the database was queried.
    ///   - answered: monotonic milliseconds after the database answered.
    public mutating func look(_ heartbeats: [GatewayHeartbeat], asked: Int64, answered: Int64) -> [GatewayHeartbeat] {
        if let lastLook, asked - lastLook > longestGapMilliseconds { forget() }
        lastLook = answered
        var now: [GatewayHeartbeat: Int64] = [:]
        for heartbeat in heartbeats { now[heartbeat] = seen[heartbeat] ?? answered }
        seen = now
        return heartbeats.filter { heartbeat in now[heartbeat].map { asked - $0 >= leaseExpiryMilliseconds } ?? false }
    }

    /// Reports that a read has failed.
    public mutating func forget() {
        seen.removeAll()
        lastLook = nil
    }
}
