-- What an entry means, whatever order its changes are written in; the views on changes made linear.

-- From this entry on the order of an entry's changes means nothing (docs/log.md). Entries before it were applied in the
-- order of their text, and still are.
alter table pathmirror.namespace add column any_order_from bigint not null default 1;
update pathmirror.namespace set any_order_from = head + 1 where head > 0;

-- When of its entry a change is applied: values (0), then removals (1), then priorities (2), as in
-- Sources/Tree/Log/ApplicationOrder.swift.
create function pathmirror.application_step(path text, is_removal boolean) returns integer
language sql immutable parallel safe as $$
    select case when path like '%/.priority' then 2 when is_removal then 1 else 0 end
$$;

-- An entry's changes. json_each would refuse them all for one U+0000 in a value: it is hidden from it as an escape that
-- neither gateways nor jsonb write. Whether there is one is found out once for all changes (OFFSET 0 keeps the planner
-- from doing it for each, which took a time that grew with the square of their number).
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

create or replace view pathmirror.log_change as
select
    namespace.name as namespace, log.namespace_id, log.seq, log.committed_at, log.op,
    -- 0 for what is in the entry itself, from 1 on for the parts of a bulk entry.
    piece.part, change.position, change.path collate "C" as path, change.value, log.origin ->> 'uid' as uid, log.origin,
    -- What the entry itself clears goes before its parts; all else happens together, by these steps.
    pathmirror.application_step(change.path, json_typeof(change.value) = 'null') as step,
    -- The place that the request named: all changes are at or below it.
    log.path as entry_path
from pathmirror.log
join pathmirror.namespace on namespace.id = log.namespace_id
cross join lateral (
    select 0 as part, log.changes
    union all
    select log_part.part + 1, log_part.changes from pathmirror.log_part
    where log.parts > 0 and log_part.namespace_id = log.namespace_id and log_part.seq = log.seq
) as piece
cross join lateral pathmirror.each_change(piece.changes) as change;

-- The changes at, below and above a place: looks into those entries and parts only that may hold one.
create function pathmirror.changes_at(
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
    -- How the keys of changes at, below and above the place begin or are, in JSON.
    marks text[];
begin
    -- A key may be written with other escapes by SQL than by a gateway, where it has any: then all is looked through.
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

-- Checks, resolves, applies and logs one write from SQL. `paths` are whole, and none lies at or below another. As before,
-- but applied and logged by the steps of application_step.
create or replace function pathmirror.write(
    of_namespace bigint, op text, path text, paths text[], given jsonb[], by_role text
) returns bigint
language plpgsql as $$
declare
    at_seq bigint := pathmirror.begin_entry(of_namespace);
    milliseconds bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
    resolved jsonb[];
    places text[];
    place text;
    is_priority boolean;
    has_priorities boolean := false;
    depth integer;
    changes text;
    new_paths text[];
    new_values text[];
    -- The numbers of the changes, in the order of application.
    turns integer[] := '{1}';
    turn integer;
begin
    -- All against the tree as it is, before any of them is applied.
    for n in 1 .. cardinality(paths) loop
        place := case paths[n] when '/' then '' else paths[n] end;
        places[n] := place;
        is_priority := place like '%/.priority';
        depth := case when is_priority then 0 else cardinality(string_to_array(place, '/')) - 1 end;
        resolved[n] := pathmirror.export_form(given[n], of_namespace, place, depth, milliseconds);
        if is_priority then
            has_priorities := has_priorities or resolved[n] is not null;
            if jsonb_typeof(resolved[n]) not in ('number', 'string') then
                raise exception 'the priority at % must be a number or a string', place
                    using errcode = 'invalid_parameter_value';
            end if;
        elsif depth > 32 then
            raise exception 'the path % has more than 32 keys', place using errcode = 'invalid_parameter_value';
        end if;
    end loop;
    if has_priorities then
        perform pathmirror.check_priorities(of_namespace, paths, resolved);
    end if;
    if cardinality(paths) > 1 then
        turns := array(
            select n from generate_series(1, cardinality(paths)) as n
            order by pathmirror.application_step(paths[n], resolved[n] is null), n);
    end if;
    foreach turn in array turns loop
        if jsonb_typeof(resolved[turn]) <> 'object' then
            new_paths := array[paths[turn]];
            new_values := array[
                case jsonb_typeof(resolved[turn]) when 'number' then pathmirror.number_text(resolved[turn]::numeric)
                    else resolved[turn]::text end];
        elsif resolved[turn] is null then
            new_paths := '{}';
            new_values := '{}';
        else
            select array_agg(row.path), array_agg(row.leaf) into new_paths, new_values
            from pathmirror.leaf_rows(resolved[turn], places[turn]) as row;
        end if;
        perform pathmirror.apply_change(of_namespace, at_seq, paths[turn], new_paths, new_values);
    end loop;
    if cardinality(paths) = 1 then
        changes := '{' || to_json(paths[1])::text || ':' || coalesce(resolved[1]::text, 'null') || '}';
    else
        select '{' || string_agg(
            to_json(paths[turns[n]])::text || ':' || coalesce(resolved[turns[n]]::text, 'null'), ',' order by n) || '}'
        into changes from generate_subscripts(turns, 1) as n;
    end if;
    perform pathmirror.finish_entry(
        of_namespace, at_seq, op, path, changes::json, 0,
        ('{"uid" : null, "admin" : true, "via" : "sql", "role" : ' || to_json(by_role)::text || '}')::json);
    return at_seq;
end
$$;

-- Refuses a write that gives a priority to what isn't there, and isn't written with it either: at the place, above it, or
-- (which was refused, but not by gateways) below it.
create or replace function pathmirror.check_priorities(of_namespace bigint, paths text[], resolved jsonb[]) returns void
language plpgsql stable as $$
declare
    place text;
begin
    for n in 1 .. cardinality(paths) loop
        continue when paths[n] not like '%/.priority' or resolved[n] is null;
        place := left(paths[n], -length('/.priority'));
        if pathmirror.has_node(of_namespace, place) or exists (
            select from generate_series(1, cardinality(paths)) as other
            where resolved[other] is not null and paths[other] not like '%/.priority'
                and (place = paths[other] or paths[other] = '/' or starts_with(place, paths[other] || '/')
                    or starts_with(paths[other], place || '/')))
        then
            continue;
        end if;
        raise exception 'there is nothing at % that could have a priority', coalesce(nullif(place, ''), '/')
            using errcode = 'invalid_parameter_value';
    end loop;
end
$$;

revoke execute on function pathmirror.application_step(text, boolean),
    pathmirror.changes_at(text, text, bigint, bigint) from public;

do $$
declare
    role_name text;
begin
    for role_name in
        select rolname from pg_roles where rolname in ('pathmirror_reader', 'pathmirror_writer', 'pathmirror_gateway')
    loop
        execute format(
            'grant execute on function pathmirror.application_step(text, boolean), '
            'pathmirror.changes_at(text, text, bigint, bigint) to %I', role_name);
    end loop;
end
$$;
