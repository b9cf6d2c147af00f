-- Writes from SQL, made cheaper. They do what they did: of each function only the way to it is another.
--
-- Three things took the time. Plans: the ranges of replace_rows were planned anew at every call, as a plan for the very
-- values always looks cheaper than the general one; it takes the general one now, which is the same index scan (and looks
-- dear enough in a large tree to be compiled each time, which is not wanted). Functions
-- in SQL that can't be inlined, such as leaf_rows, are parsed and planned at every call: those in PL/pgSQL are once a
-- session. And one leaf, which most writes are, went the way of whole trees.

-- A path's keys, checked. The last may be .priority.
create or replace function pathmirror.path_keys(path text) returns text[]
language plpgsql immutable strict parallel safe as $$
declare
    keys text[] := array_remove(string_to_array(path, '/'), '');
    depth integer := cardinality(keys);
begin
    -- Nothing that a key may not have, and too short for a key that is too long.
    if octet_length(path) > 768 or path ~ '[].#$[\x01-\x1f\x7f]' then
        depth := depth - coalesce(keys[depth] = '.priority', false)::integer;
        for n in 1 .. depth loop
            perform pathmirror.is_key(keys[n]);
        end loop;
    end if;
    if depth > 32 then
        raise exception 'the path has % keys, more than 32', depth using errcode = 'invalid_parameter_value';
    end if;
    return keys;
end
$$;

-- The rows of a value in export form at a place.
create or replace function pathmirror.leaf_rows(value jsonb, place text) returns table (path text, leaf text)
language plpgsql immutable strict parallel safe as $$
#variable_conflict use_column
begin
    return query
    with recursive walk (path, value) as (
        select leaf_rows.place, leaf_rows.value
        union all
        select case when child.key = '.value' then walk.path else walk.path || '/' || child.key end, child.value
        from walk
        cross join lateral jsonb_each(case when jsonb_typeof(walk.value) = 'object' then walk.value end) as child
    )
    select coalesce(nullif(walk.path, ''), '/'),
        case jsonb_typeof(walk.value)
            when 'number' then pathmirror.number_text(walk.value::numeric)
            else walk.value::text
        end
    from walk where jsonb_typeof(walk.value) <> 'object';
end
$$;

-- Puts these rows where everything at and below a place is now; with none, removes it. Rows that stay as they are keep
-- their version.
create or replace function pathmirror.replace_rows(
    of_namespace bigint, at_seq bigint, place text, new_paths text[], new_values text[]
) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    bounds pathmirror.node_range := pathmirror.node_range(place);
    leaf_key text;
    gone text[] := '{}';
    keys text[];
    removed bigint;
begin
    if cardinality(new_paths) = 0 then
        delete from pathmirror.node
        where node.namespace_id = of_namespace
            and (node.path = bounds.own_key or (node.path >= bounds.low and node.path < bounds.high))
            and (bounds.beginning is null or node.path = bounds.own_key
                or starts_with(pathmirror.full_path(node.path, node.rest), bounds.beginning));
        get diagnostics removed = row_count;
        -- Ancestors that are empty now go with their priorities.
        while removed > 0 and place <> '' loop
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
    -- Leaves on the way become branches.
    keys := string_to_array(place, '/');
    for depth in 1 .. cardinality(keys) - 1 loop
        gone[depth] := coalesce(nullif(pathmirror.stored_key(array_to_string(keys[1:depth], '/')), ''), '/');
    end loop;
    if cardinality(new_paths) = 1 and bounds.beginning is null then
        leaf_key := pathmirror.stored_key(new_paths[1]);
        delete from pathmirror.node
        where node.namespace_id = of_namespace
            and (node.path = any (gone || bounds.own_key) or (node.path >= bounds.low and node.path < bounds.high))
            and node.path <> leaf_key;
        insert into pathmirror.node (namespace_id, path, rest, value, version)
        values (of_namespace, leaf_key, pathmirror.stored_rest(new_paths[1]), new_values[1]::json, at_seq)
        on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
        where not pathmirror.same_scalar(node.value, excluded.value);
        return;
    end if;
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

-- Checks, resolves, applies and logs one write from SQL. `paths` are whole, and none lies at or below another.
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
    for n in 1 .. cardinality(paths) loop
        if jsonb_typeof(resolved[n]) <> 'object' then
            new_paths := array[paths[n]];
            new_values := array[
                case jsonb_typeof(resolved[n]) when 'number' then pathmirror.number_text(resolved[n]::numeric)
                    else resolved[n]::text end];
        elsif resolved[n] is null then
            new_paths := '{}';
            new_values := '{}';
        else
            select array_agg(row.path), array_agg(row.leaf) into new_paths, new_values
            from pathmirror.leaf_rows(resolved[n], places[n]) as row;
        end if;
        perform pathmirror.apply_change(of_namespace, at_seq, paths[n], new_paths, new_values);
    end loop;
    if cardinality(paths) = 1 then
        changes := '{' || to_json(paths[1])::text || ':' || coalesce(resolved[1]::text, 'null') || '}';
    else
        select '{' || string_agg(to_json(paths[n])::text || ':' || coalesce(resolved[n]::text, 'null'), ',' order by n) || '}'
        into changes from generate_series(1, cardinality(paths)) as n;
    end if;
    perform pathmirror.finish_entry(
        of_namespace, at_seq, op, path, changes::json, 0,
        ('{"uid" : null, "admin" : true, "via" : "sql", "role" : ' || to_json(by_role)::text || '}')::json);
    return at_seq;
