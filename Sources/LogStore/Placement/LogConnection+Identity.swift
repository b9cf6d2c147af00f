import Postgres

extension LogConnection {
    /// Whether another session is of the same database on the same server, whatever the addresses: one of them holds a lock, and the other sees whether it
    /// can have it.
    public func isSameDatabase(as other: LogConnection) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            let lock = "hashtextextended($1, 7061746864)"
            let name: PostgresParameters = [.textBytes(Batch.makeID().map { 0x61 + $0 % 26 })]
            _ = try postgres.execute("select pg_advisory_lock(\(lock))", name)
            let isFree = try other.postgres.execute("select pg_try_advisory_lock(\(lock))::text", name).string(0, 0)
            _ = try postgres.execute("select pg_advisory_unlock(\(lock))", name)
            if isFree == "true" { _ = try other.postgres.execute("select pg_advisory_unlock(\(lock))", name) }
            return isFree != "true"
        }
    }

    /// Holds a namespace's name until the connection is closed: nobody makes one of that name here, or places one elsewhere, meanwhile. Waits for those who are at it.
    public func holdName(_ namespace: String) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                "select pg_advisory_lock(hashtextextended($1, 7061746863))", [.text(namespace)])
        }
    }

    /// Lets go of what `holdName` holds.
    public func releaseName(_ namespace: String) throws(LogStoreError) {
        try translated { () throws(PostgresError) in
            _ = try postgres.execute(
                "select pg_advisory_unlock(hashtextextended($1, 7061746863))", [.text(namespace)])
        }
    }
}
