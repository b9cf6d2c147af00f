import LogStore
import Postgres
import Runtime
import TestSupport
import Testing

/// Tests of the stored service accounts, and of a gateway's list of them.
@Suite struct ServiceAccountTests {
    private static let id = String(repeating: "a1", count: 20)
    private static let secondID = String(repeating: "b2", count: 20)
    private static let thirdID = String(repeating: "c3", count: 20)
    private static let grant = ServiceAccountGrant(name: "server", role: .viewer, namespaces: ["shop", "blog"])

    private func create(_ connection: LogConnection, _ grant: ServiceAccountGrant = grant, id: String = id) throws
        -> String?
    {
        let uid = "\(id.prefix(8))-\(id.prefix(4))-\(id.prefix(4))-\(id.prefix(4))-\(id.prefix(12))"
        let isCreated = try connection.createServiceAccount(
            grant, uid: uid, tokenURI: "http://x/.oauth2/token", keyID: id, publicKey: [1, 2])
        return isCreated ? uid : nil
    }

    private func rotate(_ connection: LogConnection, _ uid: String, _ id: String, overlap: Int64) throws -> Bool {
        try connection.rotateServiceAccount(uid, keyID: id, publicKey: [3], overlapSeconds: overlap)
    }

    private func actions(_ connection: LogConnection) throws -> [String] {
        let rows = try connection.sql.execute(
            """
            select concat_ws(' ', action, name, role, array_to_string(namespaces, ','), left(key, 2), actor = session_user)
            from pathmirror.service_account_audit order by id
            """)
        return try (0..<rows.rowCount).map { try rows.string($0, 0) }
    }

