-- The names that clients give their writes.

-- The same numbers with all gaps closed but those between the newest ranges.
create or replace function pathmirror.newest_gaps(numbers int8multirange) returns int8multirange
language sql immutable as $$
    select range_agg(found.numbers) filter (where found.place <= 128)
        + int8multirange(range_merge(range_agg(found.numbers) filter (where found.place > 128)))
    from (
        select part as numbers, row_number() over (order by part desc) as place from unnest(newest_gaps.numbers) as part
    ) as found
$$;

-- Notes that these writes are done by the batch that is being committed, whose last entry is `at_seq`; raises PM003 where one of
-- them, or a later one of its writer, has been done before. Called under the head's lock, which keeps two gateways from noting one
-- write at once.
create or replace function pathmirror.note_writes(of_namespace bigint, writers text[], numbers text[], at_seq bigint)
returns void
language plpgsql as $$
declare
    noted bigint;
begin
    insert into pathmirror.named_write as known (namespace_id, writer, done, seq)
    select of_namespace, sent.writer, sent.numbers::int8multirange, at_seq
    from unnest(note_writes.writers, note_writes.numbers) as sent (writer, numbers)
    on conflict (namespace_id, writer) do update set
        -- A client with many refused writes has many gaps: the older ones are closed rather than kept without bound.
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
