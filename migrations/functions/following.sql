-- Reading the log as followers do: a few entries behind a place, as often as somebody commits.
--
-- Their plans are kept, as making one takes PostgreSQL longer than carrying it out. A plan that serves whatever place names all
-- partitions of the log, and each execution costs something for each of them: where there are very many, it is made anew for
-- the place at hand.

-- Whether the log has so many partitions that a plan for a place is cheaper than one for all.
create or replace function pathmirror.has_many_partitions() returns boolean
language sql stable parallel safe as $$
    select count(*) > 300 from pg_inherits
    where inhparent = any (array['pathmirror.log', 'pathmirror.log_rest']::regclass[])
$$;

-- The batch of the entry at a place of the log; null where the log does not have it.
create or replace function pathmirror.batch_at(of_namespace bigint, at_seq bigint) returns uuid
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    if pathmirror.has_many_partitions() then
        perform set_config('plan_cache_mode', 'force_custom_plan', true);
    end if;
    return (select log.batch_id from pathmirror.log where log.namespace_id = of_namespace and log.seq = at_seq);
end
$$;

-- The entries behind `after_seq`, through `through_seq`: no more than `most_entries`, and from the second on no more than about
-- `most_bytes` of changes. `in_any_order`: whether their changes may come in another order than that in which they are applied;
-- null where the namespace is gone.
--
-- Bounded by seq as well as by number, as a planner without statistics would take the whole rest of the log and sort it.
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
