import LogStore
import Postgres

/// Replaces a mirror's table by a finished one, with its rights and the views that read it, in the transaction that moves the
/// cursor.
struct TableSwap {
    private let target: PostgresConnection
    private let mirror: CatalogMirror
    private let table: MirrorTable
    private let old: MirrorCursor?
    private let userDefined: UserDefinedIndexes?

    init(
        _ target: PostgresConnection, _ mirror: CatalogMirror, from table: MirrorTable, replacing old: MirrorCursor?,
        keeping userDefined: UserDefinedIndexes?
    ) {
        self.target = target
        self.mirror = mirror
        self.table = table
        self.old = old
        self.userDefined = userDefined
    }

    /// Begins the transaction and locks the old table's cursor.
    func begin() throws {
        try target.executeScript("begin; set local lock_timeout = '2s'")
        guard let old else { return }
        let generation = try MirrorCursors.lockedGeneration(target, mirror.namespaceID, mirror.id)
        guard generation == old.generation else { throw MirrorError.moved }
    }

    /// Swaps the tables, moves the cursor, and commits.
    ///
    /// - Parameter last: further steps before the commit.
    /// - Returns: sentences about user-defined objects on the old table that the new one lacks.
    func finish(
        _ definition: MirrorDefinition, generation: Int64, at position: LogPosition, _ last: [PipelineStep] = []
    ) throws -> [String] {
        var userDefined = userDefined
        // PostgreSQL then returns the views' definitions with all names qualified.
        try target.executeScript("set local search_path = pg_catalog")
        let final = MirrorTable(definition, name: definition.table, label: "")
        var views: [String] = []
        var new = [final.qualifiedName] + (final.versionsView.map { [$0] } ?? [])
        if let old {
            let oldTable = MirrorTable(old.definition, name: old.definition.table, label: "")
            if try exists(oldTable.qualifiedName) {
                if try hasRights(oldTable.qualifiedName) { new.removeAll { $0 == final.qualifiedName } }
                views = try dependentViews(oldTable)
                try userDefined?.noteLatecomers(on: old.definition, target)
                try copyRights(from: oldTable.qualifiedName, to: table.qualifiedName)
                try copyPolicies(from: oldTable)
                if let view = oldTable.versionsView, let own = table.versionsView, try oldTable.hasVersionsView(target)
                {
                    if try hasRights(view) { new.removeAll { $0 == final.versionsView } }
                    try copyRights(from: view, to: own)
                    try rename("view", view, to: MirrorDefinition.versionsView(of: retired))
                }
                try rename("table", oldTable.qualifiedName, to: retired)
            }
        }
        try rename(to: final)
        for view in views { try replace(view) }
        if let old { try drop(MirrorTable(old.definition, name: retired, label: "")) }
        try userDefined?.rename(in: final.schema, target)
        if !new.isEmpty { try grantToReader(new, in: final.schema) }
        try moveCursor(definition, generation, position)
        _ = try target.pipeline(last + [.query("commit")])
        return userDefined?.lost ?? []
    }

    private var retired: String { "_old" + table.name.dropFirst("_build".count) }

    private func drop(_ table: MirrorTable) throws {
        do throws(PostgresError) {
            if let view = table.versionsView { try target.executeScript("drop view if exists \(view)") }
            try target.executeScript("drop table if exists \(table.qualifiedName)")
        } catch {
            // dependent_objects_still_exist: a foreign key.
            guard error.sqlState == "2BP01" else { throw error }
            let what = error.detail.map { " (\($0))" } ?? ""
            throw MirrorError.refused(
                "An object in the database depends on the table\(what): drop that object, and create it again afterwards."
            )
        }
    }

    private func exists(_ name: String) throws -> Bool {
        try target.execute("select to_regclass($1) is not null", [.text(name)]).bool(0, 0)
    }

    /// - Parameter name: the qualified name.
    private func rename(_ kind: String, _ name: String, to new: String) throws {
        try target.executeScript("alter \(kind) \(name) rename to \(quotedIdentifier(new))")
    }

    private func rename(to final: MirrorTable) throws {
        let schema = quotedIdentifier(table.schema)
        var statements: [String] = []
        // The retired table's indexes will be dropped with it, but still have the final names.
        if let old, try exists("\(schema).\(quotedIdentifier(retired))") {
            let definition = old.definition
            let before = MirrorTable(definition, name: definition.table, label: "")
            for (index, name) in before.indexNames(of: definition.table).enumerated() {
                statements.append(
                    "alter index if exists \(schema).\(quotedIdentifier(name)) rename to \(quotedIdentifier("\(retired)_\(index)"))"
                )
            }
        }
        statements.append("alter table \(table.qualifiedName) rename to \(quotedIdentifier(final.name))")
        if let view = table.versionsView {
            let name = quotedIdentifier(MirrorDefinition.versionsView(of: final.name))
            statements.append("alter view \(view) rename to \(name)")
        }
        for (from, to) in zip(table.indexNames(of: table.name), final.indexNames(of: final.name)) {
            statements.append(
                "alter index \(schema).\(quotedIdentifier(from)) rename to \(quotedIdentifier(to))")
        }
        for sql in statements { try target.executeScript(sql) }
    }

    // MARK: Views and rights

