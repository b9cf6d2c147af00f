-- One write by pathmirror.set, in a transaction of its own. The runner gives :keys and :filler.
\set key random(1, :keys)
\set stamp random(100000000, 999999999)
select pathmirror.set('default', '/bench/k' || :key, ('"' || :filler || :stamp || '"')::jsonb);
