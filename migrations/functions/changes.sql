-- Functions that read the changes of log entries.

-- Returns the changes of an entry. json_each fails for all of them if one value contains U+0000. The query therefore replaces
-- its escape with one that neither gateways nor jsonb write. OFFSET 0 makes PostgreSQL search for U+0000 once for all changes. A
-- search for each change takes time that grows with the square of the number of changes.
create or replace function pathmirror.each_change(changes json) returns table (path text, value json, "position" bigint)
language sql immutable parallel safe as $$
    select change.key,
        case when given.is_hidden then replace(change.value::text, '\ue000', '\u0000')::json else change.value end,
        change.n
    from (
        select found.is_hidden,
            case when found.is_hidden then replace(found.whole::text, '\u0000', '\ue000')::json else found.whole end as whole
        from (select changes as whole, strpos(changes::text, '\u0000') > 0 as is_hidden offset 0) as found
        offset 0
    ) as given
    cross join lateral json_each(given.whole) with ordinality as change (key, value, n)
$$;

-- Returns the step of an entry in which a change is applied: values (0), then removals (1), then priorities (2), as in
-- Sources/Tree/Log/ApplicationOrder.swift.
create or replace function pathmirror.application_step(path text, is_removal boolean) returns integer
language sql immutable parallel safe as $$
    select case when path like '%/.priority' then 2 when is_removal then 1 else 0 end
$$;

-- Returns the changes at, below and above a path. It reads only entries and parts that may contain such a change.
create or replace function pathmirror.changes_at(
    namespace text, at_path text default '/', after_seq bigint default 0, through_seq bigint default null
) returns table (
    seq bigint, committed_at timestamptz, op text, part integer, "position" bigint, step integer, path text, value json,
    uid text, origin json
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    of_namespace bigint := pathmirror.namespace_id(namespace);
    keys text[] := pathmirror.path_keys(at_path);
    place text := '/' || array_to_string(keys, '/');
    below text := case place when '/' then '/' else place || '/' end;
    last_seq bigint := coalesce(through_seq, 9223372036854775807);
    -- The JSON text of the key of a change above the path, or the beginning of this text at and below the path.
    marks text[];
begin
    -- SQL and gateways may write the same key with different escapes. If the path may contain escapes, the query searches all
    -- parts.
    if place <> '/' and place ~ '^[ !#-\[\]-~]*$' then
        marks := array['"' || place] || array(
            select '"' || coalesce(nullif('/' || array_to_string(keys[1:depth], '/'), ''), '/') || '"'
            from generate_series(0, cardinality(keys) - 1) as depth);
    end if;
    return query
    select log.seq, log.committed_at, log.op, piece.part, change.position,
        pathmirror.application_step(change.path, json_typeof(change.value) = 'null'), change.path, change.value,
        log.origin ->> 'uid', log.origin
    from pathmirror.log
    cross join lateral (
        select 0 as part, log.changes
        union all
        select log_part.part + 1, log_part.changes from pathmirror.log_part
        where log.parts > 0 and log_part.namespace_id = log.namespace_id and log_part.seq = log.seq
            and (marks is null or exists (
                select from (select log_part.changes::text as whole offset 0) as once, unnest(marks) as mark
                where strpos(once.whole, mark) > 0))
    ) as piece
    cross join lateral pathmirror.each_change(piece.changes) as change
    where log.namespace_id = of_namespace and log.seq > after_seq and log.seq <= last_seq
        and (log.path = place or log.path = '/' or place = '/' or starts_with(log.path, below)
            or starts_with(place, log.path || '/'))
        and (change.path = place or change.path = '/' or place = '/' or starts_with(change.path, below)
            or starts_with(place, change.path || '/'))
    order by log.seq, piece.part, change.position;
end
$$;

comment on function pathmirror.changes_at(text, text, bigint, bigint) is
    'The changes of the log at, below and above a path, after one seq and up to another.';
