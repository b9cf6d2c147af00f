create or replace view pathmirror.mirror_status as
select
    namespace.name as namespace,
    mirror.name,
    mirror.definition ->> 'table' as table_name,
    mirror.target is not null as is_elsewhere,
    case
        when mirror.is_paused then 'paused'
        when run.state = 'broken' then 'broken'
        when coalesce(run_cursor.seq, run.seq) is null then 'building'
        when run.reported_at is null or run.reported_at < now() - interval '30 seconds' then 'not running'
        else run.state
    end as state,
    coalesce(run_cursor.seq, run.seq) as seq,
    namespace.head,
    namespace.head - coalesce(run_cursor.seq, run.seq) as lag_entries,
    -- The age of the oldest entry that the table does not contain.
    case
        when coalesce(run_cursor.seq, run.seq) >= namespace.head then interval '0'
        else greatest(interval '0', now() - (
            select committed_at from pathmirror.log
            where log.namespace_id = namespace.id and log.seq = coalesce(run_cursor.seq, run.seq) + 1))
    end as lag,
    case
        when mirror.target is null then (
            select count(*) from pathmirror.mirror_error as error
            where error.namespace_id = mirror.namespace_id and error.mirror = mirror.id
                and error.generation = run_cursor.generation)
        else coalesce(run.error_count, 0)
    end as errors,
    run.message,
    run.retry_at,
    run.gateway,
    run.reported_at,
    run_cursor.entry_at,
    mirror.namespace_id,
    mirror.id as mirror,
    case
        when mirror.target is null then coalesce((
            select excess.found from pathmirror.mirror_error_excess as excess
            where excess.namespace_id = mirror.namespace_id and excess.mirror = mirror.id
                and excess.generation = run_cursor.generation), 0)
        else coalesce(run.unkept_errors, 0)
    end as unkept_errors
from pathmirror.mirror
join pathmirror.namespace on namespace.id = mirror.namespace_id
left join pathmirror.mirror_run as run on run.namespace_id = mirror.namespace_id and run.mirror = mirror.id
left join pathmirror.mirror_cursor as run_cursor
    on run_cursor.namespace_id = mirror.namespace_id and run_cursor.mirror = mirror.id and mirror.target is null;

comment on view pathmirror.mirror_status is 'Each mirror''s state and lag.';
