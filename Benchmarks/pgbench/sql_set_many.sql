-- A thousand writes by pathmirror.set in one transaction.
select count(pathmirror.set('default', '/bench/k' || (1 + floor(random() * :keys))::int,
    ('"' || :filler || (100000000 + floor(random() * 900000000))::int || '"')::jsonb))
from generate_series(1, 1000);
