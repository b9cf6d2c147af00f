import Crypto
import Postgres
import Runtime

/// The service accounts, as stored in the primary database. Changes require the schema's owner; gateways only read.
extension LogConnection {
    /// Returns whether this user may read the accounts and the key of the gateways.
    func mayReadServiceAccounts() throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                select case when has_schema_privilege('pathmirror', 'usage') then bool_and(
                    coalesce(has_table_privilege(to_regclass('pathmirror.' || name), 'select'), false)) else false end
                from unnest(array['service_account', 'service_account_key', 'gateway_key']) as name
                """
            ).bool(0, 0)
        }
    }

    /// Returns a text that changes with the accounts, their keys and the key of the gateways, however they are changed.
    func serviceAccountsVersion() throws(LogStoreError) -> String {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                select concat_ws(' ',
                    (select concat_ws(' ', count(*), sum(xmin::text::bigint)) from pathmirror.service_account),
                    (select concat_ws(' ', count(*), sum(xmin::text::bigint)) from pathmirror.service_account_key),
                    (select sum(xmin::text::bigint) from pathmirror.gateway_key))
                """
            ).string(0, 0)
        }
    }

    /// Returns all accounts, ordered by name, and the key of access tokens; nil if the gateways have no key.
    func serviceAccounts() throws(LogStoreError) -> ServiceAccounts? {
        let key = try translated { () throws(PostgresError) -> [UInt8]? in
            let rows = try postgres.execute("select key from pathmirror.gateway_key")
            return rows.rowCount == 0 ? nil : try rows.bytes(0, 0)
        }
        guard let key else { return nil }
        // The key of the gateways also signs their notifications, so tokens have one of their own.
        let tokenKey = HMAC.sha256(Array("pathmirror access tokens of service accounts 1".utf8), key: key)
        return ServiceAccounts(tokenKey: Secret(tokenKey), records: try serviceAccountRecords())
    }

    /// Returns all accounts, ordered by name.
    public func serviceAccountRecords() throws(LogStoreError) -> [ServiceAccountRecord] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select account.uid::text, account.name, account.role, array_to_string(account.namespaces, ','),
                    account.token_uri, \(Self.milliseconds("account.created_at")), key.id, key.public_key,
                    \(Self.milliseconds("key.created_at")), \(Self.milliseconds("key.ends_at"))
                from pathmirror.service_account as account
                left join pathmirror.service_account_key as key on key.account = account.uid
                order by account.name, key.created_at desc, key.id
                """)
            var found: [ServiceAccountRecord] = []
            for row in 0..<rows.rowCount {
                let uid = try rows.string(row, 0)
                var keys: [ServiceAccountRecord.Key] = []
                if let last = found.last, last.uid == uid {
                    keys = last.keys
                    found.removeLast()
                }
                if !rows.isNull(row, 6) {
                    keys.append(
                        ServiceAccountRecord.Key(
                            id: try rows.string(row, 6), publicKey: try rows.bytes(row, 7),
                            createdAt: try rows.int64(row, 8),
                            endsAt: rows.isNull(row, 9) ? nil : try rows.int64(row, 9)))
                }
                // A newer version may know more roles.
                guard let role = ServiceAccountGrant.Role(rawValue: try rows.string(row, 2)) else { continue }
                let grant = ServiceAccountGrant(
                    name: try rows.string(row, 1), role: role,
                    namespaces: rows.isNull(row, 3)
                        ? nil : try rows.string(row, 3).split(separator: ",").map(String.init))
                found.append(
                    ServiceAccountRecord(
                        uid: uid, grant: grant, tokenURI: try rows.string(row, 4), createdAt: try rows.int64(row, 5),
                        keys: keys))
            }
            return found
        }
    }

    private static func milliseconds(_ column: String) -> String { "(extract(epoch from \(column)) * 1000)::bigint" }

    /// Stores an account with its first key. Returns false if an account has this name, or if there are
    /// `ServiceAccountRecord.most` accounts.
    ///
    /// - Parameter uid: the account's identity, a random UUID.
    public func createServiceAccount(
        _ grant: ServiceAccountGrant, uid: String, tokenURI: String, keyID: String, publicKey: [UInt8]
    ) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                with account as (
                    insert into pathmirror.service_account (uid, name, role, namespaces, token_uri)
                    select $7::text::uuid, $1, $2, string_to_array($3, ','), $4
                    where (select count(*) from pathmirror.service_account) < \(ServiceAccountRecord.most)
                    on conflict (name) do nothing returning uid, name, role, namespaces
                ), key as (
                    insert into pathmirror.service_account_key (id, account, public_key) select $5, uid, $6 from account
                ), audit as (
                    insert into pathmirror.service_account_audit (action, account, name, role, namespaces, key)
                    select 'create', uid, name, role, namespaces, $5 from account
                )
                select uid::text, pg_notify('\(Self.placementChannel)', 'accounts') from account
                """,
                [
                    .text(grant.name), .text(grant.role.rawValue),
                    grant.namespaces.map { .text($0.joined(separator: ",")) } ?? .null(.text), .text(tokenURI),
                    .text(keyID), .bytea(publicKey), .text(uid),
                ])
            return rows.rowCount == 1
        }
    }

    /// Gives an account a new key. The present key ends after some seconds, and older ones now. Returns false if there is
    /// no such account.
    public func rotateServiceAccount(
        _ uid: String, keyID: String, publicKey: [UInt8], overlapSeconds: Int64
    ) throws(LogStoreError) -> Bool {
        try inTransaction { () throws(PostgresError) in
            // Another rotation waits.
            let account: PostgresParameters = [.text(uid)]
            guard
                try postgres.execute(
                    "select from pathmirror.service_account where uid = $1::text::uuid for update", account
                ).rowCount == 1
            else { return false }
            _ = try postgres.execute(
                """
                delete from pathmirror.service_account_key where account = $1::text::uuid and ($2::bigint = 0 or id <> (
                    select id from pathmirror.service_account_key where account = $1::text::uuid
                    order by created_at desc, id limit 1))
                """, [.text(uid), .int8(overlapSeconds)])
            _ = try postgres.execute(
                """
                update pathmirror.service_account_key
                set ends_at = least(ends_at, clock_timestamp() + $2 * interval '1 second') where account = $1::text::uuid
                """, [.text(uid), .int8(overlapSeconds)])
            _ = try postgres.execute(
                """
                insert into pathmirror.service_account_key (id, account, public_key, created_at)
                values ($2, $1::text::uuid, $3, clock_timestamp())
                """, [.text(uid), .text(keyID), .bytea(publicKey)])
            _ = try postgres.execute(
                """
                insert into pathmirror.service_account_audit (action, account, name, role, namespaces, key)
                select 'rotate', uid, name, role, namespaces, $2 from pathmirror.service_account where uid = $1::text::uuid
                """, [.text(uid), .text(keyID)])
            _ = try postgres.execute("select pg_notify('\(Self.placementChannel)', 'accounts')")
            return true
        }
    }

    /// Removes an account with its keys. Returns false if there is no account of this name.
    public func removeServiceAccount(_ name: String) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                with account as (
                    delete from pathmirror.service_account where name = $1 returning uid, name, role, namespaces
                ), audit as (
                    insert into pathmirror.service_account_audit (action, account, name, role, namespaces)
                    select 'rm', uid, name, role, namespaces from account
                )
                select pg_notify('\(Self.placementChannel)', 'accounts') from account
                """, [.text(name)]
            ).rowCount == 1
        }
    }
}
