-- The names that clients give their writes.

-- Notes that these writes are done by the batch that is being committed, whose last entry is `at_seq`; raises PM003 where one of
-- them has been done before. Called under the head's lock, which keeps two gateways from noting one write at once.
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
        -- A client with many refused writes has many gaps. Its older ones are closed rather than kept without bound.
        done = excluded.done
            + case when pg_column_size(known.done) > 4096 then int8multirange(range_merge(known.done)) else known.done end,
        seq = excluded.seq,
        used_on = excluded.used_on
    where not known.done && excluded.done;
    get diagnostics noted = row_count;
    if noted < cardinality(note_writes.writers) then
        raise exception 'a write of this name has been done' using errcode = 'PM003';
    end if;
end
$$;
