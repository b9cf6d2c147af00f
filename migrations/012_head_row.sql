-- What moves a namespace's head: times that never step back, an order that no lost history can be mistaken for, and a way
-- to the row that doesn't grow longer.

alter table pathmirror.namespace
    add column stamped_at timestamptz not null default '-infinity';

comment on column pathmirror.namespace.stamped_at is 'The committed_at of the last entry. It never steps back, whatever the clock does.';

-- By the log's primary key, one after another with the numbers in the statement, so that each looks into one partition:
-- nobody can write while this lasts.
do $$
declare
    one record;
    entry record;
begin
    for one in select id, head from pathmirror.namespace where head > 0 loop
        execute format(
            'select committed_at, batch_id from pathmirror.log where namespace_id = %s and seq = %s', one.id, one.head)
            into entry;
        update pathmirror.namespace
        set stamped_at = coalesce(entry.committed_at, stamped_at), last_batch = coalesce(last_batch, entry.batch_id)
        where id = one.id;
    end loop;
end
$$;

-- Where the newest version of a namespace's row is, going from a place where an older one was; the place itself where
-- nothing is there any more.
--
-- By its id the row is found through every version that a held-open snapshot keeps alive: one for each commit since.
create function pathmirror.newest_place(at tid) returns tid
language plpgsql as $$
begin
    return currtid2('pathmirror.namespace', at);
exception
    -- A place in a page that is gone since.
    when invalid_parameter_value then return at;
end
$$;

-- Moves a namespace's head from `expected` by `entries`, or raises PM001 when somebody else has moved it, or when its last
-- entry is not of `expected_batch` (null: not asked). `at`: where the row was seen last; null where that is not known.
-- Returns where the row is now, and the entries' time.
create function pathmirror.move_head(
    of_namespace bigint, expected bigint, entries bigint, at tid, new_batch uuid, expected_batch uuid,
    out place tid, out stamp timestamptz
) language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    attempts integer := 0;
begin
    while at is not null and attempts < 2 loop
        update pathmirror.namespace
        set head = head + entries, stamped_at = greatest(clock_timestamp(), stamped_at), last_batch = new_batch
        where ctid = at and id = of_namespace and head = expected
            and (expected_batch is null
                or coalesce(last_batch, case when head = 0 then stream_key end, expected_batch) = expected_batch)
        returning ctid, stamped_at into place, stamp;
        if found then
            return;
        end if;
        at := pathmirror.newest_place(at);
        attempts := attempts + 1;
    end loop;
    update pathmirror.namespace
    set head = head + entries, stamped_at = greatest(clock_timestamp(), stamped_at), last_batch = new_batch
    where id = of_namespace and head = expected
        and (expected_batch is null
                or coalesce(last_batch, case when head = 0 then stream_key end, expected_batch) = expected_batch)
    returning ctid, stamped_at into place, stamp;
    if not found then
        raise exception 'the head of namespace % is not % any more', of_namespace, expected using errcode = 'PM001';
    end if;
end
$$;

-- Takes the lock on a namespace's head. `at` is as for move_head.
create function pathmirror.lock_head(of_namespace bigint, at tid, out head bigint, out place tid)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    attempts integer := 0;
begin
    while at is not null and attempts < 2 loop
        select namespace.head, namespace.ctid into lock_head.head, lock_head.place from pathmirror.namespace
        where namespace.ctid = at and namespace.id = of_namespace for update;
        if found then
            return;
        end if;
        at := pathmirror.newest_place(at);
        attempts := attempts + 1;
    end loop;
    select namespace.head, namespace.ctid into strict lock_head.head, lock_head.place from pathmirror.namespace
    where namespace.id = of_namespace for update;
end
$$;

-- Gateways of an older version, which run until they are replaced, move the head so: by a batch that they don't name.
create or replace function pathmirror.advance(of_namespace bigint, expected bigint, entries bigint) returns bigint
language plpgsql as $$
begin
    perform pathmirror.move_head(of_namespace, expected, entries, null, null, null);
    return expected + entries;
end
$$;

-- The batch of all entries that this transaction writes by functions.
create function pathmirror.transaction_batch() returns uuid
language sql stable as $$
    -- A restored backup gives the same transaction ids once more: the time tells them apart.
    select md5('pathmirror sql ' || pg_current_xact_id()::text || ' ' || now() || ' ' || installation.id)::uuid
    from pathmirror.installation
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

-- Large writes: their rows are in the tree's table before anybody knows which entry they become.

create sequence pathmirror.large_write_number;

create table pathmirror.large_write (
    id bigint primary key,
    namespace_id bigint not null,
    -- The entry that it became.
    seq bigint not null
);

comment on table pathmirror.large_write is 'The entries of large writes: node.version is −id in the rows that they wrote.';

-- The entry that last wrote a row of pathmirror.node.
create function pathmirror.version_seq(version bigint) returns bigint
language sql stable parallel safe as $$
    select case when version >= 0 then version else (select seq from pathmirror.large_write where id = -version) end
$$;

revoke execute on function
    pathmirror.newest_place(tid), pathmirror.move_head(bigint, bigint, bigint, tid, uuid, uuid),
    pathmirror.lock_head(bigint, tid), pathmirror.transaction_batch(), pathmirror.version_seq(bigint)
    from public;

do $$
declare
    role_name text;
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select, insert on pathmirror.large_write to pathmirror_gateway;
        grant usage on sequence pathmirror.large_write_number to pathmirror_gateway;
        -- The parts of a large write are written before its seq is known.
        grant update (seq) on pathmirror.log_part to pathmirror_gateway;
        grant execute on function
            pathmirror.newest_place(tid), pathmirror.move_head(bigint, bigint, bigint, tid, uuid, uuid),
            pathmirror.lock_head(bigint, tid), pathmirror.transaction_batch(), pathmirror.version_seq(bigint)
            to pathmirror_gateway;
    end if;
    foreach role_name in array array['pathmirror_reader', 'pathmirror_writer'] loop
        if exists (select from pg_roles where rolname = role_name) then
            execute format('grant select on pathmirror.large_write to %I', role_name);
            execute format('grant execute on function pathmirror.version_seq(bigint) to %I', role_name);
        end if;
    end loop;
end
$$;
