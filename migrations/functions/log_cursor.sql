create or replace view pathmirror.log_cursor as
select namespace_id, kind, name, seq from pathmirror.cursor
union all
select mirror.namespace_id, 'mirror', mirror.name, coalesce(own.seq, run.seq)
from pathmirror.mirror
left join pathmirror.mirror_cursor as own
    on own.namespace_id = mirror.namespace_id and own.mirror = mirror.id and mirror.target is null
left join pathmirror.mirror_run as run on run.namespace_id = mirror.namespace_id and run.mirror = mirror.id
where coalesce(own.seq, run.seq) is not null
union all
-- A feed that begins with a snapshot needs the tree at this seq until all messages of the snapshot are acknowledged.
select feed.namespace_id, 'feed', feed.name, least(progress.seq, progress.snapshot_seq)
from pathmirror.feed
join pathmirror.feed_progress as progress on progress.namespace_id = feed.namespace_id and progress.feed = feed.id;

comment on view pathmirror.log_cursor is 'Every reader that the log is kept for: entries after seq are still needed.';
