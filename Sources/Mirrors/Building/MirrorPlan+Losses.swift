import LogStore
import Postgres

extension MirrorPlan {
    /// What would be lost of what somebody has made on the table, as sentences.
    ///
    /// - Throws: ``MirrorError/refused(_:)`` where something is in the way of another table, with what its user can do.
    static func losses(
        of old: MirrorDefinition, to new: MirrorDefinition, _ renames: [ColumnRename], _ target: PostgresConnection
    ) throws -> [String] {
        try TableReaders.refuseMaterializedViews(of: old, target)
        try TableReaders.refuseWhatNamesTheTable(of: old, becoming: new, target)
        let types = { (definition: MirrorDefinition) in
            Dictionary(MirrorTable(definition, name: definition.table, label: "").readTypes) { first, _ in first }
        }
        let after = types(new)
        var gone: Set<String> = []
        var retyped: Set<String> = []
        for (name, type) in types(old) {
            let name = renames.first { $0.old == name }?.new ?? name
            guard let other = after[name] else {
                gone.insert(name)
                continue
            }
            if other != type { retyped.insert(renames.first { $0.new == name }?.old ?? name) }
        }
        let lost = try ColumnDependents(on: gone, of: old, target)
        if let view = lost.views.first {
            throw MirrorError.refused(
                "The view \(view.name) reads the column \(view.column) of \(old.tableName), which the new table does not have. Drop the view, and make it anew afterwards."
            )
        }
        if let policy = lost.policies.first {
            throw MirrorError.refused(
                "The policy \(policy.name) for the rows of \(old.tableName) reads the column \(policy.column), which the new table does not have. Drop the policy, and make it anew afterwards."
            )
        }
        let doubtful = try ColumnDependents(on: retyped, of: old, target)
        return lost.indexes.map {
            "The index \($0.name) is on the column \($0.column), which the new table does not have."
        }
            + (doubtful.views + doubtful.policies).map {
                "\($0.name) reads the column \($0.column), which gets another type: where it does not fit that, no new table comes."
            } + (try HandmadeIndexes.losses(of: old, target))
    }
}
