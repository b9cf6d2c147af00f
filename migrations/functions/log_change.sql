create or replace view pathmirror.log_change as
select
    namespace.name as namespace, log.namespace_id, log.seq, log.committed_at, log.op,
    -- 0 for changes in the entry itself, and numbers from 1 on for the parts of a bulk entry.
    piece.part, change.position, change.path collate "C" as path, change.value, log.origin ->> 'uid' as uid, log.origin,
    -- Removals in the entry itself come before its parts. The steps order all other changes.
    pathmirror.application_step(change.path, json_typeof(change.value) = 'null') as step,
    -- The path of the request. All changes are at or below it.
    log.path as entry_path
from pathmirror.log
join pathmirror.namespace on namespace.id = log.namespace_id
cross join lateral (
    select 0 as part, log.changes
    union all
    select log_part.part + 1, log_part.changes from pathmirror.log_part
    where log.parts > 0 and log_part.namespace_id = log.namespace_id and log_part.seq = log.seq
) as piece
cross join lateral pathmirror.each_change(piece.changes) as change;

comment on view pathmirror.log_change is 'One row a change of the log: the value is JSON null where something was removed.';
