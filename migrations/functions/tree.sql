-- Functions that apply writes to the rows of the tree, as Node.replacing and RowDiff do in a gateway.

-- Returns whether the tree has data at a path.
create or replace function pathmirror.has_node(of_namespace bigint, place text) returns boolean
language plpgsql stable as $$
declare
    bounds pathmirror.node_range := pathmirror.node_range(place);
begin
    return exists (
        select from pathmirror.node
        where node.namespace_id = of_namespace
            and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
            and (bounds.beginning is null or node.path = bounds.own_key
                or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning)));
end
$$;

-- Rejects a priority for a path without data, unless the same write puts data at, above or below the path. (SQL writes used to
-- reject data below the path, but gateways did not.)
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

-- Replaces all data at and below a path with a leaf. An equal leaf keeps its version. The function returns the version, because
-- PL/pgSQL evaluates an expression faster than a query.
create or replace function pathmirror.put_leaf(of_namespace bigint, at_seq bigint, place text, leaf json) returns bigint
language plpgsql as $$
declare
    leaf_key text := coalesce(nullif(pathmirror.stored_key(place), ''), '/');
    bounds pathmirror.node_range;
    above text[];
begin
    update pathmirror.node set value = leaf, version = at_seq
    where node.namespace_id = of_namespace and node.path = leaf_key and not pathmirror.same_scalar(node.value, leaf);
    if found then
        -- A leaf has no leaves above it, and only its priority below it.
        delete from pathmirror.node
        where node.namespace_id = of_namespace and node.path = pathmirror.stored_key(place || '/.priority');
        return at_seq;
    end if;
    bounds := pathmirror.node_range(place);
    if bounds.beginning is not null then
        perform pathmirror.replace_rows(of_namespace, at_seq, place, array[place], array[leaf::text]);
        return at_seq;
    end if;
    -- Leaves above the path become branches.
    above := pathmirror.keys_above(place);
    delete from pathmirror.node where node.namespace_id = of_namespace and node.path = any (above);
    delete from pathmirror.node
    where node.namespace_id = of_namespace and node.path >= bounds.low and node.path < bounds.high and node.path <> leaf_key;
    insert into pathmirror.node (namespace_id, path, rest, value, version)
    values (of_namespace, leaf_key, pathmirror.stored_rest(place), leaf, at_seq)
    on conflict (namespace_id, path) do nothing;
    return at_seq;
end
$$;

-- Replaces all data at and below a path with these rows. Without rows, removes the data. Unchanged rows keep their version.
create or replace function pathmirror.replace_rows(
    of_namespace bigint, at_seq bigint, place text, new_paths text[], new_values text[]
) returns void
language plpgsql as $$
declare
    bounds pathmirror.node_range := pathmirror.node_range(place);
    gone text[];
    keys text[];
    removed bigint;
    has_priorities boolean := false;
begin
    if cardinality(new_paths) = 0 then
        delete from pathmirror.node
        where node.namespace_id = of_namespace
            and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
            and (bounds.beginning is null or node.path = bounds.own_key
                or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning));
        get diagnostics removed = row_count;
        -- The function also removes the priorities of ancestors that are now empty. It checks only ancestors with priorities,
        -- which are few, because the cost of the check grows with the number of rows that this transaction has removed there.
        if removed > 0 then
            keys := pathmirror.priorities_above(place);
            has_priorities := exists (
                select from pathmirror.node where node.namespace_id = of_namespace and node.path = any (keys));
        end if;
        while has_priorities and place <> '' loop
            place := left(place, length(place) - strpos(reverse(place), '/'));
            bounds := pathmirror.node_range(place);
            exit when exists (
                select from pathmirror.node
                where node.namespace_id = of_namespace and node.path >= bounds.low and node.path < bounds.high
                    and (bounds.beginning is null
                        or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning))
                    and node.path <> pathmirror.stored_key(place || '/.priority'));
            delete from pathmirror.node
            where node.namespace_id = of_namespace and node.path = pathmirror.stored_key(place || '/.priority');
        end loop;
        return;
    end if;
    -- Leaves above the path become branches.
    gone := pathmirror.keys_above(place);
    delete from pathmirror.node where node.namespace_id = of_namespace and node.path = any (gone);
    keys := array(select pathmirror.stored_key(path) from unnest(new_paths) with ordinality as new (path, n) order by n);
    delete from pathmirror.node
    where node.namespace_id = of_namespace
        and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
        and (bounds.beginning is null or node.path = bounds.own_key
            or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning))
        and not exists (select from unnest(keys) as kept (path) where kept.path = node.path);
    insert into pathmirror.node (namespace_id, path, rest, value, version)
    select of_namespace, new.key, pathmirror.stored_rest(new.path), new.value::json, at_seq
    from unnest(keys, new_paths, new_values) as new (key, path, value)
    on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
    where not pathmirror.same_scalar(node.value, excluded.value);
