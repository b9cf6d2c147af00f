create or replace view pathmirror.log_entry as
select
    namespace.name as namespace, log.namespace_id, log.seq, log.committed_at, log.batch_id, log.op, log.path, log.changes,
    log.parts, log.origin ->> 'uid' as uid, (log.origin ->> 'admin')::boolean as is_admin, log.origin ->> 'via' as via,
    log.origin
from pathmirror.log
join pathmirror.namespace on namespace.id = log.namespace_id;

comment on view pathmirror.log_entry is 'One row an entry of the log.';
