import Postgres

/// A mirror's row in the catalog.
public struct MirrorRecord: Sendable {
    public let namespaceID: Int64
    public let namespace: String
    public let name: String
    public let id: [UInt8]
    /// The definition that was applied last, as JSON.
    public let definition: [UInt8]
    /// The address of the database with the mirror's table, or nil for this database.
    public let target: String?
    public let isPaused: Bool
    /// Differs after every change of the mirror.
    public let revision: Int64
}

/// The catalog of mirrors.
extension LogConnection {
    /// The channel on which changes of the catalog are announced.
    static let mirrorChannel = "pathmirror_mirror"

    /// Returns all mirrors, ordered by namespace and name.
    public func mirrors() throws(LogStoreError) -> [MirrorRecord] {
        try translated { () throws(PostgresError) in
            let rows = try postgres.execute(
                """
                select mirror.namespace_id, namespace.name, mirror.id, mirror.definition::text, mirror.target, mirror.is_paused,
                    (extract(epoch from mirror.updated_at) * 1000000)::bigint, mirror.name
                from pathmirror.mirror join pathmirror.namespace on namespace.id = mirror.namespace_id
                order by mirror.namespace_id, mirror.name
                """)
            var records: [MirrorRecord] = []
            for row in 0..<rows.rowCount {
                records.append(
                    MirrorRecord(
                        namespaceID: try rows.int64(row, 0), namespace: try rows.string(row, 1),
                        name: try rows.string(row, 7), id: try rows.bytes(row, 2), definition: try rows.bytes(row, 3),
                        target: rows.isNull(row, 4) ? nil : try rows.string(row, 4), isPaused: try rows.bool(row, 5),
                        revision: try rows.int64(row, 6)))
            }
            return records
        }
    }

    /// Adds a mirror that has no table yet, and returns its id.
    public func addMirror(
        _ namespace: Int64, name: String, definition: [UInt8], target: String?
    ) throws(LogStoreError) -> [UInt8] {
        try mayBeMisplaced { () throws(PostgresError) in
            var parameters: PostgresParameters = [.int8(namespace), .text(name)]
            parameters.appendJSON(definition)
            if let target { parameters.appendText(target) } else { parameters.appendNull(.text) }
            let add = PipelineStep.query(
                "insert into pathmirror.mirror (namespace_id, name, definition, target) values ($1, $2, $3, $4) returning id",
                parameters)
            return try holding(namespace, [add])[0].bytes(0, 0)
        }
    }

    /// Stores a new definition of a mirror, and announces it.
    ///
    /// - Throws: `misplaced` if the namespace has left this database.
    public func redefineMirror(_ mirror: [UInt8], definition: [UInt8]) throws(LogStoreError) {
        try mayBeMisplaced { () throws(PostgresError) in
            var parameters: PostgresParameters = [.uuid(mirror)]
            parameters.appendJSON(definition)
            _ = try holding(
                nil,
                [
                    .query(
                        "select pathmirror.hold_namespace(namespace_id) from pathmirror.mirror where id = $1",
                        [.uuid(mirror)]),
                    .query(
                        "update pathmirror.mirror set definition = $2, updated_at = clock_timestamp() where id = $1",
                        parameters),
                ])
            try announceMirrors()
        }
    }

    /// Removes a mirror from the catalog, and announces the removal.
    ///
    /// - Throws: `misplaced` if the namespace has left this database.
    public func removeMirror(_ namespace: Int64, _ mirror: [UInt8]) throws(LogStoreError) {
        try mayBeMisplaced { () throws(PostgresError) in
            let parameters: PostgresParameters = [.int8(namespace), .uuid(mirror)]
            _ = try holding(
                namespace,
                [
                    Self.releaseStep(namespace, of: mirror),
                    .query("delete from pathmirror.mirror_run where namespace_id = $1 and mirror = $2", parameters),
                    .query("delete from pathmirror.mirror where namespace_id = $1 and id = $2", parameters),
                ])
            try announceMirrors()
        }
    }

    /// Pauses or resumes a mirror, and announces the change.
    ///
    /// - Throws: `misplaced` if the namespace has left this database.
    public func setMirrorPaused(_ namespace: Int64, _ mirror: [UInt8], _ isPaused: Bool) throws(LogStoreError) {
        try mayBeMisplaced { () throws(PostgresError) in
            _ = try holding(
                namespace,
                [
                    .query(
                        "update pathmirror.mirror set is_paused = $3, updated_at = clock_timestamp() where namespace_id = $1 and id = $2",
                        [.int8(namespace), .uuid(mirror), .bool(isPaused)])
                ])
            try announceMirrors()
        }
    }

    private func announceMirrors() throws(PostgresError) {
        _ = try postgres.execute("select pg_notify($1, '')", [.text(Self.mirrorChannel)])
    }

    /// Returns the id that distinguishes this database from others.
    public func installation() throws(LogStoreError) -> String {
        try translated { () throws(PostgresError) in
            try postgres.execute("select id::text from pathmirror.installation").string(0, 0)
        }
    }
}
