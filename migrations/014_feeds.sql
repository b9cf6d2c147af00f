-- Durable change feeds: what they are, how far they have come, which gateway works them, and the messages that are not simply
-- done in order.

create table pathmirror.feed (
    namespace_id bigint not null,
    id bigint generated always as identity,
    name text collate "C" not null,
    -- As it was applied last, with secrets: not for readers.
    definition json not null,
    -- What may be shown of it.
    public_definition json not null,
    -- Counted up whenever something about the feed has changed.
    revision bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (namespace_id, id),
    unique (namespace_id, name)
);

comment on table pathmirror.feed is 'The durable change feeds that exist, each as its definition.';

create table pathmirror.feed_progress (
    namespace_id bigint not null,
    feed bigint not null,
    -- Which gateway works the feed, by its row of feed_worker; and the number of this ownership: whatever comes under another
    -- number is not taken.
    worker uuid,
    generation bigint not null default 1,
    -- All messages up to this place are done: of the entries up to seq, and the first so many of the entry behind it.
    seq bigint not null,
    index bigint not null default 0,
    -- The batch of the entry at seq, by which histories are told apart.
    batch uuid,
    -- The entry whose tree is the snapshot that the feed begins with, while its messages are not all done.
    snapshot_seq bigint,
    -- Messages behind the place that are done, too: ranges of places.
    done bytea,
    -- Messages of entries behind this one have been handed to nobody.
    handed_to bigint not null,
    -- Counted since the feed was made.
    delivered bigint not null default 0,
    acknowledged bigint not null default 0,
    redelivered bigint not null default 0,
    -- How it fares, as its gateway said last.
    state text not null default 'starting',
    message text,
    pending bigint not null default 0,
    held bigint not null default 0,
    read_to bigint not null default 0,
    moved_at timestamptz not null default now(),
    reported_at timestamptz,
    primary key (namespace_id, feed)
) with (fillfactor = 30);

comment on table pathmirror.feed_progress is 'How far each feed has come, and which gateway works it.';

create table pathmirror.feed_message (
    namespace_id bigint not null,
    feed bigint not null,
    seq bigint not null,
    -- The message's number among those of its entry; of a snapshot's tree, where is_snapshot says so.
    index bigint not null,
    is_snapshot boolean not null,
    key text collate "C" not null,
    -- failing: to be delivered again, from the log. dead: after its last attempt. blocked: set aside behind a dead one of its key.
    -- retry: to be delivered once more, from here.
    state text not null,
    attempts integer not null,
    -- [{"time": …, "attempt": 1, "reason": …}, …], the newest last.
    errors json not null,
    -- The message as consumers see it, without its attempt; null while it is failing.
    message json,
    since timestamptz not null default now(),
    primary key (namespace_id, feed, seq, index, is_snapshot)
);

comment on table pathmirror.feed_message is 'Messages of feeds that failed: dead letters, and those that are tried again.';

create table pathmirror.feed_worker (
    id uuid primary key,
    -- Counted up while the gateway lives. Others watch it by their own clocks: seen_at is for people only.
    beat bigint not null default 1,
    -- Where other gateways reach it, such as http://10.0.0.5:9000.
    address text not null,
    seen_at timestamptz not null default now()
) with (fillfactor = 30);

comment on table pathmirror.feed_worker is 'Gateways that work feeds. Whoever finds its row gone works none any more.';

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select, insert, update, delete on
            pathmirror.feed, pathmirror.feed_progress, pathmirror.feed_message, pathmirror.feed_worker
            to pathmirror_gateway;
    end if;
end
$$;
