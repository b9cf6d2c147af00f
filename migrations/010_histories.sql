-- What tells one history of a namespace from another: a failover or a restored backup can take entries back, and others may
-- get their seqs. The head's number alone would not show it.

alter table pathmirror.namespace
    -- The batch id of the entry at the head. Null where nothing has been written since this column is there; of an empty
    -- log the namespace's stream_key stands for it.
    add column if not exists last_batch uuid,
    -- The batch id of the entry before retained_from, which is not in the log any more.
    add column if not exists pruned_batch uuid;

comment on column pathmirror.namespace.last_batch is 'The batch id of the entry at the head.';
comment on column pathmirror.namespace.pruned_batch is 'The batch id of the last entry that was pruned.';

-- The batch id of the entry that a mirror's table has come to; also made by TargetSchema.
alter table pathmirror.mirror_cursor add column if not exists batch uuid;
