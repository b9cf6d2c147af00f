-- Moving and locking the head of a namespace, and the batch that a transaction writes.

-- Where the newest version of a namespace's row is, going from a place where an older one was; the place itself where
-- nothing is there any more.
--
-- By its id the row is found through every version that a held-open snapshot keeps alive: one for each commit since.
create or replace function pathmirror.newest_place(at tid) returns tid
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

-- Takes the lock on a namespace's head. `at` is as for move_head.
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

-- Gateways of an older version, which run until they are replaced, move the head so: by a batch that they don't name.
create or replace function pathmirror.advance(of_namespace bigint, expected bigint, entries bigint) returns bigint
language plpgsql as $$
begin
    perform pathmirror.move_head(of_namespace, expected, entries, null, null, null);
    return expected + entries;
end
$$;

-- The batch of all entries that this transaction writes by functions. A restored backup gives the same transaction ids once
-- more: the time tells them apart.
create or replace function pathmirror.batch_of(installation uuid) returns uuid
language sql stable as $$
    select md5('pathmirror sql ' || pg_current_xact_id()::text || ' ' || now() || ' ' || installation)::uuid
$$;

create or replace function pathmirror.transaction_batch() returns uuid
language sql stable as $$
    select pathmirror.batch_of(installation.id) from pathmirror.installation
$$;

-- Where a session that writes by SQL keeps the place at which it saw a namespace's row last: in one of 64 settings of its own.
-- It is a hint, which anybody can change: what is there counts only if it is the namespace's row. (Without the cast the operator is
-- one that is not immutable, and the function would be called instead of being inlined.)
create or replace function pathmirror.place_setting(namespace text) returns text
language sql immutable parallel safe as $$
    select 'pathmirror.place_' || (hashtext(namespace) & 63)::text
$$;

create or replace function pathmirror.namespace_id(namespace text) returns bigint
language plpgsql stable as $$
declare
    -- By its name the row is found through every version that this transaction has left behind: one for each entry.
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

-- Takes the next seq of a namespace, for one entry of this transaction, which holds the head's lock from then on.
--
-- The row is looked for where this session saw it last, as each entry of a transaction leaves a version of it behind: a write would
-- take the longer the more others the transaction has made.
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
