import Postgres

/// What depends on a table or on its row type.
extension TableReaders {
    /// Finds out before anything is built whether an object needs the table or the type of its rows, which goes with it: a function, a
    /// view that has a whole row in a column, a column of that type, a domain, a table that inherits from it.
    ///
    /// - Throws: ``MirrorError/refused(_:)``, with what their user can do.
    static func refuseDependents(of definition: MirrorDefinition, _ target: PostgresConnection) throws {
        let table = MirrorTable(definition, name: definition.table, label: "")
        let found = try target.execute(dependentsSQL, [.text(table.qualifiedName)])
        guard found.rowCount > 0 else { return }
        let (kind, name) = (try found.string(0, 0), try found.string(0, 1))
        let more = found.rowCount == 1 ? "" : " \(found.rowCount - 1) more depend on it."
        guard kind != "inheritance" else {
            throw MirrorError.refused(
                "The table \(name) inherits from \(definition.tableName), which can't be replaced under it: alter table \(name) no inherit \(table.qualifiedName), and let it inherit again afterwards.\(more)"
            )
        }
        throw MirrorError.refused(
            "The \(kind) \(name) depends on \(definition.tableName) or on the type of its rows, which can't be replaced under it: drop the \(kind), and create it again afterwards.\(more)"
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

    /// The tables from which the table of a definition inherits, which its successor does not.
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
