public import LogStore
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
    /// Where the history begins that the table is; nil for a table that is none.
    public let begins: MirrorHistoryBeginning?
}

extension CatalogMirror {
    /// A mirror as its row of the catalog says it is.
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
            id: record.mirror, seq: record.seq, batch: record.batch, generation: record.generation,
            definition: try MirrorDefinition(stored: record.definition), hasErrors: record.hasErrors,
            begins: record.begins)
    }

    /// Where some mirrors of a namespace are.
    ///
    /// - Parameter locking: keeps the cursors from moving until the transaction ends.
    public static func of(
        _ mirrors: [[UInt8]], in namespace: Int64, _ target: PostgresConnection, locking: Bool = false
    ) throws -> [MirrorCursor] {
        try MirrorCursors.read(target, namespace, mirrors, locking: locking).map { try MirrorCursor($0) }
    }

    /// Where a mirror is; nil where it has no table yet.
    static func of(
        _ mirror: CatalogMirror, _ target: PostgresConnection, locking: Bool = false
    ) throws -> MirrorCursor? {
        try of([mirror.id], in: mirror.namespaceID, target, locking: locking).first
    }
}

extension LogConnection {
    /// All mirrors of this database's namespaces, by namespace and name.
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
