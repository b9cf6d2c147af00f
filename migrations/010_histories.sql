-- What tells one history of a namespace from another: a failover or a restored backup can take entries back, and others may
-- get their seqs. The head's number alone would not show it.

alter table pathmirror.namespace
    -- The batch id of the entry at the head. Null where nothing has been written since this column is there; of an empty
    -- log the namespace's stream_key stands for it.
    add column if not exists last_batch uuid,
    -- The batch id of the entry before retained_from, which is not in the log any more.
    add column if not exists pruned_batch uuid;

comment on column pathmirror.namespace.last_batch is 'The batch id of the entry at the head.';
comment on column pathmirror.namespace.pruned_batch is 'The batch id of the last entry that was pruned.';

-- The batch id of the entry that a mirror's table has come to; also made by TargetSchema.
alter table pathmirror.mirror_cursor add column if not exists batch uuid;

-- advance: begin

-- Names the writes of this transaction. Numbers of transactions come again after a failover or a restore, moments don't.
create or replace function pathmirror.sql_batch() returns uuid
language sql stable as $$
    select md5('pathmirror sql ' || pg_current_xact_id()::text || extract(epoch from now()) || id)::uuid
    from pathmirror.installation
$$;

-- Moves a namespace's head from `expected` by `entries`, or raises PM001 when somebody else has moved it, or when the entry
-- at the head is of another batch than the caller's tree is as of (null: the caller has read the tree under the head's lock).
create or replace function pathmirror.advance(
    of_namespace bigint, expected bigint, entries bigint, expected_batch uuid, new_batch uuid
) returns bigint
language plpgsql as $$
begin
    update pathmirror.namespace set head = head + entries, last_batch = new_batch
    where id = of_namespace and head = expected
        and (expected_batch is null
            or coalesce(last_batch, case when head = 0 then stream_key end, expected_batch) = expected_batch);
    if not found then
        raise exception 'the head of namespace % is not % any more', of_namespace, expected
            using errcode = 'PM001';
    end if;
    return expected + entries;
end
$$;

drop function pathmirror.advance(bigint, bigint, bigint);

-- Puts an entry, whose changes are applied, at the end of the log.
create or replace function pathmirror.finish_entry(
    of_namespace bigint, at_seq bigint, op text, path text, changes json, parts integer, origin json
) returns void
language plpgsql as $$
declare
    batch uuid := pathmirror.sql_batch();
begin
    perform pathmirror.advance(of_namespace, at_seq - 1, 1, null, batch);
    insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, parts, origin)
    values (of_namespace, at_seq, clock_timestamp(), batch, op, path, changes, parts, origin);
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
    batch uuid := pathmirror.sql_batch();
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
    perform pathmirror.advance(of_namespace, first_seq - 1, cardinality(ops), null, batch);
    -- begin_entry has seen to the first one's partition only.
    perform pathmirror.ensure_log_partition(of_namespace, last_seq, 1000000);
    insert into pathmirror.log (namespace_id, seq, committed_at, batch_id, op, path, changes, parts, origin)
    select of_namespace, first_seq + entry.n - 1, clock_timestamp(), batch, entry.op, entry.path, entry.changes::json, 0,
        entry.origin::json
    from unnest(ops, paths, changes, origins) with ordinality as entry (op, path, changes, origin, n)
    order by entry.n;
    insert into pathmirror.replay_applied (namespace_id, source, source_seq, seq)
    select of_namespace, append_entries.source, applied.source_seq, first_seq + applied.n - 1
    from unnest(source_seqs) with ordinality as applied (source_seq, n);
    perform pg_notify('pathmirror', of_namespace || ' ' || last_seq);
end
$$;

revoke execute on function pathmirror.advance(bigint, bigint, bigint, uuid, uuid), pathmirror.sql_batch() from public;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant execute on function pathmirror.advance(bigint, bigint, bigint, uuid, uuid), pathmirror.sql_batch()
            to pathmirror_gateway;
    end if;
end
$$;

-- advance: end
