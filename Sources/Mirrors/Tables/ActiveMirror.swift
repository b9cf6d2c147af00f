import LogStore
import Postgres
import Tree

/// A mirror as its runner has it: its table, and where its cursor was last.
struct ActiveMirror {
    let id: [UInt8]
    let namespace: Int64
    let generation: Int64
    let table: MirrorTable
    let projector: Projector
    var seq: Int64
    /// The batch of the entry there; nil where nobody knows it yet.
    var batch: [UInt8]?
    /// Whether errors may be stored: then those of a record that is written anew have to go.
    var mayHaveErrors: Bool
    /// Its last stretch of the log held a row that the table refused: this time rows are tried one by one.
    var isCareful = false
    /// A step of several pages was in vain because of such a row: as far as it may have come, steps are of one page, so that the next one
    /// is not in vain for the same row.
    var byPageThrough: Int64 = 0
    /// What the table's indexes are called once it is whole, while a build has them under names of its own.
    var namesToBe: [IndexNameToBe] = []
    /// The records that a foreign key refused in this stretch.
    var waiting: [String] = []
    /// What the stretch being worked on does to it.
    var pending: PendingChanges

    var name: String { table.definition.name }
    var definition: MirrorDefinition { table.definition }
    /// What its records were, where it keeps that.
    var versions: MirrorVersions { MirrorVersions(namespace: namespace, mirror: id) }
    /// The table as its errors know it.
    var asGeneration: MirrorGeneration {
        MirrorGeneration(namespace: namespace, mirror: id, generation: generation)
    }

    init(
        id: [UInt8], namespace: Int64, generation: Int64, table: MirrorTable, seq: Int64, batch: [UInt8]?,
        mayHaveErrors: Bool
    ) {
        self.id = id
        self.namespace = namespace
        self.generation = generation
        self.table = table
        self.seq = seq
        self.batch = batch
        self.mayHaveErrors = mayHaveErrors
        projector = Projector(table.definition)
        pending = PendingChanges(table.definition.pattern)
    }
}
