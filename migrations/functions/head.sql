-- Functions that move and lock the head of a namespace, and that return the batch of a transaction.

-- Returns the ctid of the newest version of a namespace's row. `at` is the ctid of an older version. Returns `at` if no row
-- exists there any more.
--
-- A search by id would read all versions that an open snapshot keeps, one for each commit.
create or replace function pathmirror.newest_place(at tid) returns tid
language plpgsql as $$
begin
    return currtid2('pathmirror.namespace', at);
exception
    -- The ctid is in a page that no longer exists.
    when invalid_parameter_value then return at;
end
$$;

-- Moves a namespace's head from `expected` by `entries`. Raises PM001 if another transaction has moved the head, or if the batch
-- of the last entry is not `expected_batch`. If `expected_batch` is null, the function does not compare batches. `at` is the
-- last known ctid of the row, or null. Returns the new ctid of the row and the time of the entries.
create or replace function pathmirror.move_head(
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

-- Locks a namespace's head. `at` has the same meaning as in move_head.
create or replace function pathmirror.lock_head(of_namespace bigint, at tid, out head bigint, out place tid)
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

-- Moves the head for gateways of an older version, which run until an upgrade replaces them. They do not pass a batch.
create or replace function pathmirror.advance(of_namespace bigint, expected bigint, entries bigint) returns bigint
language plpgsql as $$
begin
    perform pathmirror.move_head(of_namespace, expected, entries, null, null, null);
    return expected + entries;
end
$$;

-- Returns the batch of all entries that this transaction writes by functions. Transaction ids repeat after the restore of a
-- backup, so the batch also depends on the time.
create or replace function pathmirror.batch_of(installation uuid) returns uuid
language sql stable as $$
    select md5('pathmirror sql ' || pg_current_xact_id()::text || ' ' || now() || ' ' || installation)::uuid
$$;

create or replace function pathmirror.transaction_batch() returns uuid
language sql stable as $$
    select pathmirror.batch_of(installation.id) from pathmirror.installation
$$;

-- Returns the name of the setting in which a session that writes by SQL stores the last known ctid of a namespace's row. A
-- session uses 64 such settings. Every role can change the setting, so it is only a hint: the functions check that the row at
-- the ctid belongs to the namespace. (Without the cast, PostgreSQL would use an operator that is not immutable, and would call
-- the function instead of inlining it.)
create or replace function pathmirror.place_setting(namespace text) returns text
language sql immutable parallel safe as $$
    select 'pathmirror.place_' || (hashtext(namespace) & 63)::text
$$;

create or replace function pathmirror.namespace_id(namespace text) returns bigint
language plpgsql stable as $$
declare
    -- A search by name would read all versions that this transaction has created, one for each entry.
    hint text := current_setting(pathmirror.place_setting(namespace), true);
    found bigint;
begin
    if hint <> '' then
        select known.id into found from pathmirror.namespace as known
        where known.ctid = hint::tid and known.name = namespace_id.namespace;
        if found is not null then
            return found;
        end if;
    end if;
    select known.id into found from pathmirror.namespace as known where known.name = namespace_id.namespace;
    if found is null then
        raise exception 'there is no namespace "%"', namespace using errcode = 'no_data_found';
    end if;
    return found;
end
$$;

-- Takes the next seq of a namespace for one entry of this transaction. The transaction then holds the lock of the head.
--
-- The function first searches at the ctid that this session used last. Each entry of a transaction creates a version of the row,
-- so the cost of a search by name would grow with the number of entries in the transaction.
create or replace function pathmirror.take_seq(
    namespace text, out of_namespace bigint, out seq bigint, out stamp timestamptz, out batch uuid
) language plpgsql as $$
declare
    setting text := pathmirror.place_setting(namespace);
    hint text := current_setting(setting, true);
    at tid := case when hint <> '' then hint::tid end;
    place tid;
    has_partition boolean;
    attempts integer := 0;
begin
    while at is not null and attempts < 2 loop
        update pathmirror.namespace as known
        set head = known.head + 1, stamped_at = greatest(clock_timestamp(), known.stamped_at),
            last_batch = pathmirror.batch_of((select installation.id from pathmirror.installation))
        where known.ctid = at and known.name = take_seq.namespace
        returning known.id, known.head, known.stamped_at, known.last_batch, known.ctid, known.partitioned_to > known.head
        into of_namespace, seq, stamp, batch, place, has_partition;
        exit when found;
        at := pathmirror.newest_place(at);
        attempts := attempts + 1;
    end loop;
    if place is null then
        of_namespace := pathmirror.namespace_id(namespace);
        update pathmirror.namespace as known
        set head = known.head + 1, stamped_at = greatest(clock_timestamp(), known.stamped_at),
            last_batch = pathmirror.batch_of((select installation.id from pathmirror.installation))
        where known.id = of_namespace and known.name = take_seq.namespace
        returning known.head, known.stamped_at, known.last_batch, known.ctid, known.partitioned_to > known.head
        into seq, stamp, batch, place, has_partition;
        if not found then
            raise exception 'the namespace is not in this database any more: it has moved to another one, or was removed'
                using errcode = 'no_data_found';
        end if;
    end if;
    if not has_partition then
        perform pathmirror.ensure_log_partition(of_namespace, seq, 1000000);
    end if;
    hint := set_config(setting, place::text, false);
end
$$;
