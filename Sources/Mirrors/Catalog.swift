import LogStore
public import Postgres
import Tree

/// A mirror as the gateway's database knows it.
public struct CatalogMirror: Sendable {
    public let namespaceID: Int64
    public let namespace: String
    public let id: [UInt8]
    /// The definition as it was applied last; what the table obeys is said by the cursor.
    public let definition: MirrorDefinition
    /// A URL or `env:NAME`; nil for this database. May hold a password.
    public let target: String?
    public let isPaused: Bool
    /// Different whenever something about the mirror has changed.
    let revision: Int64

    public var name: String { definition.name }
}

/// Where a mirror's table is, by the target database's own account.
public struct MirrorCursor: Sendable {
    public let id: [UInt8]
    public let seq: Int64
    /// The batch of the entry there; nil in a cursor that has not moved since this is kept.
    public let batch: [UInt8]?
    public let generation: Int64
    public let definition: MirrorDefinition
    public let hasErrors: Bool
}

/// Reads and writes which mirrors exist.
public enum Catalog {
    /// The channel on which changes of the catalog are announced.
    public static let channel = "pathmirror_mirror"

    /// All mirrors of all namespaces, by namespace and name.
    public static func mirrors(_ connection: PostgresConnection) throws -> [CatalogMirror] {
        let rows = try connection.execute(
            """
            select mirror.namespace_id, namespace.name, mirror.id, mirror.definition::text, mirror.target, mirror.is_paused,
                (extract(epoch from mirror.updated_at) * 1000000)::bigint
            from pathmirror.mirror join pathmirror.namespace on namespace.id = mirror.namespace_id
            order by mirror.namespace_id, mirror.name
            """)
        return try (0..<rows.rowCount).map { row in
            CatalogMirror(
                namespaceID: try rows.int64(row, 0), namespace: try rows.string(row, 1), id: try rows.bytes(row, 2),
                definition: try definition(try rows.bytes(row, 3)),
                target: rows.isNull(row, 4) ? nil : try rows.string(row, 4), isPaused: try rows.bool(row, 5),
                revision: try rows.int64(row, 6))
        }
    }

    static func definition(_ json: [UInt8]) throws -> MirrorDefinition {
        guard let definition = try MirrorDefinition.read(json, source: "pathmirror.mirror").first else {
            throw MirrorError.refused("A stored definition is empty.")
        }
        return definition
    }

    /// Adds a mirror that has no table yet, and returns its id.
    static func insert(
        _ connection: PostgresConnection, _ namespace: Int64, _ definition: MirrorDefinition
    ) throws -> [UInt8] {
        var parameters: PostgresParameters = [.int8(namespace), .text(definition.name)]
        parameters.appendJSON(definition.json)
        if let target = definition.target { parameters.appendText(target) } else { parameters.appendNull(.text) }
        return try connection.execute(
            "insert into pathmirror.mirror (namespace_id, name, definition, target) values ($1, $2, $3, $4) returning id",
            parameters
        ).bytes(0, 0)
    }

    static func update(_ connection: PostgresConnection, _ mirror: [UInt8], _ definition: MirrorDefinition) throws {
        var parameters: PostgresParameters = [.uuid(mirror)]
        parameters.appendJSON(definition.json)
        _ = try connection.execute(
            "update pathmirror.mirror set definition = $2, updated_at = clock_timestamp() where id = $1", parameters)
    }

    static func delete(_ connection: PostgresConnection, _ mirror: CatalogMirror) throws {
        let parameters: PostgresParameters = [.int8(mirror.namespaceID), .uuid(mirror.id)]
        _ = try connection.pipeline([
            .query("delete from pathmirror.mirror_run where namespace_id = $1 and mirror = $2", parameters),
            .query("delete from pathmirror.mirror where namespace_id = $1 and id = $2", parameters),
        ])
    }

    /// Stops or restarts a mirror's following of the log.
    public static func setPaused(
        _ connection: PostgresConnection, _ mirror: CatalogMirror, _ isPaused: Bool
    ) throws {
        _ = try connection.execute(
            "update pathmirror.mirror set is_paused = $3, updated_at = clock_timestamp() where namespace_id = $1 and id = $2",
            [.int8(mirror.namespaceID), .uuid(mirror.id), .bool(isPaused)])
        try announce(connection)
    }

    static func announce(_ connection: PostgresConnection) throws {
        _ = try connection.execute("select pg_notify($1, '')", [.text(channel)])
    }

    /// Names the gateway's database among others.
    static func installation(_ connection: PostgresConnection) throws -> String {
        try connection.execute("select id::text from pathmirror.installation").string(0, 0)
    }

    /// Where some mirrors of a namespace are.
    public static func cursors(
        _ target: PostgresConnection, _ namespace: Int64, _ mirrors: [[UInt8]]
    ) throws -> [MirrorCursor] {
        try cursors(target, namespace, mirrors, locking: "")
    }

    /// The same, and keeps the cursor from moving until the transaction ends.
    static func lockedCursor(
        _ target: PostgresConnection, _ mirror: CatalogMirror
    ) throws -> MirrorCursor? {
        try cursors(target, mirror.namespaceID, [mirror.id], locking: "for update of live").first
    }

    private static func cursors(
        _ target: PostgresConnection, _ namespace: Int64, _ mirrors: [[UInt8]], locking: String
    ) throws -> [MirrorCursor] {
        var ids = PostgresArray(of: .uuid)
        for id in mirrors { ids.appendUUID(id) }
        let rows = try target.execute(
            """
            select mirror, seq, generation, definition::text, exists (
                select from pathmirror.mirror_error as error
                where error.namespace_id = $1 and error.mirror = live.mirror and error.generation = live.generation), batch
            from pathmirror.mirror_cursor as live where namespace_id = $1 and mirror = any($2)
            \(locking)
            """, [.int8(namespace), .array(ids)])
        return try (0..<rows.rowCount).map { row in
            MirrorCursor(
                id: try rows.bytes(row, 0), seq: try rows.int64(row, 1),
                batch: rows.isNull(row, 5) ? nil : try rows.bytes(row, 5), generation: try rows.int64(row, 2),
                definition: try definition(try rows.bytes(row, 3)), hasErrors: try rows.bool(row, 4))
        }
    }
}

/// Connections to the databases in which mirrors' tables are.
public struct TargetConnector: Sendable {
    private let url: PostgresURL
    private let settings: ConnectionSettings
    private let environment: [String: String]

    /// - Parameters:
    ///   - url: the gateway's database.
    ///   - environment: for targets of the form `env:NAME`.
    public init(url: PostgresURL, settings: ConnectionSettings, environment: [String: String]) {
        self.url = url
        self.settings = settings
        self.environment = environment
    }

    /// - Parameter target: a URL or `env:NAME`; nil for the gateway's database.
    public func url(_ target: String?) throws -> PostgresURL {
        guard let target else { return url }
        guard target.hasPrefix("env:") else { return try PostgresURL(target) }
        let name = String(target.dropFirst(4))
        guard let text = environment[name] else {
            throw MirrorError.refused("The mirror's target is in the environment variable \(name), which is not set.")
        }
        return try PostgresURL(text)
    }

    /// Opens a connection to a mirror's target; nil is the gateway's own database.
    public func connect(_ target: String?, as purpose: String) throws -> PostgresConnection {
        let connection = try PostgresConnection(
            try url(target).withApplicationName("pathmirror \(purpose)"), settings: settings)
        if target != nil { try connection.executeScript(TargetSchema.sql) }
        return connection
    }
}
