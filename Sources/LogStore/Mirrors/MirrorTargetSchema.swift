public import Postgres

/// The tables and the view that a database with mirrors' tables needs: cursors, errors and record versions. In
/// Pathmirror's own database, the migrations and `mirror_misfit.sql` create them, with a view that also contains the
/// names of namespaces.
public enum MirrorTargetSchema {
    /// Creates the missing tables and the view.
    public static func make(_ target: PostgresConnection) throws(PostgresError) { try target.executeScript(sql) }

    private static let sql = """
        -- Altering waits for who uses a table, and everybody else behind it: not for long. It is tried again.
        set local lock_timeout = '5s';
        -- Several may come at once.
        select pg_advisory_xact_lock(hashtextextended('pathmirror mirror target', 0));
        \(SchemaMaking.sql("pathmirror"));
        create table if not exists pathmirror.mirror_cursor (
            namespace_id bigint not null,
            mirror uuid not null,
            seq bigint not null,
            entry_at timestamptz,
            definition json not null,
            generation bigint not null,
            moved_at timestamptz not null default now(),
            primary key (namespace_id, mirror)
        ) with (fillfactor = 50);
        do $$
        begin
            -- Asked first: altering takes a lock that readers wait for, even where there is nothing to alter.
            if not exists (
                select from pg_attribute
                where attrelid = 'pathmirror.mirror_cursor'::regclass and attname = 'batch' and not attisdropped)
            then
                alter table pathmirror.mirror_cursor add column if not exists batch uuid;
            end if;
            if not exists (
                select from pg_attribute
                where attrelid = 'pathmirror.mirror_cursor'::regclass and attname = 'begins_at' and not attisdropped)
            then
                alter table pathmirror.mirror_cursor add column if not exists begins_at_seq bigint,
                    add column if not exists begins_at timestamptz;
            end if;
        end
        $$;
        create table if not exists pathmirror.mirror_error (
            namespace_id bigint not null,
            mirror uuid not null,
            generation bigint not null,
            record_hash uuid not null,
            column_name text collate "C" not null,
            record text collate "C" not null,
            path text collate "C" not null,
            seq bigint not null,
            value text,
            reason text not null,
            found_at timestamptz not null default now(),
            primary key (namespace_id, mirror, generation, record_hash, column_name)
        );
        create table if not exists pathmirror.mirror_error_excess (
            namespace_id bigint not null,
            mirror uuid not null,
            generation bigint not null,
            found bigint not null,
            last_found_at timestamptz not null default now(),
            primary key (namespace_id, mirror, generation)
        ) with (fillfactor = 50);
        do $$
        begin
            if to_regclass('pathmirror.mirror_misfit') is not null then
                return;
            end if;
            create view pathmirror.mirror_misfit with (security_barrier) as
            select
                (run_cursor.definition ->> 'namespace') collate "C" as namespace,
                run_cursor.definition ->> 'name' as mirror,
                run_cursor.definition ->> 'table' as table_name,
                (
                    select jsonb_object_agg(substr(place.part, 2, length(place.part) - 2), place.key)
                    from unnest(string_to_array(error.record, '/'), string_to_array(run_cursor.definition ->> 'path', '/'))
                        as place (key, part)
                    where place.part like '{%}'
                ) as key,
                nullif(error.column_name, '') as column_name,
                case when error.column_name <> '' then error.value end as value,
                error.reason, error.path, error.seq, error.found_at
            from pathmirror.mirror_error as error
            join pathmirror.mirror_cursor as run_cursor
                on run_cursor.namespace_id = error.namespace_id and run_cursor.mirror = error.mirror
                    and run_cursor.generation = error.generation
            where exists (
                select from pg_class as class
                join pg_namespace as schema on schema.oid = class.relnamespace
                where format('%s.%s', schema.nspname, class.relname) = run_cursor.definition ->> 'table'
                    and has_schema_privilege(schema.oid, 'usage') and has_table_privilege(class.oid, 'select')
                    and not row_security_active(class.oid)
            );
            if exists (select from pg_roles where rolname = 'pathmirror_reader') then
                grant usage on schema pathmirror to pathmirror_reader;
                grant select on pathmirror.mirror_misfit to pathmirror_reader;
            end if;
        end
        $$;
        create table if not exists pathmirror.mirror_version (
            namespace_id bigint not null,
            mirror uuid not null,
            key text collate "C" not null,
            seq bigint not null,
            at timestamptz,
            uid text,
            is_admin boolean,
            via text,
            is_begin boolean not null,
            record text,
            primary key (namespace_id, mirror, key, seq)
        );
        do $$
        begin
            -- Asked first, for the same reason.
            if to_regclass('pathmirror.mirror_version_seq') is null then
                create index if not exists mirror_version_seq on pathmirror.mirror_version (seq, mirror);
            end if;
        end
        $$;
        """
}
