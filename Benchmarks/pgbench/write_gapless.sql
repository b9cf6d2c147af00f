-- The same write with the promises of Pathmirror: seqs without gaps, in commit order, hence a lock that is held to COMMIT.
\set key random(1, :keys)
\set stamp random(100000000, 999999999)
\startpipeline
begin;
update pathmirror_bench.head set head = head + 1 where namespace_id = 1;
insert into pathmirror_bench.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
select 2, head, clock_timestamp(), gen_random_uuid(), 'set', '/bench/k' || :key,
    ('{"/bench/k' || :key || '":"' || :filler || :stamp || '"}')::json
from pathmirror_bench.head where namespace_id = 1;
insert into pathmirror_bench.node (namespace_id, path, value, version)
select 1, '/bench/k' || :key, ('"' || :filler || :stamp || '"')::json, head
from pathmirror_bench.head where namespace_id = 1
on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version;
commit;
\endpipeline
