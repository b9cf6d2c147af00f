-- A thousand such writes in one transaction, by a loop on the server: seqs without gaps, a log entry and a leaf each.
-- (The runner's variables don't reach into the block: it writes the same keys and sizes.)
do $$
declare
    seq bigint;
    place text;
    leaf json;
begin
    for n in 1 .. 1000 loop
        place := '/bench/k' || (1 + floor(random() * 10000))::int;
        leaf := to_json(repeat('x', 189) || (100000000 + floor(random() * 900000000))::int);
        update pathmirror_bench.head set head = head + 1 where namespace_id = 1 returning head into seq;
        insert into pathmirror_bench.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
        values (2, seq, clock_timestamp(), gen_random_uuid(), 'set', place, json_build_object(place, leaf));
        insert into pathmirror_bench.node (namespace_id, path, value, version) values (1, place, leaf, seq)
        on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version;
    end loop;
end
$$;
