-- Mirrors: path patterns projected into typed tables.

-- Names this database among others: a mirror's table may be in a database that others mirror to as well.
create table pathmirror.installation (
    id uuid not null default gen_random_uuid()
);
create unique index installation_is_one_row on pathmirror.installation ((true));
insert into pathmirror.installation default values;

create table pathmirror.mirror (
    namespace_id bigint not null,
    name text collate "C" not null,
    -- The same in the target database.
    id uuid not null default gen_random_uuid(),
    definition json not null,
    -- Where the table is; null for this very database. May hold a password: not for readers.
    target text,
    is_paused boolean not null default false,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (namespace_id, name)
);

comment on table pathmirror.mirror is 'The mirrors that exist, each as its definition.';

create table pathmirror.mirror_run (
    namespace_id bigint not null,
    mirror uuid not null,
    -- running, broken, or building.
    state text not null,
    -- Why it is broken.
    message text,
    -- Which gateway said so, and when.
    gateway text not null,
    reported_at timestamptz not null,
    -- Where the cursor was then; of use where the table is in another database.
    seq bigint,
    error_count bigint,
    retry_at timestamptz,
    primary key (namespace_id, mirror)
) with (fillfactor = 50);

comment on table pathmirror.mirror_run is 'What the gateways that run the mirrors said last.';

-- The next two also exist in each other database that has mirrors' tables, made by TargetSchema.

create table if not exists pathmirror.mirror_cursor (
    namespace_id bigint not null,
    mirror uuid not null,
    -- The entry up to which the table is the projection of the tree. Moves in the transaction that changes the rows.
    seq bigint not null,
    -- When that entry was committed.
    entry_at timestamptz,
    -- The definition that the table was made by; the number grows with each table that is made for the mirror.
    definition json not null,
    generation bigint not null,
    moved_at timestamptz not null default now(),
    primary key (namespace_id, mirror)
) with (fillfactor = 50);

comment on table pathmirror.mirror_cursor is 'How far each mirror''s table has come.';

create table if not exists pathmirror.mirror_error (
    namespace_id bigint not null,
    mirror uuid not null,
    generation bigint not null,
    -- MD5 of the record's path, as a path may be too long for an index.
    record_hash uuid not null,
    -- Empty where the whole row could not be.
    column_name text collate "C" not null,
    record text collate "C" not null,
    -- The value's place.
    path text collate "C" not null,
    seq bigint not null,
    -- The value as JSON, or its beginning.
    value text,
    reason text not null,
    found_at timestamptz not null default now(),
    primary key (namespace_id, mirror, generation, record_hash, column_name)
);

comment on table pathmirror.mirror_error is 'Values that did not fit their columns, as of each mirror''s cursor.';

create view pathmirror.mirror_status as
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
    -- How long the oldest entry that the table lacks has been waiting.
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
    mirror.id as mirror
from pathmirror.mirror
join pathmirror.namespace on namespace.id = mirror.namespace_id
left join pathmirror.mirror_run as run on run.namespace_id = mirror.namespace_id and run.mirror = mirror.id
left join pathmirror.mirror_cursor as run_cursor
    on run_cursor.namespace_id = mirror.namespace_id and run_cursor.mirror = mirror.id and mirror.target is null;

comment on view pathmirror.mirror_status is 'Each mirror''s state and lag.';