    /// Returns the views that read the table, nearest first, each as a statement that makes it read the table's successor.
    private func dependentViews(_ table: MirrorTable) throws -> [String] {
        let rows = try target.execute(
            """
            \(TableReaders.dependents)
            select class.relkind::text, format('%I.%I', namespace.nspname, class.relname),
                coalesce('with (' || array_to_string(class.reloptions, ', ') || ')', ''), pg_get_viewdef(class.oid)
            \(TableReaders.found)
            order by found.depth
            """, TableReaders.parameters(table))
        return try (0..<rows.rowCount).map { row in
            let name = try rows.string(row, 1)
            guard try rows.string(row, 0) == "v" else {
                throw TableReaders.refusal(ofMaterializedView: name, on: table.definition.tableName)
            }
            return "create or replace view \(name) \(try rows.string(row, 2)) as \(try rows.string(row, 3))"
        }
    }

    private func replace(_ view: String) throws {
        do throws(PostgresError) {
            try target.executeScript(view)
        } catch {
            guard !error.endsConnection else { throw error }
            throw MirrorError.refused(
                "A view that reads the table does not fit the new table: \(error). Drop the view, and create it again afterwards."
            )
        }
    }

    /// - Parameters: qualified names of tables or views.
    private func copyRights(from old: String, to new: String) throws {
        let rows = try target.execute(
            """
            select format('alter table %s owner to %I', $2::text, pg_get_userbyid(relowner)) from pg_class
            where oid = to_regclass($1)
                and relowner <> (select relowner from pg_class where oid = to_regclass($2))
            union all
            select format('grant %s on %s to %s%s', acl.privilege_type, $2::text,
                case when acl.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end,
                case when acl.is_grantable then ' with grant option' else '' end)
            from pg_class, aclexplode(relacl) as acl where pg_class.oid = to_regclass($1) and acl.grantee <> relowner
            union all
            select format('grant %s (%I) on %s to %s%s', acl.privilege_type, attname, $2::text,
                case when acl.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end,
                case when acl.is_grantable then ' with grant option' else '' end)
            from pg_attribute as column_of_old, aclexplode(attacl) as acl
            where attrelid = to_regclass($1) and not attisdropped
                and exists (
                    select from pg_attribute as column_of_new
                    where column_of_new.attrelid = to_regclass($2) and column_of_new.attname = column_of_old.attname)
            """, [.text(old), .text(new)])
        for row in 0..<rows.rowCount { try target.executeScript(try rows.string(row, 0)) }
    }

    /// Copies the row-level security policies to the new table.
    private func copyPolicies(from old: MirrorTable) throws {
        let rows = try target.execute(
            """
            select format('create policy %I on %s as %s for %s to %s%s%s', polname, $2::text,
                case when polpermissive then 'permissive' else 'restrictive' end,
                case polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
                (
                    select string_agg(case when role = 0 then 'public' else quote_ident(pg_get_userbyid(role)) end, ', ')
                    from unnest(polroles) as role
                ),
                ' using (' || pg_get_expr(polqual, polrelid) || ')', ' with check (' || pg_get_expr(polwithcheck, polrelid) || ')')
            from pg_policy where polrelid = to_regclass($1)
            union all
            select format('alter table %s enable row level security', $2::text) from pg_class
            where oid = to_regclass($1) and relrowsecurity
            union all
            select format('alter table %s force row level security', $2::text) from pg_class
            where oid = to_regclass($1) and relforcerowsecurity
            """, [.text(old.qualifiedName), .text(table.qualifiedName)])
        for row in 0..<rows.rowCount {
            do throws(PostgresError) {
                try target.executeScript(try rows.string(row, 0))
            } catch {
                guard !error.endsConnection else { throw error }
                throw MirrorError.refused(
                    "A policy for the rows of \(old.qualifiedName) does not fit the new table: \(error). Drop the policy, and create it again afterwards."
                )
            }
        }
    }

    /// Whether rights on the table or view were ever granted or revoked. Such rights are copied unchanged.
    private func hasRights(_ name: String) throws -> Bool {
        try target.execute(
            """
            select relacl is not null or exists (select from pg_attribute where attrelid = pg_class.oid and attacl is not null)
            from pg_class where oid = to_regclass($1)
            """, [.text(name)]
        ).bool(0, 0)
    }

    /// Grants the reporting role, if this database has it, the right to read a new mirror.
    private func grantToReader(_ names: [String], in schema: String) throws {
        let reader = try target.execute(
            "select has_schema_privilege(oid, $1, 'usage') from pg_roles where rolname = 'pathmirror_reader'",
            [.text(schema)])
        guard reader.rowCount == 1 else { return }
        if try !reader.bool(0, 0) {
            try target.executeScript("grant usage on schema \(quotedIdentifier(schema)) to pathmirror_reader")
        }
        try target.executeScript("grant select on \(names.joined(separator: ", ")) to pathmirror_reader")
    }

    private func moveCursor(
        _ definition: MirrorDefinition, _ generation: Int64, _ position: LogPosition
    ) throws {
        try MirrorCursors.put(
            target, mirror.namespaceID,
            MirrorCursorRecord(
                mirror: mirror.id, position: position, generation: generation, definition: definition.json))
        _ = try target.pipeline(
            MirrorErrors.forgetSteps(
                MirrorGeneration(namespace: mirror.namespaceID, mirror: mirror.id, generation: generation), .allBut))
    }
}
