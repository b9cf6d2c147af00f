-- The same write in one round trip: the most that SQL clients with one transaction a write get out of PostgreSQL.
\set key random(1, :keys)
\set stamp random(100000000, 999999999)
\startpipeline
begin;
insert into pathmirror_bench.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
values (1, nextval('pathmirror_bench.seq'), clock_timestamp(), gen_random_uuid(), 'set', '/bench/k' || :key,
    ('{"/bench/k' || :key || '":"' || :filler || :stamp || '"}')::json);
insert into pathmirror_bench.node (namespace_id, path, value, version)
values (1, '/bench/k' || :key, ('"' || :filler || :stamp || '"')::json, currval('pathmirror_bench.seq'))
on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version;
commit;
\endpipeline
