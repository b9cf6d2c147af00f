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

-- The batch of all entries that this transaction writes by functions.
create or replace function pathmirror.transaction_batch() returns uuid
language sql stable as $$
    -- A restored backup gives the same transaction ids once more: the time tells them apart.
    select md5('pathmirror sql ' || pg_current_xact_id()::text || ' ' || now() || ' ' || installation.id)::uuid
    from pathmirror.installation
$$;

create or replace function pathmirror.namespace_id(namespace text) returns bigint
language plpgsql stable as $$
declare
    found bigint;
begin
    select known.id into found from pathmirror.namespace as known where known.name = namespace_id.namespace;
    if found is null then
        raise exception 'there is no namespace "%"', namespace using errcode = 'no_data_found';
    end if;
    return found;
end
$$;
