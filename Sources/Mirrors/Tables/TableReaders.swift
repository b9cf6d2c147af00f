import Postgres

/// Objects of other users that depend on a mirror's table, so that PostgreSQL does not drop the table.
enum TableReaders {
    /// SQL that begins a query for the views that read the table named by $1, directly or through other views.
    static let dependents = """
        with recursive dependent (oid, depth) as (
            select to_regclass($1)::oid, 0
            union all
            select rewrite.ev_class, dependent.depth + 1
            from dependent
            join pg_depend as depend on depend.refobjid = dependent.oid and depend.refclassid = 'pg_class'::regclass
                and depend.classid = 'pg_rewrite'::regclass
            join pg_rewrite as rewrite on rewrite.oid = depend.objid and rewrite.ev_class <> dependent.oid
            where dependent.depth < 50
        )
        """
    /// The FROM clause of such a query: the views as `class`, their schemas as `namespace`, and each view's distance as
    /// `depth`. $2 names the mirror's own view, which is left out.
    static let found = """
        from (select oid, max(depth) as depth from dependent where depth > 0 group by oid) as found
        join pg_class as class on class.oid = found.oid and class.oid is distinct from to_regclass($2)
        join pg_namespace as namespace on namespace.oid = class.relnamespace
        """

    /// The parameters of such a query.
    static func parameters(_ table: MirrorTable) -> PostgresParameters {
        [.text(table.qualifiedName), table.versionsView.map { .text($0) } ?? .null(.text)]
    }

    /// Returns the reason why the table can't be dropped, and the steps that an operator can take.
    ///
    /// - Parameter refusal: PostgreSQL's error, for objects that are not views.
    static func refusal(
        of mirror: String, _ table: MirrorTable, _ target: PostgresConnection, _ refusal: PostgresError
    ) throws -> MirrorError {
        let views = try views(of: table, target)
        let names = table.qualifiedName
        guard !views.isEmpty else {
            let what = refusal.detail.map { " (\($0))" } ?? ""
            return .refused(
                "An object in the database depends on \(names)\(what): drop that object first, then drop the mirror \"\(mirror)\" again. Nothing was changed."
            )
        }
        let statements = views.map { "drop \($0.kind) \($0.name);" }.joined(separator: " ")
        return .refused(
            "\(views.map { "The \($0.kind) \($0.name)" }.joined(separator: ", ")) \(views.count == 1 ? "reads" : "read") \(names). "
                + "Drop \(views.count == 1 ? "it" : "them") first, or make \(views.count == 1 ? "it" : "them") read another table, "
                + "then drop the mirror \"\(mirror)\" again. Nothing was changed. In SQL: \(statements)")
    }

    /// Checks, before anything is built, that no materialized view reads the table of a definition, because the table can't be
    /// replaced under such a view.
    ///
    /// - Throws: ``MirrorError/refused(_:)``, with the steps that an operator can take.
    static func refuseMaterializedViews(of definition: MirrorDefinition, _ target: PostgresConnection) throws {
        let table = MirrorTable(definition, name: definition.table, label: "")
        if let view = try views(of: table, target).last(where: { $0.kind != "view" }) {
            throw refusal(ofMaterializedView: view.name, on: definition.tableName)
        }
    }

    /// Checks, before anything is built, that no object refers to the table and would not find its successor: a foreign key or
    /// a policy of another table, an object that depends on the table or its row type, or a view, if the table's name changes.
    ///
    /// - Throws: ``MirrorError/refused(_:)``, with the steps that an operator can take.
    static func refuseWhatNamesTheTable(
        of old: MirrorDefinition, becoming new: MirrorDefinition, _ target: PostgresConnection
    ) throws {
        let table = MirrorTable(old, name: old.table, label: "")
        if old.tableName != new.tableName, let view = try views(of: table, target).last {
            throw MirrorError.refused(
                "The view \(view.name) reads \(old.tableName), which becomes \(new.tableName): drop the view, and create it again afterwards."
            )
        }
        // The table's own objects are dropped with it.
        let found = try target.execute(
            """
            select 'foreign key', conname, conrelid::regclass::text from pg_constraint
            where confrelid = to_regclass($1) and contype = 'f' and conparentid = 0 and conrelid <> confrelid
            union
            select 'policy', polname, polrelid::regclass::text from pg_policy
            join pg_depend on classid = 'pg_policy'::regclass and objid = pg_policy.oid
            where refclassid = 'pg_class'::regclass and refobjid = to_regclass($1) and polrelid <> refobjid
            order by 1, 2, 3
            """, [.text(table.qualifiedName)])
        guard found.rowCount > 0 else { return try refuseDependents(of: old, target) }
        let kind = try found.string(0, 0)
        throw MirrorError.refused(
            "The \(kind) \(try found.string(0, 1)) of \(try found.string(0, 2)) refers to \(old.tableName) and prevents its replacement: drop the \(kind), and create it again afterwards."
        )
    }

