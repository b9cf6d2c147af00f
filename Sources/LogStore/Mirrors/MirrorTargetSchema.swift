public import Postgres

/// What a database needs that holds mirrors' tables: the cursors and the errors. In Pathmirror's own database migrations
/// 002, 004 and 010 have made the same.
public enum MirrorTargetSchema {
    /// Makes what is missing of it.
    public static func make(_ target: PostgresConnection) throws(PostgresError) { try target.executeScript(sql) }

    private static let sql = """
        create schema if not exists pathmirror;
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
        """
}