end
$$;

-- Sets or removes the priority of a path. A path without data gets no priority.
create or replace function pathmirror.replace_priority(
    of_namespace bigint, at_seq bigint, place text, new_values text[]
) returns void
language plpgsql as $$
declare
    bounds pathmirror.node_range := pathmirror.node_range(place);
    full_path text := place || '/.priority';
begin
    if cardinality(new_values) = 0 then
        delete from pathmirror.node
        where node.namespace_id = of_namespace and node.path = pathmirror.stored_key(full_path);
        return;
    end if;
    if not exists (
        select from pathmirror.node
        where node.namespace_id = of_namespace
            and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
            and (bounds.beginning is null or node.path = bounds.own_key
                or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning)))
    then
        return;
    end if;
    insert into pathmirror.node (namespace_id, path, rest, value, version)
    values (
        of_namespace, pathmirror.stored_key(full_path), pathmirror.stored_rest(full_path), new_values[1]::json, at_seq)
    on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
    where not pathmirror.same_scalar(node.value, excluded.value);
end
$$;

-- Applies one change of an entry. The arrays are the rows of its value. Empty arrays remove the data.
create or replace function pathmirror.apply_change(
    of_namespace bigint, at_seq bigint, path text, new_paths text[], new_values text[]
) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    if path like '%/.priority' then
        perform pathmirror.replace_priority(of_namespace, at_seq, left(path, -length('/.priority')), new_values);
    else
        perform pathmirror.replace_rows(of_namespace, at_seq, case path when '/' then '' else path end, new_paths, new_values);
    end if;
end
$$;

-- Applies one write at a path. `resolved` is a value in export form, or NULL to remove the data.
create or replace function pathmirror.apply_value(of_namespace bigint, at_seq bigint, place text, resolved jsonb) returns bigint
language plpgsql as $$
declare
    new_paths text[] := '{}';
    new_values text[] := '{}';
begin
    if place like '%/.priority' then
        perform pathmirror.replace_priority(
            of_namespace, at_seq, left(place, -length('/.priority')),
            case when resolved is null then '{}' else array[pathmirror.scalar_text(resolved)] end);
        return at_seq;
    elsif jsonb_typeof(resolved) <> 'object' then
        return pathmirror.put_leaf(of_namespace, at_seq, place, pathmirror.scalar_text(resolved)::json);
    elsif resolved is not null then
        select array_agg(row.path), array_agg(row.leaf) into new_paths, new_values
        from pathmirror.leaf_rows(resolved, place) as row;
    end if;
    perform pathmirror.replace_rows(of_namespace, at_seq, place, new_paths, new_values);
    return at_seq;
end
$$;

-- Puts many leaves into the tree. None of them is above another one, and no path has more than 2,000 bytes. `branches` contains
-- all paths above them.
create or replace function pathmirror.put_leaves(
    of_namespace bigint, at_seq bigint, branches text[], new_paths text[], new_values text[]
) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    -- The rows below the new leaves. (The query avoids joins with the tree: before its first ANALYZE, the planner would treat it
    -- as empty.)
    gone text[] := array(
        select below.path from unnest(new_paths) as new (path)
        cross join lateral (
            select node.path from pathmirror.node
            where node.namespace_id = of_namespace and node.path >= new.path || '/' and node.path < new.path || '0'
            offset 0
        ) as below);
begin
    -- Leaves above the new leaves become branches, and branches at the new leaves become leaves.
    delete from pathmirror.node where node.namespace_id = of_namespace and node.path = any (branches || gone);
    insert into pathmirror.node (namespace_id, path, value, version)
    select of_namespace, new.path, new.value::json, at_seq from unnest(new_paths, new_values) as new (path, value)
    on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
    where not pathmirror.same_scalar(node.value, excluded.value);
end
$$;

-- Returns the seq of the entry that last wrote a row of pathmirror.node.
create or replace function pathmirror.version_seq(version bigint) returns bigint
language sql stable parallel safe as $$
    select case when version >= 0 then version else (select seq from pathmirror.large_write where id = -version) end
$$;