    /// Returns the error for a materialized view that reads a table to be rebuilt.
    static func refusal(ofMaterializedView name: String, on table: String) -> MirrorError {
        .refused(
            "The materialized view \(name) reads \(table) and prevents its replacement: drop the view, and create it again afterwards."
        )
    }

    /// Returns the views that read a table. Views that other views read come last.
    private static func views(
        of table: MirrorTable, _ target: PostgresConnection
    ) throws -> [(kind: String, name: String)] {
        let rows = try target.execute(
            """
            \(dependents)
            select case class.relkind when 'm' then 'materialized view' else 'view' end,
                format('%I.%I', namespace.nspname, class.relname)
            \(found)
            order by found.depth desc, 2
            """, parameters(table))
        return try (0..<rows.rowCount).map { (try rows.string($0, 0), try rows.string($0, 1)) }
    }
}

/// Objects that depend on a table or on its row type.
extension TableReaders {
    /// Checks, before anything is built, that no object needs the table or its row type, which is dropped with the table: a
    /// function, a view with a whole row in a column, a column of that type, a domain, or a table that inherits from it.
    ///
    /// - Throws: ``MirrorError/refused(_:)``, with the steps that an operator can take.
    static func refuseDependents(of definition: MirrorDefinition, _ target: PostgresConnection) throws {
        let table = MirrorTable(definition, name: definition.table, label: "")
        let found = try target.execute(dependentsSQL, [.text(table.qualifiedName)])
        guard found.rowCount > 0 else { return }
        let (kind, name) = (try found.string(0, 0), try found.string(0, 1))
        let more = found.rowCount == 1 ? "" : " \(found.rowCount - 1) more objects depend on the table."
        guard kind != "inheritance" else {
            throw MirrorError.refused(
                "The table \(name) inherits from \(definition.tableName) and prevents its replacement: alter table \(name) no inherit \(table.qualifiedName), and let \(name) inherit again afterwards.\(more)"
            )
        }
        throw MirrorError.refused(
            "The \(kind) \(name) depends on \(definition.tableName) or on the type of its rows, and prevents the replacement: drop the \(kind), and create it again afterwards.\(more)"
        )
    }

    private static let dependentsSQL = """
        with types as (
            select unnest(array[own.oid, own.typarray]) as oid from pg_class join pg_type as own on own.oid = pg_class.reltype
            where pg_class.oid = to_regclass($1)
        ), found as (
            select distinct classid, objid from pg_depend
            where deptype in ('n', 'a') and objid is distinct from to_regclass($1)
                and (refclassid = 'pg_type'::regclass and refobjid in (select oid from types)
                        and classid in ('pg_proc'::regclass, 'pg_class'::regclass, 'pg_type'::regclass, 'pg_cast'::regclass)
                    or refclassid = 'pg_class'::regclass and refobjid = to_regclass($1) and classid = 'pg_proc'::regclass)
        )
        select case
                when classid = 'pg_proc'::regclass then coalesce(
                    (select case prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end
                    from pg_proc where pg_proc.oid = objid), 'function')
                when classid = 'pg_class'::regclass then (
                    select case relkind when 'v' then 'view' when 'm' then 'materialized view' when 'c' then 'type' else 'table' end
                    from pg_class where pg_class.oid = objid)
                when classid = 'pg_type'::regclass then 'type'
                when classid = 'pg_cast'::regclass then 'cast'
                else 'object'
            end as kind, (pg_identify_object(classid, objid, 0)).identity as name
        from found
        union all
        select 'inheritance', inhrelid::regclass::text from pg_inherits join pg_class on pg_class.oid = inhrelid
        where inhparent = to_regclass($1) and not relispartition
        order by 1, 2
        """

    /// Returns the tables from which a definition's table inherits. Its successor does not inherit from them.
    static func parents(of definition: MirrorDefinition, _ target: PostgresConnection) throws -> [String] {
        let table = MirrorTable(definition, name: definition.table, label: "")
        let rows = try target.execute(
            """
            select inhparent::regclass::text from pg_inherits join pg_class on pg_class.oid = inhrelid
            where inhrelid = to_regclass($1) and not relispartition order by 1
            """, [.text(table.qualifiedName)])
        return try (0..<rows.rowCount).map { try rows.string($0, 0) }
    }
}
