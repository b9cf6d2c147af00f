-- Functions that write the tree from SQL. Roles with the privilege may call them.

create or replace function pathmirror.set(namespace text, path text, value jsonb) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set extra_float_digits = 1
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    full_path text := '/' || array_to_string(pathmirror.path_keys(path), '/');
begin
    if path is null or value is null then
        raise exception 'the % is NULL', case when path is null then 'path' else 'value' end
            using errcode = 'null_value_not_allowed',
                hint = 'To remove what is there, call pathmirror.remove, or give ''null''::jsonb.';
    end if;
    if jsonb_typeof(value) in ('string', 'number', 'boolean') and full_path not like '%/.priority'
        and octet_length(value::text) <= 10485760
    then
        return pathmirror.write_leaf(namespace, full_path, pathmirror.scalar_text(value)::json, session_user);
    end if;
    return pathmirror.write_place(namespace, full_path, value, session_user);
end
$$;

comment on function pathmirror.set(text, text, jsonb) is
    'Replaces what is at a path, as one entry of the log; returns its seq. For administrators: rules are not asked.';

create or replace function pathmirror.remove(namespace text, path text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return pathmirror.set(namespace, path, 'null');
end
$$;

comment on function pathmirror.remove(text, text) is 'Removes what is at a path, as one entry of the log; returns its seq.';

create or replace function pathmirror.update(namespace text, path text, value jsonb) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp set extra_float_digits = 1
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    base text[] := pathmirror.path_keys(path);
    base_path text := '/' || array_to_string(base, '/');
    paths text[];
    given jsonb[];
    ancestor text;
    descendant text;
begin
    if path is null or value is null then
        raise exception 'the % is NULL', case when path is null then 'path' else 'value' end
            using errcode = 'null_value_not_allowed';
    elsif jsonb_typeof(value) <> 'object' then
        raise exception 'an update must be an object of paths and values, not %', jsonb_typeof(value)
            using errcode = 'invalid_parameter_value';
    elsif base[cardinality(base)] = '.priority' then
        raise exception 'a priority has no children to update' using errcode = 'invalid_parameter_value';
    end if;
    select array_agg('/' || array_to_string(base || member.keys, '/') order by member.n),
        array_agg(member.value order by member.n)
    into paths, given
    from (
        select pathmirror.path_keys(pair.key) as keys, pair.value, pair.n
        from jsonb_each(value) with ordinality as pair (key, value, n)
        -- A path that consists only of slashes names no child.
        where case when translate(pair.key, '/', '') = '' then pathmirror.is_key(translate(pair.key, '/', '')) else true end
        offset 0
    ) as member;
    if paths is null then
        -- An empty update does not write an entry.
        return (select head from pathmirror.namespace where id = pathmirror.namespace_id(update.namespace));
    end if;
    -- In this order, the first descendant of a path follows it immediately.
    select before, path_here into ancestor, descendant
    from (
        select here.path as path_here, lag(here.path) over (order by replace(here.path, '/', chr(1)) collate "C") as before
        from unnest(paths) as here (path)
    ) as pairs
    where path_here = before or starts_with(path_here, before || '/')
    limit 1;
    if ancestor = descendant then
        raise exception '% is in the update twice', ancestor using errcode = 'invalid_parameter_value';
    elsif ancestor is not null then
        raise exception '% is an ancestor of % in the same update', ancestor, descendant
            using errcode = 'invalid_parameter_value';
    end if;
    return pathmirror.write_places(namespace, 'update', base_path, paths, given, session_user);
end
$$;

comment on function pathmirror.update(text, text, jsonb) is
    'Replaces what is at several paths below one, as one entry of the log; returns its seq. Keys may be paths.';
