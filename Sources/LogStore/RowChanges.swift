public import Tree

/// The rows of the tree that a batch writes and removes: at most one change a row, whatever the batch's writes did to it
/// in between.
public struct RowChanges: RowSink, Sendable {
    struct Row: Sendable {
        /// Whether the row existed before the batch.
        let existed: Bool
        var value: Node
        var version: Int64
    }
    private(set) var rows: [[UInt8]: Row] = [:]
    /// The seq of the write whose rows come next.
    public var seq: Int64 = 0

    public init() {}

    /// How many bytes the texts of leaves have more than those that were in their places, of all writes together, and the paths of
    /// rows that were not there, whose keys take room as well. Nothing is taken off for what went without another leaf in its
    /// place, and keys that paths share count for each.
    public private(set) var textGrowth = 0

    public var count: Int { rows.count }
    public var isEmpty: Bool { rows.isEmpty }

    /// Takes one row that a difference of two trees found; a later change of the same row replaces an earlier one.
    public mutating func row(_ path: [UInt8], old: Node, new: Node) {
        // A leaf that went as there are places below it now is found once for each of them.
        if !new.isNull { textGrowth += Self.textBytes(new) + (old.isNull ? path.count : -Self.textBytes(old)) }
        Self.merge(into: &rows[path], old: old, new: new, seq: seq)
    }

    private static func textBytes(_ leaf: Node) -> Int {
        if case .string(let text) = leaf { text.utf8.count } else { 0 }
    }

    private static func merge(into row: inout Row?, old: Node, new: Node, seq: Int64) {
        let existed = row?.existed ?? !old.isNull
        row = new.isNull && !existed ? nil : Row(existed: existed, value: new, version: seq)
    }

    /// Forgets all rows, and keeps the memory for the next batch.
    public mutating func removeAll() {
        rows.removeAll(keepingCapacity: true)
        textGrowth = 0
    }
}
