-- Functions that store the progress of feeds. Each group of acknowledgements creates a version of the feed's row. Functions find
-- the row by its ctid, like the head of a namespace, so that an open snapshot does not slow down acknowledgements.

-- Returns the ctid of the newest version of a feed's row. `at` is the ctid of an older version.
create or replace function pathmirror.newest_feed_place(at tid) returns tid
language plpgsql as $$
begin
    return currtid2('pathmirror.feed_progress', at);
exception
    -- The ctid is in a page that no longer exists.
    when invalid_parameter_value then return at;
end
$$;

-- Moves the position of a feed, and returns the ctid of its row. Raises PM003 if the feed no longer exists, or if another worker
-- or another generation owns it. `at` is the last known ctid of the row, or null. `of_move` is the number of the worker's move.
-- The stored move must be `after_move` or a later one before `of_move`. If the worker already made this move, the function
-- changes nothing.
create or replace function pathmirror.move_feed(
    of_namespace bigint, of_feed bigint, at tid, by_worker uuid, of_generation bigint, to_seq bigint, to_index bigint,
    to_batch uuid, to_snapshot bigint, to_done bytea, to_handed bigint, more_delivered bigint, more_acknowledged bigint,
    more_redelivered bigint, to_read bigint, of_move bigint, after_move bigint
) returns tid
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    attempts integer := 0;
    place tid;
begin
    loop
        at := case attempts
            when 0 then at
            when 1 then pathmirror.newest_feed_place(at)
            else (select ctid from pathmirror.feed_progress where namespace_id = of_namespace and feed = of_feed)
        end;
        update pathmirror.feed_progress
        set seq = to_seq, index = to_index, batch = to_batch, snapshot_seq = to_snapshot, done = to_done,
            handed_to = to_handed, read_to = to_read, delivered = delivered + more_delivered,
            acknowledged = acknowledged + more_acknowledged, redelivered = redelivered + more_redelivered,
            moves = of_move, moved_at = clock_timestamp()
        where ctid = at and namespace_id = of_namespace and feed = of_feed and worker = by_worker
            and generation = of_generation and moves >= after_move and moves < of_move
        returning ctid into place;
        if found then
            return place;
        end if;
        attempts := attempts + 1;
        exit when attempts = 3;
    end loop;
    select ctid into place from pathmirror.feed_progress
    where namespace_id = of_namespace and feed = of_feed and worker = by_worker and generation = of_generation
        and moves = of_move;
    if found then
        return place;
    end if;
    raise exception 'feed % is not worked by this worker any more', of_feed using errcode = 'PM003';
end
$$;