end
$$;

-- Refuses a write that gives a priority to what isn't there, and isn't written with it either.
create function pathmirror.check_priorities(of_namespace bigint, paths text[], resolved jsonb[]) returns void
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
                and (place = paths[other] or paths[other] = '/' or starts_with(place, paths[other] || '/')))
        then
            continue;
        end if;
        raise exception 'there is nothing at % that could have a priority', coalesce(nullif(place, ''), '/')
            using errcode = 'invalid_parameter_value';
    end loop;
end
$$;

revoke execute on function pathmirror.check_priorities(bigint, text[], jsonb[]) from public;

-- Entries of another log, a batch of them: each array has one element an entry, a change (of the entry with that number)
-- or a row (of the change with that number); numbers begin at 1. The head's lock is held (begin_entry), and none of the
-- entries has been applied before.
create function pathmirror.append_entries(
    of_namespace bigint, first_seq bigint, ops text[], paths text[], changes text[], origins text[],
    change_entries bigint[], change_paths text[], row_changes bigint[], row_paths text[], row_values text[],
    source uuid, source_seqs bigint[]
) returns void
language plpgsql as $$
declare
    change record;
    last_seq bigint := first_seq + cardinality(ops) - 1;
begin
    for change in
        select given.entry, given.path, rows.paths, rows.leaves
        from unnest(change_entries, change_paths) with ordinality as given (entry, path, n)
        left join (
            select row.change, array_agg(row.path) as paths, array_agg(row.leaf) as leaves
            from unnest(row_changes, row_paths, row_values) as row (change, path, leaf)
            group by row.change
        ) as rows on rows.change = given.n
        order by given.n
    loop
        perform pathmirror.apply_change(
            of_namespace, first_seq + change.entry - 1, change.path, coalesce(change.paths, '{}'), coalesce(change.leaves, '{}'));
    end loop;
    perform pathmirror.advance(of_namespace, first_seq - 1, cardinality(ops));
    -- begin_entry has seen to the first one's partition only.
    perform pathmirror.ensure_log_partition(of_namespace, last_seq, 1000000);
    insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, parts, origin)
    select of_namespace, first_seq + entry.n - 1, clock_timestamp(), batch.id, entry.op, entry.path, entry.changes::json, 0,
        entry.origin::json
    from unnest(ops, paths, changes, origins) with ordinality as entry (op, path, changes, origin, n)
    cross join (
        select md5('pathmirror sql ' || pg_current_xact_id()::text || installation.id)::uuid as id
        from pathmirror.installation
    ) as batch
    order by entry.n;
    insert into pathmirror.replay_applied (namespace_id, source, source_seq, seq)
    select of_namespace, append_entries.source, applied.source_seq, first_seq + applied.n - 1
    from unnest(source_seqs) with ordinality as applied (source_seq, n);
    perform pg_notify('pathmirror', of_namespace || ' ' || last_seq);
end
$$;

revoke execute on function pathmirror.append_entries(
    bigint, bigint, text[], text[], text[], text[], bigint[], text[], bigint[], text[], text[], uuid, bigint[]) from public;

-- Puts many leaves into the tree at once. None of them is above another, and none has a path over 2,000 bytes; `branches`
-- are all the places above them.
create function pathmirror.put_leaves(
    of_namespace bigint, at_seq bigint, branches text[], new_paths text[], new_values text[]
) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    -- What is below a new leaf. (No joins with the tree: before its first ANALYZE they would be planned as if it were empty.)
    gone text[] := array(
        select below.path from unnest(new_paths) as new (path)
        cross join lateral (
            select node.path from pathmirror.node
            where node.namespace_id = of_namespace and node.path >= new.path || '/' and node.path < new.path || '0'
            offset 0
        ) as below);
begin
    -- Leaves on the way become branches, and branches leaves.
    delete from pathmirror.node where node.namespace_id = of_namespace and node.path = any (branches || gone);
    insert into pathmirror.node (namespace_id, path, value, version)
    select of_namespace, new.path, new.value::json, at_seq from unnest(new_paths, new_values) as new (path, value)
    on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version
    where not pathmirror.same_scalar(node.value, excluded.value);
end
$$;

revoke execute on function pathmirror.put_leaves(bigint, bigint, text[], text[], text[]) from public;

drop function pathmirror.append_entry(bigint, bigint, text, text, json, json, text[], integer[], text[], text[]);
