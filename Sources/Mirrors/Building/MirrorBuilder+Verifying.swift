import LogStore
import Postgres
import Tree

extension MirrorBuilder {
    /// Brings the new table to the head of one snapshot of the tree, and compares it with what the tree says there. Nobody
    /// else writes to it meanwhile.
    ///
    /// - Returns: the entry that the snapshot was after.
    func verify(_ building: inout ActiveMirror, _ catchingUp: CatchingUp) throws -> Int64 {
        guard let record = try source.beginSnapshot(mirror.namespaceID) else {
            throw MirrorError.refused("The namespace \"\(mirror.namespace)\" is gone.")
        }
        defer { source.endSnapshot() }
        try target.executeScript("begin")
        while building.seq < record.head { _ = try catchingUp.advance(&building, in: record) }
        try target.executeScript("commit")
        let comparison = try compare(building)
        guard comparison.isClean else {
            throw MirrorError.refused(
                """
                The new table of mirror "\(mirror.name)" is not what the tree at seq \(record.head) says, in \(comparison.differenceCount) rows; the old one stays in place.
                \(comparison.differences.joined(separator: "\n"))
                """)
        }
        return record.head
    }

    private func compare(_ building: ActiveMirror) throws -> TableComparison {
        let pattern = definition.pattern
        let comparison = TableComparison(target, building)
        var count = 0
        progress(.verifying(rows: 0))
        try RecordBatches.forEach(mirror.namespaceID, pattern, source, most: min(rowsAtOnce, 1_000)) { records in
            for record in records { try comparison.add(record.keys, record.value) }
            count += records.count
            progress(.verifying(rows: count))
        }
        try comparison.finish { some in
            try source.readSubtrees(mirror.namespaceID, some.map { pattern.path(of: $0) }).map(\.value)
        }
        return comparison
    }
}
