-- How far feeds have come. A feed's row has a new version for each group of acknowledgements: it is found by its place, like
-- a namespace's head, so that a snapshot that is held open makes no acknowledgement slower.

-- Where the newest version of a feed's row is, going from a place where an older one was.
create or replace function pathmirror.newest_feed_place(at tid) returns tid
language plpgsql as $$
begin
    return currtid2('pathmirror.feed_progress', at);
exception
    -- A place in a page that is gone since.
    when invalid_parameter_value then return at;
end
$$;

-- Moves a feed's place. Returns where its row is now, or raises PM003 where the feed is gone, or is another worker's or generation's.
-- `at`: where the row was seen last; null where that is not known. `of_move` is the number of the worker's move, which follows the one
-- of `after_move` or one between them; a move that was made already is made no more.
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
