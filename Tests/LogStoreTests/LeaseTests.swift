import LogStore
import Postgres
import TestSupport
import Testing
import Tree

/// Tests of gateways' leases, as PostgreSQL stores them.
@Suite struct LeaseTests {
    private func rows(_ connection: LogConnection) throws -> Int64 {
        try count(connection, "select count(*) from pathmirror.gateway")
    }

    private func execute(_ connection: LogConnection, _ script: String) throws {
        try connection.sql.executeScript(script)
    }

    @Test func aLeaseIsARow() throws {
        try withSession { connection in
            let lease = try connection.beginLease(Batch.makeID())
            #expect(lease.connection == 1 && lease.heartbeat == 1)
            #expect(try rows(connection) == 1)
            try connection.endLease(lease)
            #expect(try rows(connection) == 0)
            // Ending a lease twice has no effect.
            try connection.endLease(lease)
        }
    }

    @Test func heartbeatsAreCounted() throws {
        try withSession { connection in
            let lease = try connection.beginLease(Batch.makeID())
            for heartbeat in 2...20 as ClosedRange<Int64> { #expect(try connection.heartbeat(lease) == heartbeat) }
            try connection.endLease(lease)
            #expect(try connection.heartbeat(lease) == nil)
        }
    }

    @Test func twoLeasesOfOneIDAreRefused() throws {
        try withSession { connection in
            let id = Batch.makeID()
            _ = try connection.beginLease(id)
            #expect(throws: LogStoreError.self) { try connection.beginLease(id) }
            #expect(try rows(connection) == 1)
        }
    }

    @Test func takingOverCountsConnections() throws {
        try withSession { connection in
            var lease = try connection.beginLease(Batch.makeID())
            for number in 2...10 as ClosedRange<Int64> {
                lease = try #require(try connection.takeOver(lease))
                #expect(lease.connection == number && lease.heartbeat == number)
            }
            #expect(try connection.heartbeat(lease) == 11)
        }
    }

    /// Checks that a lease is taken over although more heartbeats were counted: a heartbeat counts even if its answer
    /// is lost.
    @Test func aLeaseIsTakenOverWhereMoreWasCounted() throws {
        try withSession { connection in
            let lease = try connection.beginLease(Batch.makeID())
            _ = try connection.heartbeat(lease)
            _ = try connection.heartbeat(lease)
            let newer = try #require(try connection.takeOver(lease))
            #expect(newer.connection == 2 && newer.heartbeat == 4)
        }
    }

    /// Checks that a lease is not taken over if the database was restored to an older state: later saves are lost.
    @Test(arguments: ["beat = beat - 1", "connection = connection - 1"])
    func aLeaseOfAnOlderStateIsNotTakenOver(_ change: String) throws {
        try withSession { connection in
            var lease = try connection.beginLease(Batch.makeID())
            lease = try #require(try connection.takeOver(lease))
            try execute(connection, "update pathmirror.gateway set \(change)")
            #expect(try connection.takeOver(lease) == nil)
            // Other gateways do not take the old lease for a live one.
            #expect(try rows(connection) == 0)
        }
    }

    // MARK: Other gateways

    @Test func othersAreSeen() throws {
        try withSession { connection in
            let own = try connection.beginLease(Batch.makeID())
            let others = try (0..<3).map { _ in try connection.beginLease(Batch.makeID()) }
            let first = try connection.heartbeats(otherThan: own)
            #expect(first.count == 3 && Set(first).count == 3)
            // An id given as text names the same gateway.
            #expect(try connection.heartbeats(otherThan: others[0]).count == 3)
            _ = try connection.heartbeat(others[1])
            let second = try connection.heartbeats(otherThan: own)
            #expect(Set(first).intersection(second).count == 2)
        }
    }

    @Test func aStalledHeartbeatIsEndedOnce() throws {
        try withSession { connection in
            let own = try connection.beginLease(Batch.makeID())
            let dead = try connection.beginLease(Batch.makeID())
            let heartbeat = try #require(try connection.heartbeats(otherThan: own).first)
            #expect(try connection.endLease(of: heartbeat))
            #expect(try !connection.endLease(of: heartbeat))
            #expect(try connection.heartbeat(dead) == nil)
            #expect(try connection.takeOver(dead) == nil)
            #expect(try connection.heartbeat(own) != nil)
        }
    }

    /// Checks that a changed time counts as a heartbeat: gateways from before migration 9 update only a time.
    @Test func aTimeIsASignOfLifeToo() throws {
        try withSession { connection in
            let own = try connection.beginLease(Batch.makeID())
            _ = try connection.beginLease(Batch.makeID())
            let heartbeat = try #require(try connection.heartbeats(otherThan: own).first)
            try execute(
                connection, "update pathmirror.gateway set seen_at = seen_at + interval '1 second' where beat = 1")
            #expect(try !connection.endLease(of: heartbeat))
            #expect(try connection.heartbeats(otherThan: own).first != heartbeat)
        }
    }

    /// Checks that one of several gateways that find a lease expired ends it.
    @Test func oneOfManyEndsALease() throws {
        try withDatabase { url in
            let watchers = try (0..<4).map { _ in try LogConnection(url) }
            defer { for watcher in watchers { watcher.close() } }
            let leases = try watchers.map { try $0.beginLease(Batch.makeID()) }
            let dead = Batch.makeID()
            _ = try watchers[0].beginLease(dead)
            let looks = try zip(watchers, leases).map { watcher, lease in
                try #require(
                    try watcher.heartbeats(otherThan: lease).first { heartbeat in
                        heartbeat.gateway.filter { $0 != "-" } == dead.map { Self.hex($0) }.joined()
                    })
            }
            let ended = try zip(watchers, looks).map { watcher, heartbeat in try watcher.endLease(of: heartbeat) }
            #expect(ended == [true, false, false, false])
        }
    }

    private static func hex(_ byte: UInt8) -> String {
        let text = String(byte, radix: 16)
        return text.count == 1 ? "0" + text : text
    }

    // MARK: Connections

    @Test func aClosedConnectionIsNoticed() throws {
        try withDatabase { url in
            let connection = try LogConnection(url)
            try connection.checkConnection()
            let other = try PostgresConnection(url)
            defer { other.close() }
            _ = try other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()"
            )
            #expect(eventually { (try? connection.checkConnection()) == nil })
            connection.close()
        }
    }
}
