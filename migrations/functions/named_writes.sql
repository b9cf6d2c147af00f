-- Functions for the names that clients give to their writes.

-- Returns the numbers with all gaps closed except those between the newest ranges.
create or replace function pathmirror.newest_gaps(numbers int8multirange) returns int8multirange
language sql immutable as $$
    select range_agg(found.numbers) filter (where found.place <= 128)
        + int8multirange(range_merge(range_agg(found.numbers) filter (where found.place > 128)))
    from (
        select part as numbers, row_number() over (order by part desc) as place from unnest(newest_gaps.numbers) as part
    ) as found
$$;

-- Records these writes as done by the current batch, whose last entry is `at_seq`. Raises PM003 if one of them, or a later write
-- of its writer, is already recorded. The caller holds the lock of the head, so that two gateways cannot record the same write.
-- A writer belongs to the identity that used it first. `identities` has one element for each writer. Null is an unknown
-- identity, which owns no writers.
create or replace function pathmirror.note_writes(
    of_namespace bigint, writers text[], numbers text[], identities bytea[], at_seq bigint
) returns void
language plpgsql as $$
declare
    noted bigint;
begin
    insert into pathmirror.named_write as known (namespace_id, writer, done, seq, identity)
    select of_namespace, sent.writer, sent.numbers::int8multirange, at_seq, sent.identity
    from unnest(note_writes.writers, note_writes.numbers, note_writes.identities) as sent (writer, numbers, identity)
    on conflict (namespace_id, writer) do update set
        -- Null if a gateway of the previous version recorded the writer. The writer then belongs to the next identity that uses
        -- it.
        identity = coalesce(known.identity, excluded.identity),
        -- A client with many refused writes has many gaps. The function closes the older gaps to limit the size of the row.
        done = excluded.done
            + case when pg_column_size(known.done) > 4096 then pathmirror.newest_gaps(known.done) else known.done end,
        seq = excluded.seq,
        used_on = excluded.used_on
    where lower(excluded.done) >= upper(known.done);
    get diagnostics noted = row_count;
    if noted < cardinality(note_writes.writers) then
        raise exception 'a write of this name, or a later one, has been done' using errcode = 'PM003';
    end if;
end
$$;

-- The signature that gateways of the previous version call.
create or replace function pathmirror.note_writes(of_namespace bigint, writers text[], numbers text[], at_seq bigint)
returns void
language sql as $$
    select pathmirror.note_writes(
        of_namespace, note_writes.writers, note_writes.numbers,
        array_fill(null::bytea, array[cardinality(note_writes.writers)]), at_seq)
$$;

-- Deletes a limited number of writers, and returns their number. It deletes writers that were unused for `days`, and writers
-- that were unused for a whole day and whose entries retention has dropped. It then deletes the least recently used writers over
-- the limit of each identity that is one user, and over the limit of the namespace. (An identity that begins with a zero byte is
-- shared by callers without a login or by administrators. Null is shared, too.)
create or replace function pathmirror.forget_writers(
    days integer, most_of_namespace bigint, most_of_identity bigint, most bigint
) returns bigint
language plpgsql as $$
declare
    crowded bigint;
    gone bigint;
    total bigint;
begin
    delete from pathmirror.named_write where (namespace_id, writer) in (
        select namespace_id, writer from pathmirror.named_write
        where used_on < current_date - days order by used_on limit most
    )
    -- The function keeps a writer that writes at the same time.
    and used_on < current_date - days;
    get diagnostics total = row_count;
    delete from pathmirror.named_write as known
    using pathmirror.namespace
    where namespace.id = known.namespace_id and namespace.retained_from > 1 and known.seq < namespace.retained_from
        and known.used_on < current_date - 1;
    get diagnostics gone = row_count;
    total := total + gone;
    for crowded in
        select namespace_id from pathmirror.named_write
        group by namespace_id having count(*) > least(most_of_namespace, most_of_identity)
    loop
        delete from pathmirror.named_write as known
        using (
            -- Only writers within the limit of their user count for the namespace. A user with many writers evicts only their
            -- own.
            select writer, seq, is_within,
                row_number() over (partition by is_within order by used_on desc, seq desc) as place
            from (
                select writer, used_on, seq,
                    identity is null or identity < '\x01'
                        or row_number() over (partition by identity order by used_on desc, seq desc) <= most_of_identity
                        as is_within
                from pathmirror.named_write where namespace_id = crowded
            ) as own
        ) as ranked
        where known.namespace_id = crowded and known.writer = ranked.writer
            and (not ranked.is_within or ranked.place > most_of_namespace)
            and known.seq = ranked.seq;
        get diagnostics gone = row_count;
        total := total + gone;
    end loop;
    return total;
end
$$;
