-- Writing entries of the log from SQL, and those of other logs.

-- Takes the lock of a namespace's head until the transaction ends, and returns the seq that comes next.
create or replace function pathmirror.begin_entry(of_namespace bigint) returns bigint
language plpgsql as $$
declare
    next_seq bigint;
    has_partition boolean;
begin
    select head + 1, partitioned_to > head + 1 into next_seq, has_partition
    from pathmirror.namespace where id = of_namespace for update;
    if not found then
        raise exception 'the namespace is not in this database any more: it has moved to another one, or was removed'
            using errcode = 'no_data_found';
    end if;
    if not has_partition then
        perform pathmirror.ensure_log_partition(of_namespace, next_seq, 1000000);
    end if;
    return next_seq;
end
$$;

-- Puts an entry, whose changes are applied, at the end of the log. The head's lock is held.
create or replace function pathmirror.finish_entry(
    of_namespace bigint, at_seq bigint, op text, path text, changes json, parts integer, origin json
) returns void
language plpgsql as $$
declare
    batch uuid := pathmirror.transaction_batch();
    stamp timestamptz;
begin
    select head.stamp into stamp from pathmirror.move_head(of_namespace, at_seq - 1, 1, null, batch, null) as head;
    insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, parts, origin)
    values (of_namespace, at_seq, stamp, batch, op, path, changes, parts, origin);
    perform pg_notify('pathmirror', of_namespace || ' ' || at_seq);
end
$$;

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

-- Entries of another log, a batch of them: each array has one element an entry, a change (of the entry with that number)
-- or a row (of the change with that number); numbers begin at 1. The head's lock is held (begin_entry), and none of the
-- entries has been applied before.
create or replace function pathmirror.append_entries(
    of_namespace bigint, first_seq bigint, ops text[], paths text[], changes text[], origins text[],
    change_entries bigint[], change_paths text[], row_changes bigint[], row_paths text[], row_values text[],
    source uuid, source_seqs bigint[]
) returns void
language plpgsql as $$
declare
    change record;
    last_seq bigint := first_seq + cardinality(ops) - 1;
    batch uuid := pathmirror.transaction_batch();
    stamp timestamptz;
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
    select head.stamp into stamp
    from pathmirror.move_head(of_namespace, first_seq - 1, cardinality(ops), null, batch, null) as head;
    -- begin_entry has seen to the first one's partition only.
    perform pathmirror.ensure_log_partition(of_namespace, last_seq, 1000000);
    insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, parts, origin)
    select of_namespace, first_seq + entry.n - 1, stamp, batch, entry.op, entry.path, entry.changes::json, 0,
        entry.origin::json
    from unnest(ops, paths, changes, origins) with ordinality as entry (op, path, changes, origin, n)
    order by entry.n;
    insert into pathmirror.replay_applied (namespace_id, source, source_seq, seq)
    select of_namespace, append_entries.source, applied.source_seq, first_seq + applied.n - 1
    from unnest(source_seqs) with ordinality as applied (source_seq, n);
    perform pg_notify('pathmirror', of_namespace || ' ' || last_seq);
end
$$;
