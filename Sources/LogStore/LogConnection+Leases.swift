import Postgres

/// What a gateway saves sessions' operations under: while its row is there, no other gateway executes them.
public struct GatewayLease: Sendable, Equatable {
    /// 16 bytes; another for each lease.
    public let gateway: [UInt8]
    /// Which of the gateway's connections saves. What an earlier one sends late is not taken.
    public let connection: Int64
    /// The newest beat that the database has acknowledged.
    public var beat: Int64

    public init(gateway: [UInt8], connection: Int64, beat: Int64 = 0) {
        self.gateway = gateway
        self.connection = connection
        self.beat = beat
    }
}

/// A gateway's sign of life, as its row shows it. Of any two looks between which it lived, the second shows another.
public struct GatewayBeat: Sendable, Hashable {
    public let gateway: String
    public let beat: Int64
    /// Moves with the beats of gateways of before migration 9, which don't count them. Only ever compared with itself.
    public let seenAt: String

    public init(gateway: String, beat: Int64, seenAt: String) {
        self.gateway = gateway
        self.beat = beat
        self.seenAt = seenAt
    }
}

extension LogConnection {
    /// Throws where this side knows already that the connection is lost: nothing is sent then whose outcome would be unknown.
    public func checkConnection() throws(LogStoreError) {
        try translated { () throws(PostgresError) in try postgres.checkConnection() }
    }

    /// Begins a lease by this connection.
    public func beginLease(_ gateway: [UInt8]) throws(LogStoreError) -> GatewayLease {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                "insert into pathmirror.gateway (id, beat, connection) values ($1, 1, 1)", [.uuid(gateway)])
            return GatewayLease(gateway: gateway, connection: 1, beat: 1)
        }
    }

    /// Continues a lease by this connection: waits for what an earlier one may still be saving, and from then on what that
    /// sends is not taken. Nil when the lease has expired, also where the database has gone back to an older state: what was
    /// saved since is lost, and what it has may be of sessions that are over.
    public func takeOver(_ lease: GatewayLease) throws(LogStoreError) -> GatewayLease? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                update pathmirror.gateway set connection = connection + 1, beat = beat + 1, seen_at = now()
                where id = $1 and connection >= $2 and beat >= $3 returning connection, beat
                """, [.uuid(lease.gateway), .int8(lease.connection), .int8(lease.beat)])
            guard rows.rowCount == 1 else {
                _ = try postgres.execute("delete from pathmirror.gateway where id = $1", [.uuid(lease.gateway)])
                return nil
            }
            return GatewayLease(
                gateway: lease.gateway, connection: try rows.int64(0, 0), beat: try rows.int64(0, 1))
        }
    }

    /// Says that a gateway is alive, and gives the number of this beat. Nil when its lease has expired.
    public func heartbeat(_ lease: GatewayLease) throws(LogStoreError) -> Int64? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "update pathmirror.gateway set beat = beat + 1, seen_at = now() where id = $1 returning beat",
                [.uuid(lease.gateway)])
            return rows.rowCount == 1 ? try rows.int64(0, 0) : nil
        }
    }

    /// The gateway has ended in order.
    public func endLease(_ lease: GatewayLease) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute("delete from pathmirror.gateway where id = $1", [.uuid(lease.gateway)])
        }
    }

    /// The signs of life of all gateways but this one.
    public func beats(otherThan lease: GatewayLease) throws(LogStoreError) -> [GatewayBeat] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select id::text, beat, seen_at::text from pathmirror.gateway where id <> $1", [.uuid(lease.gateway)])
            var beats: [GatewayBeat] = []
            for row in 0..<rows.rowCount {
                beats.append(
                    GatewayBeat(
                        gateway: try rows.string(row, 0), beat: try rows.int64(row, 1),
                        seenAt: try rows.string(row, 2)))
            }
            return beats
        }
    }

    /// Ends the expired lease of a gateway, unless that has given a sign of life since. From then on none of its saves is
    /// taken. False when it wasn't ended here.
    public func endLease(of gateway: GatewayBeat) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                "delete from pathmirror.gateway where id = $1::uuid and beat = $2 and seen_at::text = $3",
                [.text(gateway.gateway), .int8(gateway.beat), .text(gateway.seenAt)]
            ).affectedRows == 1
        }
    }
}

/// Finds the leases that have expired: those of gateways that give no sign of life. Pure.
///
/// Clocks of different machines are not compared: a lease has expired whose gateway has not counted its beats up for so long
/// by the watcher's own monotonic clock, over looks between which there was no long gap. A watcher that could not look, or
/// was stopped between two looks, begins anew: the others may have stood still as well.
public struct BeatWatch: Sendable {
    private let leaseExpiryMilliseconds: Int64
    private let longestGapMilliseconds: Int64
    /// When each beat was first seen.
    private var seen: [GatewayBeat: Int64] = [:]
    private var lastLook: Int64?

    /// - Parameters:
    ///   - leaseExpiryMilliseconds: for how long a beat must have stood still.
    ///   - beatMilliseconds: how often gateways beat.
    public init(leaseExpiryMilliseconds: Int64, beatMilliseconds: Int64) {
        self.leaseExpiryMilliseconds = leaseExpiryMilliseconds
        longestGapMilliseconds = max(2 * beatMilliseconds, leaseExpiryMilliseconds / 2)
    }

    /// Takes a look at the other gateways, and tells whose leases have expired.
    ///
    /// - Parameters:
    ///   - asked: monotonic milliseconds before the database was asked.
    ///   - answered: the same when it had answered.
    public mutating func look(_ beats: [GatewayBeat], asked: Int64, answered: Int64) -> [GatewayBeat] {
        if let lastLook, asked - lastLook > longestGapMilliseconds { forget() }
        lastLook = answered
        var now: [GatewayBeat: Int64] = [:]
        for beat in beats { now[beat] = seen[beat] ?? answered }
        seen = now
        return beats.filter { beat in now[beat].map { asked - $0 >= leaseExpiryMilliseconds } ?? false }
    }

    /// A look has failed.
    public mutating func forget() {
        seen.removeAll()
        lastLook = nil
    }
}
