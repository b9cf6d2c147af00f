-- The barrier prevents user-defined functions from reading rows that their caller must not read. A database that contained
-- mirror tables of another database before it had this schema already has this view (MirrorTargetSchema). The columns of both
-- must be equal.
create or replace view pathmirror.mirror_misfit with (security_barrier) as
select
    -- Null for a mirror of another gateway's database, because this database does not contain its namespaces.
    coalesce(namespace.name, run_cursor.definition ->> 'namespace') collate "C" as namespace,
    run_cursor.definition ->> 'name' as mirror,
    run_cursor.definition ->> 'table' as table_name,
    -- The keys that the path captures, by name, as in the key columns of the table.
    (
        select jsonb_object_agg(substr(place.part, 2, length(place.part) - 2), place.key)
        from unnest(string_to_array(error.record, '/'), string_to_array(run_cursor.definition ->> 'path', '/')) as place (key, part)
        where place.part like '{%}'
    ) as key,
    nullif(error.column_name, '') as column_name,
    -- The record of a missing row contains more than the table would show, so the view omits it.
    case when error.column_name <> '' then error.value end as value,
    error.reason,
    error.path,
    error.seq,
    error.found_at
from pathmirror.mirror_error as error
join pathmirror.mirror_cursor as run_cursor
    on run_cursor.namespace_id = error.namespace_id and run_cursor.mirror = error.mirror
        and run_cursor.generation = error.generation
left join pathmirror.mirror as own on own.id = error.mirror
left join pathmirror.namespace on namespace.id = own.namespace_id
where exists (
    select from pg_class as class
    join pg_namespace as schema on schema.oid = class.relnamespace
    where format('%s.%s', schema.nspname, class.relname) = run_cursor.definition ->> 'table'
        and has_schema_privilege(schema.oid, 'usage') and has_table_privilege(class.oid, 'select')
        and not row_security_active(class.oid)
);

comment on view pathmirror.mirror_misfit is
    'Why a mirror''s value is NULL or a record has no row: of the mirrors whose tables the reader may read.';
