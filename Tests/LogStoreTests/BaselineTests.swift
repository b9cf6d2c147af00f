import LogStore
import Postgres
import TestSupport
import Testing

/// Checks that a new database created by `migrations/baseline.sql` equals one created by all migrations.
@Suite struct BaselineTests {
    @Test func aNewDatabaseEqualsAMigratedOne() throws {
        let migrated = try Self.catalog(usesBaseline: false)
        let new = try Self.catalog(usesBaseline: true)
        #expect(new.count > 500)
        #expect(migrated.subtracting(new).sorted() == [], "migrations make this, and baseline.sql does not")
        #expect(new.subtracting(migrated).sorted() == [], "baseline.sql makes this, and the migrations do not")
    }

    @Test func aNewDatabaseHasARecordOfEachMigration() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            var begun: [String] = []
            let done = try Migrations.up(connection, begins: { begun.append($0) })
            #expect(begun.first == "baseline")
            #expect(done.migrations.map(\.version) == Migrations.all.map(\.version))
            #expect(done.functionFiles == FunctionFiles.all.map(\.name))
            #expect(try Migrations.up(connection).isEmpty)
        }
    }

    /// Checks that the migrations keep the mirror tables that a database received from another one, and add the other
    /// tables.
    @Test func theTargetOfMirrorsIsMigrated() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            try connection.executeScript("create schema pathmirror; create table pathmirror.other ()")
            var begun: [String] = []
            _ = try Migrations.up(connection, begins: { begun.append($0) })
            #expect(begun == Migrations.all.map(\.name))
        }
    }

    /// Checks that a failing file of functions rolls the baseline back.
    @Test func aFailingFileLeavesTheDatabaseNew() throws {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            var files = FunctionFiles.all
            files[files.count - 1] = FunctionFiles.File(name: "privileges", sql: Array("create nonsense".utf8))
            #expect(throws: LogStoreError.self) { try Migrations.up(connection, functions: files) }
            #expect(try Migrations.status(connection).allSatisfy { $0.appliedAt == nil })
            #expect(try Migrations.up(connection).migrations.count == Migrations.all.count)
        }
    }

    /// Returns the catalogs' description of the schema, one line per object, without object ids and column numbers.
    private static func catalog(usesBaseline: Bool) throws -> Set<String> {
        try TestDatabase.withEmpty { url in
            let connection = try PostgresConnection(url)
            defer { connection.close() }
            _ = try Migrations.up(connection, usesBaseline: usesBaseline)
            let rows = try connection.execute(catalogQuery)
            return try Set((0..<rows.rowCount).map { try rows.string($0, 0) })
        }
    }

    /// The privileges, sorted regardless of the order in which they were granted.
    private static func sorted(_ privileges: String) -> String {
        "(select array_agg(item::text order by item::text) from unnest(\(privileges)) as item)"
    }

    private static let catalogQuery = """
        with own as (
            select pg_class.*, oid::regclass::text as name from pg_class
            where relnamespace = 'pathmirror'::regnamespace and relkind in ('r', 'p', 'v', 'S', 'c')
        )
        select format('%s %s of %s, %s, %s, %s, %s, %s', relkind, name, pg_get_userbyid(relowner) = current_user, relpersistence,
            array_to_string(reloptions, ' '), \(sorted("relacl")), relrowsecurity, relreplident)
        from own
        union all
        select format('partition of %s: %s %s', inhparent::regclass, name, pg_get_expr(relpartbound, own.oid))
        from own join pg_inherits on inhrelid = own.oid
        union all
        select format('partitioned %s %s', name, pg_get_partkeydef(oid)) from own where relkind = 'p'
        union all
        select format('column %s %s of %s: %s not null %s, %s, %s, %s, %s, %s, %s, %s', name,
            -- Migrations drop columns: the others keep their order, not their numbers.
            row_number() over (partition by attrelid order by attnum), attname, format_type(atttypid, atttypmod), attnotnull,
            attcollation::regcollation, attstorage, attcompression, attidentity, attgenerated, \(sorted("attacl")),
            coalesce(pg_get_expr(adbin, adrelid), ''))
        from own
        join pg_attribute on attrelid = own.oid and attnum > 0 and not attisdropped
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        union all
        select format('index %s', pg_get_indexdef(indexrelid)) from own join pg_index on indrelid = own.oid
        union all
        select format('constraint %s %s %s', name, conname, pg_get_constraintdef(pg_constraint.oid))
        from own join pg_constraint on conrelid = own.oid
        union all
        select format('trigger %s', pg_get_triggerdef(pg_trigger.oid)) from own join pg_trigger on tgrelid = own.oid
        where not tgisinternal
        union all
        select format('view %s %s', name, pg_get_viewdef(oid)) from own where relkind = 'v'
        union all
        select format('sequence %s %s %s %s %s', name, seqstart, seqincrement, seqmax, seqcache)
        from own join pg_sequence on seqrelid = own.oid
        union all
        select format('function %s %s %s', pg_get_functiondef(oid), \(sorted("proacl")), pg_get_userbyid(proowner) = current_user)
        from pg_proc where pronamespace = 'pathmirror'::regnamespace
        union all
        select format('comment %s %s', pg_describe_object(classoid, objoid, objsubid), description)
        from pg_description
        where classoid in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_trigger'::regclass)
            and (objoid in (select oid from own) or objoid in (select oid from pg_proc where pronamespace = 'pathmirror'::regnamespace)
                or objoid in (select reltype from own))
        union all
        select format('schema %s', \(sorted("nspacl"))) from pg_namespace where nspname = 'pathmirror'
        union all
        select format('row of %s', name)
        from own
        where relkind in ('r', 'p') and relname not in ('migration', 'function_file')
            and (xpath('/row/c/text()', query_to_xml(format('select count(*) as c from %s', name), false, true, '')))[1]::text <> '0'
        """
}
