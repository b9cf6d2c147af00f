-- Functions for namespaces that follow an upstream. They control which transactions may move the heads of these namespaces.
--
-- A transaction that writes to such a namespace first acquires the right to do so: by follow_batch for messages of the upstream,
-- by follow_rules for rules of an administrator. The row of "follow" then contains the batch of the transaction. The trigger
-- prevents all other batches from moving the head, regardless of the program or function.

-- Returns the ctid of the newest version of a row of "follow". `at` is the ctid of an older version.
create or replace function pathmirror.newest_follow_place(at tid) returns tid
language plpgsql as $$
begin
    return currtid2('pathmirror.follow', at);
exception
    -- The ctid is in a page that no longer exists.
    when invalid_parameter_value then return at;
end
$$;

-- Returns the name of the setting in which a session stores the last known ctid of a namespace's row of "follow". The setting is
-- only a hint. A search by id would read all versions that an open snapshot keeps, one for each batch.
create or replace function pathmirror.follow_place_setting(of_namespace bigint) returns text
language sql immutable parallel safe as $$
    select 'pathmirror.follow_place_' || (of_namespace & 63)::text
$$;

-- Lets this transaction write the messages after `after`, through `upto`, as the batch `new_batch`. Raises PM007 if the
-- namespace has another fence, or if the last message in the log is not `after`.
create or replace function pathmirror.follow_batch(
    of_namespace bigint, of_fence uuid, after bigint, upto bigint, new_batch uuid
) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    setting text := pathmirror.follow_place_setting(of_namespace);
    hint text := current_setting(setting, true);
    at tid := case when hint <> '' then hint::tid end;
    place tid;
    attempts integer := 0;
begin
    while at is not null and attempts < 2 loop
        update pathmirror.follow as known set position = upto, batch = new_batch
        where known.ctid = at and known.namespace_id = of_namespace and known.fence = of_fence and known.position = after
        returning known.ctid into place;
        exit when found;
        at := pathmirror.newest_follow_place(at);
        attempts := attempts + 1;
    end loop;
    if place is null then
        update pathmirror.follow as known set position = upto, batch = new_batch
        where known.namespace_id = of_namespace and known.fence = of_fence and known.position = after
        returning known.ctid into place;
        if not found then
            raise exception 'another gateway follows the upstream of namespace % by now, or message % is not its last one',
                of_namespace, after using errcode = 'PM007';
        end if;
    end if;
    hint := set_config(setting, place::text, false);
end
$$;

-- Lets this transaction write an administrator's rules as the batch `new_batch`. Raises PM006 if the namespace uses the rules of
-- the upstream.
create or replace function pathmirror.follow_rules(of_namespace bigint, new_batch uuid) returns void
language plpgsql as $$
begin
    update pathmirror.follow set batch = new_batch where namespace_id = of_namespace and keep_rules;
    if not found then
        raise exception 'namespace % has the rules of the upstream that it follows', of_namespace
            using errcode = 'PM006', hint = 'Change the rules of the upstream.';
    end if;
end
$$;

-- Rejects a batch that has not acquired this right.
create or replace function pathmirror.check_follow() returns trigger
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    hint text := current_setting(pathmirror.follow_place_setting(new.id), true);
begin
    if new.head = old.head then
        return null;
    end if;
    -- The right covers one move of the head.
    if new.last_batch is distinct from old.last_batch then
        if hint <> '' and exists (
            select from pathmirror.follow as known
            where known.ctid = hint::tid and known.namespace_id = new.id and known.batch = new.last_batch)
        then
            return null;
        end if;
        if exists (
            select from pathmirror.follow as known where known.namespace_id = new.id and known.batch = new.last_batch)
        then
            return null;
        end if;
    end if;
    raise exception 'the namespace follows an upstream database and is read-only'
        using errcode = 'PM006', hint = 'Write to the upstream, or end the following with "pathmirror follow rm".';
end
$$;

-- The trigger runs after the update, because PostgreSQL locks each row first if a trigger runs before the update. PostgreSQL
-- does not call it for other namespaces. PostgreSQL parses the condition for each statement: a comparison of the heads would add
-- a microsecond to each commit.
create or replace trigger check_follow after update of head on pathmirror.namespace
    for each row when (new.is_following) execute function pathmirror.check_follow();

create or replace view pathmirror.follow_status as
select
    namespace.name as namespace,
    follow.upstream,
    follow.keep_rules,
    follow.max_bytes_per_day,
    follow.is_paused,
    follow.created_at,
    case
        when follow.is_paused then 'paused'
        when follow.fence is null or follow.reported_at is null or follow.reported_at < now() - interval '30 seconds' then 'not running'
        else follow.state
    end as state,
    follow.message,
    follow.state_since,
    follow.gateway,
    follow.heartbeat,
    follow.position,
    namespace.head,
    follow.connected_since,
    follow.last_message_at,
    follow.received_on,
    case when follow.received_on = (now() at time zone 'utc')::date then follow.received_today else 0 end as received_today,
    follow.received,
    follow.entries,
    follow.resyncs,
    follow.last_resync_seq,
    follow.lag_milliseconds,
    follow.parts,
    follow.rules_digest,
    follow.reported_at,
    follow.namespace_id
from pathmirror.follow
join pathmirror.namespace on namespace.id = follow.namespace_id and namespace.name not like '.%';

comment on view pathmirror.follow_status is 'Each namespace that follows an upstream, with its status.';
