create or replace view pathmirror.feed_status as
select
    namespace.name as namespace,
    feed.name,
    case
        when owner.worker is null or worker.id is null then 'not running'
        when owner.reported_at is null or owner.reported_at < now() - interval '30 seconds' then 'not running'
        else owner.state
    end as state,
    progress.seq,
    namespace.head,
    namespace.head - progress.seq as lag_entries,
    -- The age of the oldest message that is not acknowledged, or of the oldest entry that may have such messages.
    greatest(waiting.lag, letters.retry_lag) as lag,
    owner.pending,
    owner.held,
    progress.delivered,
    progress.acknowledged,
    progress.redelivered,
    letters.dead as dead_letters,
    letters.blocked as set_aside,
    letters.retry as retrying,
    owner.message,
    worker.address as gateway,
    progress.moved_at,
    owner.reported_at,
    feed.namespace_id,
    feed.id as feed,
    -- The time for which the feed has delayed pruning beyond its retention.
    case
        when waiting.lag = interval '0' then 0::double precision
        else greatest(
            0, extract(epoch from waiting.lag - (feed.definition ->> 'retention')::interval))::double precision
    end as holds_back_seconds
from pathmirror.feed
join pathmirror.namespace on namespace.id = feed.namespace_id and namespace.name not like '.%'
join pathmirror.feed_progress as progress on progress.namespace_id = feed.namespace_id and progress.feed = feed.id
join pathmirror.feed_owner as owner on owner.namespace_id = feed.namespace_id and owner.feed = feed.id
left join pathmirror.feed_worker as worker on worker.id = owner.worker
cross join lateral (
    select case
        when progress.seq >= namespace.head then interval '0'
        else greatest(interval '0', now() - (
            select committed_at from pathmirror.log
            where log.namespace_id = namespace.id and log.seq = progress.seq + 1))
    end as lag
) as waiting
cross join lateral (
    select
        count(*) filter (where letter.state = 'dead') as dead,
        -- Messages that wait for a dead letter with the same key.
        count(*) filter (where letter.state = 'blocked') as blocked,
        -- Messages that the feed delivers again.
        count(*) filter (where letter.state = 'retry') as retry,
        greatest(interval '0', now() - min(letter.since) filter (where letter.state = 'retry')) as retry_lag
    from pathmirror.feed_message as letter
    where letter.namespace_id = feed.namespace_id and letter.feed = feed.id
) as letters;

comment on view pathmirror.feed_status is 'Each feed''s state and lag.';
