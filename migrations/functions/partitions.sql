-- The tables that the log is in.

-- Makes sure that seqs up to `needed` have a table to go to, `entries_each` seqs a partition. Returns the first seq that
-- has none. What is in the shared tables costs one look.
create or replace function pathmirror.ensure_log_partition(
    of_namespace bigint, needed bigint, entries_each bigint
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    first bigint;
    parent text;
    name text;
begin
    -- Without a lock, as it only grows.
    select partitioned_to into strict first from pathmirror.namespace where id = of_namespace;
    if first > needed then
        return first;
    end if;
    select partitioned_to, case when shared_to > 0 then 'log_rest' else 'log' end into strict first, parent
    from pathmirror.namespace where id = of_namespace for update;
    while first <= needed loop
        name := format('log_%s_%s', of_namespace, first);
        -- Attaching locks the parent far less than creating a partition of it would. (Nor is the parent what the table is
        -- like: whoever detaches another partition from it waits for all who have it locked.)
        execute format(
            'create table pathmirror.%I (like pathmirror.log_begin including defaults including constraints, '
            'primary key (namespace_id, seq))', name);
        execute format('alter table pathmirror.%I attach partition pathmirror.%I for values from (%s, %s) to (%s, %s)',
            parent, name, of_namespace, first, of_namespace, first + entries_each);
        first := first + entries_each;
    end loop;
    update pathmirror.namespace set partitioned_to = first where id = of_namespace and partitioned_to <> first;
    return first;
end
$$;
