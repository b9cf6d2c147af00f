-- Namespaces that follow an upstream: a database of Firebase, or another Pathmirror. One gateway at a time writes the messages of
-- the upstream to the log. All other clients only read.

alter table pathmirror.namespace add column is_following boolean not null default false;

comment on column pathmirror.namespace.is_following is 'True if the namespace follows an upstream. Then only its follower writes to it.';

create table pathmirror.follow (
    namespace_id bigint primary key,
    upstream text not null,
    -- The kind of the credentials and the name of their file; never a secret.
    credentials json not null,
    -- True if the namespace keeps rules of its own instead of the upstream's.
    keep_rules boolean not null default false,
    max_bytes_per_day bigint check (max_bytes_per_day > 0),
    is_paused boolean not null default false,
    created_at timestamptz not null default now(),
    -- The claim under which messages are committed; null if no gateway follows. The gateway increments the heartbeat.
    fence uuid,
    gateway text,
    heartbeat bigint not null default 0,
    -- The number of the last committed message under the fence.
    position bigint not null default 0,
    -- The batch that may move the head: the follower's last one, or a batch with an administrator's rules.
    batch uuid,
    -- The last status that the gateway reported.
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

comment on table pathmirror.follow is 'Namespaces that follow an upstream, with the claim of the gateway that follows and its last status.';

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select, insert, update, delete on pathmirror.follow to pathmirror_gateway;
    end if;
    -- Readers of a namespace need these columns; the view follow_status shows the others.
    if exists (select from pg_roles where rolname = 'pathmirror_reader') then
        grant select (namespace_id, keep_rules) on pathmirror.follow to pathmirror_reader;
    end if;
    if exists (select from pg_roles where rolname = 'pathmirror_writer') then
        grant select (namespace_id, keep_rules) on pathmirror.follow to pathmirror_writer;
    end if;
end
$$;
