-- The function that converts times to positions in the log.

-- Returns the head of a namespace at a time: the last entry that was committed until then. If the log does not contain entries
-- that old, returns the seq before its oldest entry.
--
-- Times of entries never decrease, so the function uses a binary search with about twenty reads of the primary key. It treats a
-- missing entry as an older one, because pruning removes entries from the beginning.
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
    -- The entry at `low` was committed until then, or is the one before the oldest entry. Entries after `high` were committed
    -- later.
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
