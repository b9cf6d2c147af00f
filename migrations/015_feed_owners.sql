-- Who works a feed, apart from how far it has come: the row of its progress has a new version for each group of acknowledgements, and
-- is found by its id through all those that somebody's snapshot still sees. Gateways look at owners every second, and at progress when
-- they take a feed over.
drop view if exists pathmirror.feed_status;

-- What may be shown of a feed is made from its definition when it is asked for.
alter table pathmirror.feed drop column public_definition;

create table pathmirror.feed_owner (
    namespace_id bigint not null,
    feed bigint not null,
    -- As in feed_progress, whose row decides.
    worker uuid,
    generation bigint not null default 1,
    -- How the feed fares, as its gateway said last.
    state text not null default 'starting',
    message text,
    pending bigint not null default 0,
    held bigint not null default 0,
    reported_at timestamptz,
    primary key (namespace_id, feed)
) with (fillfactor = 30);

comment on table pathmirror.feed_owner is 'Which gateway works each feed, and how it fares.';

insert into pathmirror.feed_owner (namespace_id, feed, worker, generation, state, message, pending, held, reported_at)
select namespace_id, feed, worker, generation, state, message, pending, held, reported_at from pathmirror.feed_progress;

alter table pathmirror.feed_progress
    drop column state, drop column message, drop column pending, drop column held, drop column reported_at;

comment on table pathmirror.feed_progress is 'How far each feed has come, and whose word on that is taken.';

-- Which of its worker's moves was the last: where an older state of the database was put back, the next one does not follow it.
alter table pathmirror.feed_progress add column moves bigint not null default 0;
drop function if exists pathmirror.move_feed(
    bigint, bigint, tid, uuid, bigint, bigint, bigint, uuid, bigint, bytea, bigint, bigint, bigint, bigint, bigint);

-- How long a message is, so that a page of them can be bounded without reading them.
alter table pathmirror.feed_message add column bytes bigint not null default 0;
update pathmirror.feed_message set bytes = octet_length(message::text) where message is not null;
-- Packing large messages takes longer than writing them.
alter table pathmirror.feed_message alter column message set storage external;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select, insert, update, delete on pathmirror.feed_owner to pathmirror_gateway;
    end if;
end
$$;
