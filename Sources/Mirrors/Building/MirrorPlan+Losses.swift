import LogStore
import Postgres

extension MirrorPlan {
    /// Returns sentences about user-defined objects that a new table would lack.
    ///
    /// - Throws: ``MirrorError/refused(_:)`` if an object prevents a new table, with the steps that an operator can take.
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
                "The view \(view.name) reads the column \(view.column) of \(old.tableName), which the new table does not have. Drop the view, and create it again afterwards."
            )
        }
        if let policy = lost.policies.first {
            throw MirrorError.refused(
                "The policy \(policy.name) for the rows of \(old.tableName) reads the column \(policy.column), which the new table does not have. Drop the policy, and create it again afterwards."
            )
        }
        let doubtful = try ColumnDependents(on: retyped, of: old, target)
        return lost.indexes.map {
            "The index \($0.name) is on the column \($0.column), which the new table does not have."
        }
            + (doubtful.views + doubtful.policies).map {
                "\($0.name) reads the column \($0.column), whose type changes: the rebuild fails if \($0.name) does not accept the new type."
            } + (try UserDefinedIndexes.losses(of: old, target))
    }
}

/// Objects of other users that depend on single columns of a mirror's table. A new table without these columns can't have them.
struct ColumnDependents {
    struct Dependent: Equatable {
        let name: String
        let column: String
    }

    private(set) var views: [Dependent] = []
    private(set) var policies: [Dependent] = []
    private(set) var indexes: [Dependent] = []

    /// Finds dependents on a definition's table and its view of versions. The table may be missing.
    ///
    /// - Parameter columns: the names of the columns.
    init(on columns: Set<String>, of definition: MirrorDefinition, _ target: PostgresConnection) throws {
        guard !columns.isEmpty else { return }
        let table = MirrorTable(definition, name: definition.table, label: "")
        let own = Set(table.indexNames(of: table.name))
        var names = PostgresArray(of: .text)
        for column in columns.sorted() { names.appendText(column) }
        let rows = try target.execute(
            """
            select distinct depend.classid::regclass::text, attname,
                coalesce(
                    (
                        select format('%I.%I', nspname, relname) from pg_rewrite
                        join pg_class on pg_class.oid = ev_class join pg_namespace on pg_namespace.oid = relnamespace
                        where pg_rewrite.oid = depend.objid and depend.classid = 'pg_rewrite'::regclass and ev_class <> attrelid
                            and ev_class is distinct from to_regclass($3)
                    ),
                    (
                        select polname from pg_policy
                        where pg_policy.oid = depend.objid and depend.classid = 'pg_policy'::regclass and polrelid = attrelid
                    ),
                    (
                        select relname from pg_class
                        where pg_class.oid = depend.objid and depend.classid = 'pg_class'::regclass and relkind = 'i'
                    ))
            from pg_attribute
            join pg_depend as depend on depend.refclassid = 'pg_class'::regclass and refobjid = attrelid and refobjsubid = attnum
            where attrelid in (to_regclass($1), to_regclass($3)) and not attisdropped and attname = any($2)
            order by 1, 3, 2
            """,
            [.text(table.qualifiedName), .array(names), table.versionsView.map { .text($0) } ?? .null(.text)])
        for row in 0..<rows.rowCount where !rows.isNull(row, 2) {
            let dependent = Dependent(name: try rows.string(row, 2), column: try rows.string(row, 1))
            switch try rows.string(row, 0) {
            case "pg_rewrite": views.append(dependent)
            case "pg_policy": policies.append(dependent)
            case "pg_class" where !own.contains(dependent.name): indexes.append(dependent)
            default: break
            }
        }
    }
}
