-- Namespaces that follow an upstream: a database of Firebase's, or another Pathmirror. One gateway at a time writes the upstream's messages
-- to the log; everybody else only reads.

alter table pathmirror.namespace add column is_following boolean not null default false;

comment on column pathmirror.namespace.is_following is 'Whether it follows an upstream, so that only its follower writes to it.';

create table pathmirror.follow (
    namespace_id bigint primary key,
    upstream text not null,
    -- Their kind and where they are; never a secret.
    credentials json not null,
    -- Whether it has rules of its own, instead of the upstream's.
    keep_rules boolean not null default false,
    max_bytes_per_day bigint check (max_bytes_per_day > 0),
    is_paused boolean not null default false,
    created_at timestamptz not null default now(),
    -- Under which claim messages are taken; null where no gateway follows. The heartbeat is counted up while its gateway lives.
    fence uuid,
    gateway text,
    heartbeat bigint not null default 0,
    -- The number of the last message that is in the log, among those of the fence.
    position bigint not null default 0,
    -- The batch that may move the head: the follower's last one, or that of an administrator's rules.
    batch uuid,
    -- How it fares, as its gateway said last.
    state text not null default 'starting',
    message text,
    state_since timestamptz,
    connected_since timestamptz,
    last_message_at timestamptz,
    received_on date,
    received_today bigint not null default 0,
    received bigint not null default 0,
    entries bigint not null default 0,
    resyncs bigint not null default 0,
    last_resync_seq bigint,
    lag_milliseconds bigint,
    parts json,
    rules_digest text,
    reported_at timestamptz
) with (fillfactor = 30);

comment on table pathmirror.follow is 'Which namespaces follow an upstream, who writes its messages, and how that fares.';

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select, insert, update, delete on pathmirror.follow to pathmirror_gateway;
    end if;
    -- What is read with each namespace; the rest is in the view follow_status.
    if exists (select from pg_roles where rolname = 'pathmirror_reader') then
        grant select (namespace_id, keep_rules) on pathmirror.follow to pathmirror_reader;
    end if;
    if exists (select from pg_roles where rolname = 'pathmirror_writer') then
        grant select (namespace_id, keep_rules) on pathmirror.follow to pathmirror_writer;
    end if;
end
$$;
