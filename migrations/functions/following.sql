-- Functions that read the log as followers do: they often read a few entries after a position.
--
-- The functions keep their plans, because PostgreSQL needs more time to plan than to execute them. A plan for all positions
-- contains all partitions of the log, and each partition adds to the cost of each execution. If the log has very many
-- partitions, PostgreSQL plans each execution for its position.

-- Returns whether the log has so many partitions that a plan for one position is cheaper than a plan for all.
create or replace function pathmirror.has_many_partitions() returns boolean
language sql stable parallel safe as $$
    select count(*) > 300 from pg_inherits
    where inhparent = any (array['pathmirror.log', 'pathmirror.log_rest']::regclass[])
$$;

-- Returns the batch of the entry at a position of the log, or null if the log does not contain the entry.
create or replace function pathmirror.batch_at(of_namespace bigint, at_seq bigint) returns uuid
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    if pathmirror.has_many_partitions() then
        perform set_config('plan_cache_mode', 'force_custom_plan', true);
    end if;
    return (select log.batch_id from pathmirror.log where log.namespace_id = of_namespace and log.seq = at_seq);
end
$$;

-- Returns the entries after `after_seq`, through `through_seq`: at most `most_entries` and, from the second entry on, at most
-- about `most_bytes` of changes. `in_any_order` is whether the changes may be in another order than the order of application. It
-- is null if the namespace no longer exists.
--
-- The query limits both the seq and the number of entries, because a planner without statistics would read and sort the whole
-- rest of the log.
create or replace function pathmirror.log_page(
    of_namespace bigint, after_seq bigint, through_seq bigint, most_entries bigint, most_bytes bigint
) returns table (
    seq bigint, milliseconds bigint, op text, path text, changes text, parts integer, batch_id uuid, origin text, in_any_order boolean
)
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
begin
    if pathmirror.has_many_partitions() then
        perform set_config('plan_cache_mode', 'force_custom_plan', true);
    end if;
    return query
    select seq, (extract(epoch from committed_at) * 1000)::bigint, op, path, changes::text, parts, batch_id, origin::text,
        seq >= (select any_order_from from pathmirror.namespace where id = of_namespace)
    from (
        select *, sum(length(changes::text)) over (order by seq) - length(changes::text) as bytes_before
        from pathmirror.log where namespace_id = of_namespace and seq > after_seq and seq <= through_seq
        order by seq limit most_entries
    ) as page
    where bytes_before < most_bytes
    order by seq;
end
$$;
