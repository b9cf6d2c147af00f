-- Ten leaves and one log entry in a transaction that is sent in one round trip. Two transactions meet at all ten rows or at none,
-- in the same order: there are no deadlocks. The runner gives :keys (a multiple of ten) and :filler.
\set key random(1, :keys / 10)
\set step :keys / 10
\set stamp random(100000000, 999999999)
\startpipeline
begin;
insert into pathmirror_bench.log (namespace_id, seq, committed_at, batch_id, op, path, changes)
select 1, nextval('pathmirror_bench.seq'), clock_timestamp(), gen_random_uuid(), 'update', '/bench',
    json_object_agg('/bench/k' || (:key::int + n * :step::int), :filler::text || :stamp::text)
from generate_series(0, 9) n;
insert into pathmirror_bench.node (namespace_id, path, value, version)
select 1, '/bench/k' || (:key::int + n * :step::int), to_json(:filler::text || :stamp::text), currval('pathmirror_bench.seq') from generate_series(0, 9) n
on conflict (namespace_id, path) do update set value = excluded.value, version = excluded.version;
commit;
\endpipeline
