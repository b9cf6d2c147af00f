-- Functions that read the tree from SQL.

-- Returns how many keys two paths have in common at their beginning.
create or replace function pathmirror.shared_keys(first text[], second text[]) returns integer
language sql immutable parallel safe as $$
    select count(*)::integer from generate_subscripts(first, 1) as level where first[1:level] = second[1:level]
$$;

-- Returns the data at and below a path as JSON text, including U+0000.
create or replace function pathmirror.get_json(namespace text, path text default '/') returns json
language plpgsql stable as $$
declare
    of_namespace bigint := pathmirror.namespace_id(namespace);
    keys text[] := pathmirror.path_keys(path);
    place text := case when keys = '{}' then '' else '/' || array_to_string(keys, '/') end;
    bounds pathmirror.node_range := pathmirror.node_range(place);
begin
    return (
        with stored as (
            select string_to_array(substr(pathmirror.full_path(node.path, node.rest), length(place) + 2), '/') as parts,
                node.value::text as leaf,
                -- The replacement of slashes sorts before all characters of keys, so the paths below a path follow it
                -- immediately.
                row_number() over (
                    order by replace(pathmirror.full_path(node.path, node.rest), '/', chr(1)) collate "C") as n
            from pathmirror.node
            where node.namespace_id = of_namespace
                and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
                and (bounds.beginning is null or node.path = bounds.own_key
                    or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning))
        ), marked as (
            select n, leaf,
                case when lead(parts) over (order by n) = parts || '.priority'::text then parts || '.value'::text
                    else parts end as parts
            from stored
        ), placed as (
            select n, leaf, parts, cardinality(parts) as depth,
                pathmirror.shared_keys(lag(parts) over (order by n), parts) as opened,
                pathmirror.shared_keys(parts, lead(parts) over (order by n)) as kept
            from marked
        )
        select case
            when min(depth) = 0 then min(leaf)
            when count(*) > 0 then '{' || string_agg(
                case when n > 1 then ',' else '' end
                || coalesce((
                    select string_agg(to_json(parts[level])::text || ':{', '' order by level)
                    from generate_series(opened + 1, depth - 1) as level), '')
                || to_json(parts[depth])::text || ':' || leaf || repeat('}', depth - 1 - kept), '' order by n) || '}'
        end::json
        from placed);
end
$$;

comment on function pathmirror.get_json(text, text) is
    'What is at a path, priorities included, as json (which, unlike jsonb, can hold U+0000); NULL for nothing.';

-- Removes priorities, and converts objects with keys like array indexes to arrays, as in plain REST reads.
create or replace function pathmirror.plain_form(value jsonb) returns jsonb
language plpgsql immutable strict parallel safe as $$
declare
    result jsonb;
begin
    if jsonb_typeof(value) <> 'object' then
        return value;
    elsif value ? '.value' then
        return value -> '.value';
    end if;
    value := value - '.priority';
    if not exists (select from jsonb_object_keys(value) as key where key !~ '^(0|[1-9][0-9]{0,9})$')
        and (select max(key::bigint) < least(2147483648, 2 * count(*)) from jsonb_object_keys(value) as key)
    then
        select jsonb_agg(coalesce(pathmirror.plain_form(value -> position::text), 'null') order by position) into result
        from generate_series(0, (select max(key::bigint) from jsonb_object_keys(value) as key)) as position;
        return result;
    end if;
    select jsonb_object_agg(member.key, pathmirror.plain_form(member.value)) into result from jsonb_each(value) as member;
    return result;
end
$$;

create or replace function pathmirror.get(namespace text, path text default '/', form text default 'export') returns jsonb
language plpgsql stable as $$
declare
    found jsonb;
begin
    if form not in ('export', 'plain') then
        raise exception 'the form is "export" or "plain", not "%"', form using errcode = 'invalid_parameter_value';
    end if;
    begin
        found := pathmirror.get_json(namespace, path)::text::jsonb;
    exception when untranslatable_character then
        raise exception 'a string at or below % holds U+0000, which jsonb can''t', path
            using errcode = 'untranslatable_character', hint = 'pathmirror.get_json returns json, which can.';
    end;
    return case form when 'plain' then pathmirror.plain_form(found) else found end;
end
$$;

comment on function pathmirror.get(text, text, text) is
    'What is at a path: in export form with priorities, or plain with arrays as REST reads it; NULL for nothing.';
