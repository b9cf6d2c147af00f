-- Many writes by SQL in one transaction: each looks for the namespace's row where the session saw it last, rather than among all the
-- versions that the transaction's other writes have left behind (functions/head.sql: take_seq).

-- It takes the namespace's name now, and is there anew as write_places.
drop function pathmirror.write(bigint, text, text, text[], jsonb[], text);
