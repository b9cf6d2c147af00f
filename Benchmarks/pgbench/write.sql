-- One durable write by an ordinary client: a transaction with the log entry and the leaf, a round trip a statement.
-- The runner gives :keys and :filler.
\set key random(1, :keys)
\set stamp random(100000000, 999999999)
begin;
insert into pathmirror_bench.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
values (1, nextval('pathmirror_bench.seq'), clock_timestamp(), gen_random_uuid(), 'set', '/bench/k' || :key,
    ('{"/bench/k' || :key || '":"' || :filler || :stamp || '"}')::json);
insert into pathmirror_bench.node (namespace_id, path, value, version)
values (1, '/bench/k' || :key, ('"' || :filler || :stamp || '"')::json, currval('pathmirror_bench.seq'))
on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version;
commit;