    @Test func aLife() throws {
        try withSession { connection in
            let uid = try #require(try create(connection))
            #expect(try create(connection, id: Self.secondID) == nil, "the name is taken")
            let record = try #require(try connection.serviceAccountRecords().first)
            #expect(record.uid == uid && record.grant == Self.grant && record.tokenURI == "http://x/.oauth2/token")
            #expect(record.keys.map(\.id) == [Self.id] && record.keys.map(\.publicKey) == [[1, 2]])
            #expect(record.keys.allSatisfy { $0.endsAt == nil })
            // With an overlap the present key ends later.
            #expect(try rotate(connection, uid, Self.secondID, overlap: 60))
            var keys = try #require(try connection.serviceAccountRecords().first).keys
            #expect(keys.map(\.id) == [Self.secondID, Self.id])
            #expect(keys[0].endsAt == nil)
            let end = try #require(keys[1].endsAt)
            #expect(abs(end - Clock.unixMilliseconds - 60_000) < 30_000)
            // Only the present key overlaps, so an account has at most two valid keys.
            #expect(try rotate(connection, uid, Self.thirdID, overlap: 3_600))
            keys = try #require(try connection.serviceAccountRecords().first).keys
            #expect(keys.map(\.id) == [Self.thirdID, Self.secondID])
            #expect(try rotate(connection, uid, Self.id, overlap: 0))
            #expect(try connection.serviceAccountRecords().first?.keys.map(\.id) == [Self.id])
            #expect(try connection.removeServiceAccount("server"))
            #expect(try !connection.removeServiceAccount("server"))
            #expect(try !rotate(connection, uid, Self.id, overlap: 0))
            #expect(try connection.serviceAccountRecords().isEmpty)
            #expect(
                try actions(connection) == [
                    "create server viewer shop,blog a1 t", "rotate server viewer shop,blog b2 t",
                    "rotate server viewer shop,blog c3 t", "rotate server viewer shop,blog a1 t",
                    "rm server viewer shop,blog t",
                ])
        }
    }

    @Test func aListFollowsEveryChange() throws {
        try withSession { connection in
            let list = ServiceAccountList()
            let seen = MutexBox<[ServiceAccounts]>([])
            list.onNews { accounts in seen.withLock { $0.append(accounts) } }
            #expect(!list.isCurrent(now: 0))
            func look(isNew: Bool = false, now: Int64 = Clock.unixMilliseconds) throws -> [[String]] {
                try list.look(connection, isNew: isNew, now: now)
                return seen.withLock { $0.map { $0.records.flatMap { $0.keys.map(\.id) } } }
            }
            #expect(try look(isNew: true) == [[]])
            #expect(list.isCurrent(now: Clock.monotonicMilliseconds))
            #expect(!list.isCurrent(now: Clock.monotonicMilliseconds + 20_000))
            let all = ServiceAccountGrant(name: "all", role: .admin, namespaces: nil)
            let uid = try #require(try create(connection, all))
            #expect(try look().last == [Self.id])
            #expect(try look().count == 2, "nothing has changed")
            #expect(seen.withLock { $0.last?.records.first?.grant } == all)
            #expect(try rotate(connection, uid, Self.secondID, overlap: 60))
            #expect(try look().last == [Self.secondID, Self.id])
            // A key ends by time, without a change in the database.
            #expect(try look(now: Clock.unixMilliseconds + 120_000).last == [Self.secondID])
            // Changes by SQL count as well.
            try connection.sql.executeScript("delete from pathmirror.service_account_key where id like 'b2%'")
            #expect(try look().last == [Self.id])
            let token = seen.withLock { $0.last?.tokenKey.revealed() }
            try connection.sql.executeScript(
                "update pathmirror.gateway_key set key = sha256(convert_to(gen_random_uuid()::text, 'UTF8'))")
            _ = try look()
            #expect(seen.withLock { $0.last?.tokenKey.revealed() } != token)
            #expect(token?.count == 32)
            let late = MutexBox(0)
            list.onNews { _ in late.withLock { $0 += 1 } }
            #expect(late.withLock { $0 } == 1, "a later callback receives the known accounts")
        }
    }

    @Test func othersReadNothing() throws {
        try withDatabase { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            for role in ["pathmirror_reader", "pathmirror_writer", "pathmirror_gateway"] {
                try connection.executeScript("set session authorization \(role)")
                let mayRead = role == "pathmirror_gateway"
                for table in ["service_account", "service_account_key", "service_account_audit"] {
                    let select = { _ = try connection.execute("select from pathmirror.\(table)") }
                    if mayRead {
                        try select()
                    } else {
                        #expect(throws: PostgresError.self, "\(role)", performing: select)
                    }
                    #expect(throws: PostgresError.self, "\(role)") {
                        try connection.executeScript("delete from pathmirror.\(table)")
                    }
                }
                try connection.executeScript("reset session authorization")
            }
        }
    }

    /// Checks that a gateway whose user may not read the accounts works without them.
    @Test func aUserWithoutTheRightHasNoAccounts() throws {
        try withSession { connection in
            _ = try create(connection)
            try connection.sql.executeScript(
                "revoke select on pathmirror.service_account_key from pathmirror_gateway; set session authorization pathmirror_gateway"
            )
            let list = ServiceAccountList()
            list.onNews { _ in Issue.record("accounts were read") }
            try list.look(connection, isNew: true)
            #expect(!list.isCurrent())
        }
    }

    /// A removed account must not stay in use because its removal can't be read.
    @Test func withoutTheRightToReadThereAreNoAccounts() throws {
        try withSession { connection in
            let list = ServiceAccountList()
            let seen = MutexBox<[Int]>([])
            list.onNews { accounts in seen.withLock { $0.append(accounts.records.count) } }
            _ = try create(connection)
            try list.look(connection, isNew: true)
            #expect(list.isCurrent())
            // A missing table counts as one without the right.
            try connection.sql.executeScript("alter table pathmirror.service_account_key rename to hidden")
            try list.look(connection, isNew: true)
            #expect(seen.withLock { $0 } == [1, 0] && !list.isCurrent())
            try connection.sql.executeScript("alter table pathmirror.hidden rename to service_account_key")
            try list.look(connection, isNew: true)
            #expect(seen.withLock { $0 } == [1, 0, 1] && list.isCurrent())
        }
    }

    @Test func names() {
        for name in ["a", "server-1", String(repeating: "a", count: 63)] { #expect(ServiceAccountGrant.isName(name)) }
        for name in ["", "A", "1a", "-a", "a_b", "a b", "é", String(repeating: "a", count: 64)] {
            #expect(!ServiceAccountGrant.isName(name))
        }
    }
}
