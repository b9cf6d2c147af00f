-- Functions that write log entries from SQL, and entries of other logs.

-- Locks the head of a namespace until the transaction ends, and returns the next seq.
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

-- Appends an entry to the log, after its changes were applied. The caller holds the lock of the head.
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

-- Appends an entry of this transaction to the log. Its seq comes from take_seq.
create or replace function pathmirror.log_write(
    of_namespace bigint, at_seq bigint, stamp timestamptz, batch uuid, op text, path text, changes json, by_role text
) returns bigint
language plpgsql as $$
declare
    told text;
begin
    insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, origin)
    values (
        of_namespace, at_seq, stamp, batch, op, path, changes,
        ('{"uid" : null, "admin" : true, "via" : "sql", "role" : ' || to_json(by_role)::text || '}')::json);
    told := pg_notify('pathmirror', of_namespace || ' ' || at_seq);
    return at_seq;
end
$$;

-- Returns the text of one change, as the log stores it.
create or replace function pathmirror.change_text(path text, resolved jsonb) returns text
language sql stable parallel safe as $$
    select to_json(path)::text || ':' || coalesce(resolved::text, 'null')
$$;

-- Checks, resolves, applies and logs one write from SQL to one complete path. Its callers have the same settings as
-- apply_change.
create or replace function pathmirror.write_place(namespace text, path text, value jsonb, by_role text) returns bigint
language plpgsql as $$
declare
    taken record := pathmirror.take_seq(namespace);
    of_namespace bigint := taken.of_namespace;
    place text := case path when '/' then '' else path end;
    resolved jsonb := pathmirror.resolved_value(
        value, of_namespace, place, (extract(epoch from clock_timestamp()) * 1000)::bigint);
    applied bigint;
begin
    if resolved is not null and place like '%/.priority' then
        perform pathmirror.check_priorities(of_namespace, array[path], array[resolved]);
    end if;
    applied := pathmirror.apply_value(of_namespace, taken.seq, place, resolved);
    return pathmirror.log_write(
        of_namespace, taken.seq, taken.stamp, taken.batch, case value when 'null' then 'remove' else 'set' end, path,
        ('{' || pathmirror.change_text(path, resolved) || '}')::json, by_role);
end
$$;

-- Applies and logs one write from SQL that puts a leaf at a complete path that is not a priority. The leaf does not depend on
-- existing data. Other writers wait while the head is locked, so the function prepares everything possible before it locks the
-- head.
create or replace function pathmirror.write_leaf(namespace text, path text, leaf json, by_role text) returns bigint
language plpgsql as $$
declare
    changes json := ('{' || to_json(path)::text || ':' || leaf::text || '}')::json;
    taken record := pathmirror.take_seq(namespace);
    applied bigint := pathmirror.put_leaf(taken.of_namespace, taken.seq, case path when '/' then '' else path end, leaf);
begin
    return pathmirror.log_write(
        taken.of_namespace, taken.seq, taken.stamp, taken.batch, 'set', path, changes, by_role);
end
$$;

-- Checks, resolves, applies and logs one write from SQL. `paths` are complete, and none is at or below another one. The function
-- applies and logs the changes in the order of application_step. Its callers have the same settings as apply_change.
create or replace function pathmirror.write_places(
    namespace text, op text, path text, paths text[], given jsonb[], by_role text
) returns bigint
language plpgsql as $$
declare
    taken record := pathmirror.take_seq(namespace);
    of_namespace bigint := taken.of_namespace;
    milliseconds bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
    resolved jsonb[];
    places text[];
    place text;
    has_priorities boolean := false;
    changes text;
    -- The indexes of the changes, in the order of application.
    turns integer[] := '{1}';
    turn integer;
begin
    -- The function resolves all values against the tree before it applies any of them.
    for n in 1 .. cardinality(paths) loop
        place := case paths[n] when '/' then '' else paths[n] end;
        places[n] := place;
        resolved[n] := pathmirror.resolved_value(given[n], of_namespace, place, milliseconds);
        has_priorities := has_priorities or (resolved[n] is not null and place like '%/.priority');
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
        perform pathmirror.apply_value(of_namespace, taken.seq, places[turn], resolved[turn]);
    end loop;
    select '{' || string_agg(pathmirror.change_text(paths[turns[n]], resolved[turns[n]]), ',' order by n) || '}'
    into changes from generate_subscripts(turns, 1) as n;
    return pathmirror.log_write(of_namespace, taken.seq, taken.stamp, taken.batch, op, path, changes::json, by_role);
end
$$;

-- Appends a batch of entries of another log. Each array has one element for each entry, for each change (with the number of its
-- entry) or for each row (with the number of its change). Numbers begin at 1. The caller holds the lock of the head
-- (begin_entry) and passes only entries that were not applied before.
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
    -- begin_entry ensures only the partition of the first entry.
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
