/// What is read, beside plain entries, when a tree is rebuilt: of a snapshot, and of the parts of bulk entries.
public struct BulkRead: Sendable, Equatable {
    public internal(set) var snapshotLeaves: Int64 = 0
    /// Parts, each of some megabytes.
    public internal(set) var parts: Int64 = 0
    /// Leaves of the parts.
    public internal(set) var partLeaves: Int64 = 0

    public init(snapshotLeaves: Int64 = 0, parts: Int64 = 0, partLeaves: Int64 = 0) {
        self.snapshotLeaves = snapshotLeaves
        self.parts = parts
        self.partLeaves = partLeaves
    }

    /// Leaves of both.
    public var leaves: Int64 { snapshotLeaves + partLeaves }

    /// What it costs, where a plain entry costs 1.
    public var work: Int64 { snapshotLeaves + parts * 50_000 }

    mutating func take(_ leaves: Int) {
        parts += 1
        partLeaves += Int64(leaves)
    }
}
