-- From times to places of the log.

-- The head of a namespace as it was at a moment: the last entry that was committed until then. What is behind it came later. Where
-- the log does not reach back so far, the entry before its oldest.
--
-- Times of entries never step back, so it is found by halving, at the cost of some twenty looks at the primary key. An entry that
-- is not there counts as one of before: what is pruned has gone from the beginning.
create or replace function pathmirror.seq_at(namespace text, at timestamptz) returns bigint
language plpgsql stable set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
set enable_seqscan = off set jit = off as $$
declare
    of_namespace bigint := pathmirror.namespace_id(namespace);
    low bigint;
    high bigint;
    middle bigint;
begin
    if at is null then
        return null;
    end if;
    if pathmirror.has_many_partitions() then
        perform set_config('plan_cache_mode', 'force_custom_plan', true);
    end if;
    select known.retained_from - 1, known.head into low, high from pathmirror.namespace as known where known.id = of_namespace;
    -- The entry at `low` came until then, or is the one before the log's oldest; those behind `high` came later.
    while low < high loop
        middle := low + (high - low + 1) / 2;
        if exists (
            select from pathmirror.log
            where log.namespace_id = of_namespace and log.seq = middle and log.committed_at > seq_at.at)
        then
            high := middle - 1;
        else
            low := middle;
        end if;
    end loop;
    return low;
end
$$;

comment on function pathmirror.seq_at(text, timestamptz) is
    'The last entry of the log that was committed until a moment; entries with a greater seq came later.';
