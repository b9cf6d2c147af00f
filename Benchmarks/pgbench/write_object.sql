-- One write of an object with five fields: its log entry and its five leaves.
-- (A colon before a letter would be a variable to pgbench, hence the spaces in the JSON.)
\set key random(1, :keys)
\set stamp random(100000000, 999999999)
\startpipeline
begin;
insert into pathmirror_bench.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
values (1, nextval('pathmirror_bench.seq'), clock_timestamp(), gen_random_uuid(), 'set', '/bench/o' || :key,
    ('{"/bench/o' || :key || '":{"active": true,"age": 7,"email":"ada.' || :stamp || '@example.com","name":"Ada Lovelace '
    || :stamp || '","updated":' || :stamp::int || '}}')::json);
insert into pathmirror_bench.node (namespace_id, path, value, version)
values (1, '/bench/o' || :key || '/active', 'true', currval('pathmirror_bench.seq')),
    (1, '/bench/o' || :key || '/age', to_json(:stamp % 100), currval('pathmirror_bench.seq')),
    (1, '/bench/o' || :key || '/email', ('"ada.' || :stamp || '@example.com"')::json, currval('pathmirror_bench.seq')),
    (1, '/bench/o' || :key || '/name', ('"Ada Lovelace ' || :stamp || '"')::json, currval('pathmirror_bench.seq')),
    (1, '/bench/o' || :key || '/updated', to_json(:stamp::int), currval('pathmirror_bench.seq'))
on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version;
commit;
\endpipeline
