-- The function that creates the partitions of the log.

-- Ensures that a partition exists for all seqs up to `needed`. A partition has `entries_each` seqs, or a 64th of the log's
-- partitioned seqs if that is more, and at most 50 million. PostgreSQL locks each partition that a statement may read, and its
-- lock table holds only some thousands of locks. Returns the first seq without a partition. For seqs in the shared tables, the
-- function only reads the namespace's row.
create or replace function pathmirror.ensure_log_partition(
    of_namespace bigint, needed bigint, entries_each bigint
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    first bigint;
    parent text;
    name text;
    oldest bigint;
    size bigint;
begin
    -- This read needs no lock, because the value only grows.
    select partitioned_to into strict first from pathmirror.namespace where id = of_namespace;
    if first > needed then
        return first;
    end if;
    select partitioned_to, case when shared_to > 0 then 'log_rest' else 'log' end into strict first, parent
    from pathmirror.namespace where id = of_namespace for update;
    if first <= needed then
        select coalesce(min(split_part(relname, '_', 3)::bigint), first) into oldest from pg_class
        where relnamespace = 'pathmirror'::regnamespace and relkind = 'r'
            and relname ~ ('^log_' || of_namespace || '_[0-9]+$');
    end if;
    while first <= needed loop
        size := least(greatest(entries_each, (first - oldest) / 64), 50000000);
        name := format('log_%s_%s', of_namespace, first);
        -- Attaching a partition takes a weaker lock on the parent than creating one. The new table does not use the parent in
        -- LIKE, because a transaction that detaches another partition waits for all transactions that have locked the parent.
        execute format(
            'create table pathmirror.%I (like pathmirror.log_begin including defaults including constraints, '
            'primary key (namespace_id, seq))', name);
        execute format('alter table pathmirror.%I attach partition pathmirror.%I for values from (%s, %s) to (%s, %s)',
            parent, name, of_namespace, first, of_namespace, first + size);
        first := first + size;
    end loop;
    update pathmirror.namespace set partitioned_to = first where id = of_namespace and partitioned_to <> first;
    return first;
end
$$;
