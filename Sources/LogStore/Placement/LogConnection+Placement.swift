public import Postgres

/// Which database has which namespace; all of it is asked of the home.
extension LogConnection {
    static let placementChannel = "pathmirror_placement"

    /// Counts the changes of databases and placements.
    public func placementVersion() throws(LogStoreError) -> Int64 {
        try translated { () throws(PostgresError) in
            try postgres.execute("select version from pathmirror.placement_version").int64(0, 0)
        }
    }

    /// All databases besides the home, by name.
    public func databases() throws(LogStoreError) -> [DatabaseRecord] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select name, host, port, dbname, installation::text, is_draining from pathmirror.database order by name
                """)
            var found: [DatabaseRecord] = []
            for row in 0..<rows.rowCount {
                found.append(
                    DatabaseRecord(
                        name: try rows.string(row, 0), host: try rows.string(row, 1),
                        port: rows.isNull(row, 2) ? nil : try rows.string(row, 2),
                        databaseName: try rows.string(row, 3), installation: try rows.string(row, 4),
                        isDraining: try rows.bool(row, 5)))
            }
            return found
        }
    }

    /// What has been placed since a version: each namespace with its database, nil where it has none but the home.
    public func placements(
        since version: Int64
    ) throws(LogStoreError) -> [(namespace: String, database: String?)] {
        guard version < 0 else {
            return try placements("where version > $1 order by namespace", [.int8(version)])
        }
        // All of them, in pieces: what is changed meanwhile has a newer version, and is found by that.
        var found: [(namespace: String, database: String?)] = []
        while true {
            let piece = try placements(
                "where namespace > $1 order by namespace limit $2",
                [.text(found.last?.namespace ?? ""), .int8(Self.placementsAtOnce)])
            found += piece
            if piece.count < Int(Self.placementsAtOnce) { return found }
        }
    }

    /// So many placements one statement reads, where all are read.
    private static let placementsAtOnce: Int64 = 10_000

    private func placements(
        _ condition: String, _ parameters: PostgresParameters
    ) throws(LogStoreError) -> [(namespace: String, database: String?)] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select namespace, database from pathmirror.placement \(condition)", parameters)
            var found: [(namespace: String, database: String?)] = []
            for row in 0..<rows.rowCount {
                found.append((try rows.string(row, 0), rows.isNull(row, 1) ? nil : try rows.string(row, 1)))
            }
            return found
        }
    }

    /// The database in which a namespace lives; nil for the home.
    public func database(of namespace: String) throws(LogStoreError) -> DatabaseRecord? {
        let name = try translated { () throws(PostgresError) -> String? in
            let rows = try postgres.execute(
                "select database from pathmirror.placement where namespace = $1 and database is not null",
                [.text(namespace)])
            return rows.rowCount == 0 ? nil : try rows.string(0, 0)
        }
        guard let name else { return nil }
        return try databases().first { $0.name == name }
    }

    /// Says that a namespace lives in a database, where it is to be made then; nil: in none but the home. Nothing changes where
    /// that is so already. Throws `misplaced` where it can't be. Takes the schema's owner.
    public func place(_ namespace: String, in database: String?) throws(LogStoreError) {
        try mayBeMisplaced { () throws(PostgresError) in
            _ = try postgres.execute(
                "select pathmirror.place($1, $2)", [.text(namespace), database.map { .text($0) } ?? .null(.text)])
        }
    }

    /// A move that is under way, or was interrupted: from which database to which.
    public func move(of namespace: String) throws(LogStoreError) -> (source: String, target: String)? {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                "select source, target from pathmirror.namespace_move where namespace = $1", [.text(namespace)])
            return rows.rowCount == 0 ? nil : (try rows.string(0, 0), try rows.string(0, 1))
        }
    }

    /// The namespaces that live in a database besides the home, are still leaving it, or are on their way there.
    public func namespaces(in database: String) throws(LogStoreError) -> [String] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select namespace from pathmirror.placement where database = $1
                union select namespace from pathmirror.namespace_move where $1 in (source, target) order by 1
                """, [.text(database)])
            var found: [String] = []
            for row in 0..<rows.rowCount { found.append(try rows.string(row, 0)) }
            return found
        }
    }

    /// Adds a database, or says where one is now that was there before. Takes the schema's owner.
    ///
    /// - Throws: `misplaced` where the name, or the database itself, is another's.
    public func addDatabase(_ record: DatabaseRecord) throws(LogStoreError) {
        let added = try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                insert into pathmirror.database as known (name, host, port, dbname, installation, version)
                select $1, $2, $3, $4, $5::text::uuid, pathmirror.next_placement_version()
                where not exists (select from pathmirror.database where installation = $5::text::uuid and name <> $1)
                on conflict (name) do update set host = excluded.host, port = excluded.port, dbname = excluded.dbname,
                    version = excluded.version
                where known.installation = excluded.installation
                """,
                [
                    .text(record.name), .text(record.host), record.port.map { .text($0) } ?? .null(.text),
                    .text(record.databaseName), .text(record.installation),
                ]
            ).affectedRows
        }
        guard added == 1 else {
            throw .misplaced(
                "There is a database \"\(record.name)\" already, or this one is known under another name: see 'pathmirror database ls'."
            )
        }
    }

    /// From now on, or not any more, no namespace is placed in a database. False where there is none of that name. Takes the
    /// schema's owner.
    public func drainDatabase(_ name: String, _ isDraining: Bool) throws(LogStoreError) -> Bool {
        try translated { () throws(PostgresError) in
            try postgres.execute(
                """
                update pathmirror.database set is_draining = $2, version = pathmirror.next_placement_version() where name = $1
                """, [.text(name), .bool(isDraining)]
            ).affectedRows == 1
        }
    }

    /// Forgets a database. False where there is none of that name, or a namespace lives there, is leaving it or is on its way there.
    /// Takes the schema's owner.
    public func removeDatabase(_ name: String) throws(LogStoreError) -> Bool {
        try inTransaction { () throws(PostgresError) in
            // Whoever places a namespace holds the first lock, and who begins a move the second: what they have done is seen by a
            // statement that begins behind both.
            _ = try postgres.execute("select pathmirror.next_placement_version()")
            _ = try postgres.execute("select from pathmirror.database where name = $1 for update", [.text(name)])
            return try postgres.execute(
                """
                delete from pathmirror.database where name = $1
                    and not exists (select from pathmirror.placement where database = $1)
                    and not exists (select from pathmirror.namespace_move where $1 in (source, target))
                """, [.text(name)]
            ).affectedRows == 1
        }
    }

    /// Asks the database whether it is the one that was added.
    ///
    /// - Throws: `anotherInstallation` where it is not, or has no schema of this program.
    public func check(is record: DatabaseRecord) throws(LogStoreError) {
        let found = try installationIfAny()
        guard found != record.installation else { return }
        throw .anotherInstallation(database: record.name, expected: record.installation, found: found)
    }

    private func installationIfAny() throws(LogStoreError) -> String? {
        do throws(LogStoreError) {
            return try installation()
        } catch {
            // There is no such table.
            guard case .database(let cause) = error, cause.sqlState == "42P01" else { throw error }
            return nil
        }
    }

    /// Runs statements in one transaction in which a namespace, if one is given, stays in this database; returns their results.
    func holding(
        _ namespace: Int64?, _ steps: [PipelineStep]
    ) throws(PostgresError) -> [PostgresResult] {
        var all: [PipelineStep] = [.query("begin")]
        if let namespace { all.append(.query("select pathmirror.hold_namespace($1)", [.int8(namespace)])) }
        let first = all.count
        all += steps
        all.append(.query("commit"))
        return Array(try postgres.pipeline(all)[first..<first + steps.count])
    }

    /// Runs what may make a namespace, or place one, or change what is of one.
    func mayBeMisplaced<Result>(_ body: () throws(PostgresError) -> Result) throws(LogStoreError) -> Result {
        do throws(PostgresError) {
            return try body()
        } catch {
            guard SchemaErrorCode(error) == .misplaced else { throw .database(error) }
            throw .misplaced("\(error.message.prefix(1).uppercased())\(error.message.dropFirst()).")
        }
    }
}

/// A database besides the home in which namespaces live, as the home's table has it: where it is, and not how to get in.
public struct DatabaseRecord: Sendable, Equatable {
    public let name: String
    /// As libpq takes them: several hosts and ports are separated by commas.
    public let host: String
    public let port: String?
    public let databaseName: String
    /// What the database says of itself, in `pathmirror.installation`.
    public let installation: String
    /// No namespace is placed there any more.
    public let isDraining: Bool

    /// What the home is called among databases.
    public static let home = "home"

    public init(
        name: String, host: String, port: String?, databaseName: String, installation: String, isDraining: Bool = false
    ) {
        self.name = name
        self.host = host
        self.port = port
        self.databaseName = databaseName
        self.installation = installation
        self.isDraining = isDraining
    }

    /// `host:port/database`, for people.
    public var address: String { "\(host)\(port.map { ":\($0)" } ?? "")/\(databaseName)" }

    /// How to get in: as into the home, but for the place and for what `login` says. Where that names a user, it has to say how
    /// that one logs in, too: the home's password is for the home's user.
    ///
    /// - Parameter login: a user, a password, other options of libpq; nil for the home's.
    public func url(home: PostgresURL, login: PostgresURL?) -> PostgresURL {
        let place = home.at(host: host, port: port, database: databaseName)
        return login.map { place.with($0) } ?? place
    }
}

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
