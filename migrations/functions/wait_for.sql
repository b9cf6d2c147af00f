-- The function that waits for mirrors.

-- Waits until the mirrors of the namespace in this database, or only the named mirror, have reached a seq (default: the current
-- head). Returns the seq that all of them have reached.
create or replace function pathmirror.wait_for(
    namespace text, seq bigint default null, timeout interval default '30 seconds', mirror text default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_namespace bigint := pathmirror.namespace_id(namespace);
    deadline timestamptz := clock_timestamp() + timeout;
    pause double precision := 0.001;
    wanted bigint := seq;
    head_now bigint;
    behind text;
    reached bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'wait_for sees nothing new in a % transaction: call it before', current_setting('transaction_isolation')
            using errcode = 'invalid_transaction_state';
    end if;
    if mirror is not null and not exists (
        select from pathmirror.mirror as known
        where known.namespace_id = of_namespace and known.name = wait_for.mirror and known.target is null)
    then
        raise exception 'namespace "%" has no mirror "%" in this database', namespace, mirror using errcode = 'no_data_found';
    end if;
    loop
        select head into head_now from pathmirror.namespace where id = of_namespace;
        wanted := coalesce(wanted, head_now);
        select min(coalesce(own.seq, -1)),
            string_agg(format('%s (at %s)', known.name, coalesce(own.seq::text, 'its beginning')), ', ')
                filter (where coalesce(own.seq, -1) < wanted)
        into reached, behind
        from pathmirror.mirror as known
        left join pathmirror.mirror_cursor as own
            on own.namespace_id = known.namespace_id and own.mirror = known.id
        where known.namespace_id = of_namespace and known.target is null
            and (wait_for.mirror is null or known.name = wait_for.mirror);
        reached := least(coalesce(reached, head_now), head_now);
        if reached >= wanted then
            return reached;
        elsif clock_timestamp() >= deadline then
            raise exception 'not at seq % within %: %', wanted, timeout,
                case when head_now < wanted then format('the head is %s', head_now) else 'behind are ' || behind end
                using errcode = 'PM003';
        end if;
        perform pg_sleep(least(pause, greatest(0, extract(epoch from deadline - clock_timestamp()))));
        pause := least(pause * 2, 0.05);
    end loop;
end
$$;

comment on function pathmirror.wait_for(text, bigint, interval, text) is
    'Waits until the mirrors have come to a seq; raises PM003 when they have not in time. A statement of its own.';
