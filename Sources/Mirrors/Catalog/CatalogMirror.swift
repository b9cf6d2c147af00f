public import LogStore
public import Postgres
import Tree

/// A mirror as registered in the gateway's database.
public struct CatalogMirror: Sendable {
    public let namespaceID: Int64
    public let namespace: String
    public let id: [UInt8]
    /// The definition that was applied last. The table's own definition is in the cursor.
    public let definition: MirrorDefinition
    /// A URL or `env:NAME`, or nil for the gateway's database. May contain a password.
    public let target: String?
    public let isPaused: Bool
    /// Changes with every change of the mirror.
    let revision: Int64

    public var name: String { definition.name }
}

/// The log position and state of a mirror's table, as stored in the target database.
public struct MirrorCursor: Sendable {
    public let id: [UInt8]
    /// Its batch is nil in a cursor that has not moved since batches are stored.
    public let position: LogPosition
    public let generation: Int64
    public let definition: MirrorDefinition
    public let hasErrors: Bool
    /// The beginning of the table's history, or nil for a table without one.
    public let begins: MirrorHistoryBeginning?

    public var seq: Int64 { position.seq }
}

extension CatalogMirror {
    /// Creates a mirror from its row in the catalog.
    init(_ record: MirrorRecord) throws {
        self.init(
            namespaceID: record.namespaceID, namespace: record.namespace, id: record.id,
            definition: try MirrorDefinition(stored: record.definition), target: record.target,
            isPaused: record.isPaused, revision: record.revision)
    }
}

extension MirrorCursor {
    fileprivate init(_ record: MirrorCursorRecord) throws {
        self.init(
            id: record.mirror, position: record.position, generation: record.generation,
            definition: try MirrorDefinition(stored: record.definition), hasErrors: record.hasErrors,
            begins: record.begins)
    }

    /// Returns the cursors of some mirrors of a namespace.
    ///
    /// - Parameter locking: whether to lock the cursors until the transaction ends.
    public static func of(
        _ mirrors: [[UInt8]], in namespace: Int64, _ target: PostgresConnection, locking: Bool = false
    ) throws -> [MirrorCursor] {
        try MirrorCursors.read(target, namespace, mirrors, locking: locking).map { try MirrorCursor($0) }
    }

    /// Returns a mirror's cursor, or nil if the mirror has no table yet.
    static func of(
        _ mirror: CatalogMirror, _ target: PostgresConnection, locking: Bool = false
    ) throws -> MirrorCursor? {
        try of([mirror.id], in: mirror.namespaceID, target, locking: locking).first
    }
}

extension LogConnection {
    /// Returns all mirrors of this database's namespaces, ordered by namespace and name.
    public func catalogMirrors() throws -> [CatalogMirror] { try mirrors().map { try CatalogMirror($0) } }
}

extension MirrorDefinition {
    /// - Throws: `MirrorError.refused` if the stored definition has a mistake.
    func checkUsable() throws(MirrorError) {
        guard let mistake else { return }
        throw .refused(
            "The stored definition of mirror \"\(name)\" can't be used: \(mistake). Apply a definition that can.")
    }
}
