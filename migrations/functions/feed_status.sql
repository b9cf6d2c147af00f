create or replace view pathmirror.feed_status as
select
    namespace.name as namespace,
    feed.name,
    case
        when progress.worker is null or worker.id is null then 'not running'
        when progress.reported_at is null or progress.reported_at < now() - interval '30 seconds' then 'not running'
        else progress.state
    end as state,
    progress.seq,
    namespace.head,
    namespace.head - progress.seq as lag_entries,
    -- For how long the oldest entry whose messages are not all done has been waiting.
    case
        when progress.seq >= namespace.head then interval '0'
        else greatest(interval '0', now() - (
            select committed_at from pathmirror.log
            where log.namespace_id = namespace.id and log.seq = progress.seq + 1))
    end as lag,
    progress.pending,
    progress.held,
    progress.delivered,
    progress.acknowledged,
    progress.redelivered,
    (select count(*) from pathmirror.feed_message as letter
        where letter.namespace_id = feed.namespace_id and letter.feed = feed.id and letter.state = 'dead') as dead_letters,
    (select count(*) from pathmirror.feed_message as letter
        where letter.namespace_id = feed.namespace_id and letter.feed = feed.id and letter.state in ('blocked', 'retry'))
        as set_aside,
    progress.message,
    worker.address as gateway,
    progress.moved_at,
    progress.reported_at,
    feed.namespace_id,
    feed.id as feed
from pathmirror.feed
join pathmirror.namespace on namespace.id = feed.namespace_id
join pathmirror.feed_progress as progress on progress.namespace_id = feed.namespace_id and progress.feed = feed.id
left join pathmirror.feed_worker as worker on worker.id = progress.worker;

comment on view pathmirror.feed_status is 'Each feed''s state and lag.';
