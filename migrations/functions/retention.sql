-- Shortening the log as far as administrators have said that it may be.

-- Drops a piece of what lies before the oldest entry of a namespace that is still retained: one partition, or some thousands of
-- entries. Returns how many entries went; 0 when nothing is left to drop.
--
-- It runs as the owner, so that gateways can shorten logs which they may not rewrite. What goes must be what pathmirror.retention says may go,
-- a snapshot must be there to go on from, and nobody may still need it: whoever calls this can't drop more, whatever
-- else it has written. Nor may it see the log as of an earlier moment: dropping a table takes what is in it now.
create or replace function pathmirror.drop_log(of_namespace bigint) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- Taking a partition away waits for everybody who reads or writes the log, and everybody else waits behind it: not for long.
set lock_timeout = '100ms' as $$
declare
    policy pathmirror.retention;
    look pathmirror.retention_look;
    head bigint;
    needed bigint;
    piece record;
    by_age boolean;
    is_large boolean;
    is_empty boolean := false;
    newest timestamptz;
    is_right boolean;
    parent record;
    gone bigint;
    oldest bigint;
    all_bytes bigint := 0;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'the log can''t be shortened in a % transaction', current_setting('transaction_isolation')
            using errcode = '25001';
    end if;
    -- What is to be kept of it is known once it lives there.
    if exists (select from pathmirror.namespace_copy where namespace_id = of_namespace and is_dormant) then
        raise exception 'namespace % is being moved here', of_namespace using errcode = 'PM004';
    end if;
    select * into policy from pathmirror.retention where namespace_id in (of_namespace, 0) order by namespace_id desc limit 1;
    if not found then
        raise exception 'nobody has said what of the log of namespace % may go', of_namespace using errcode = 'PM004';
    end if;
    select namespace.head, retained_from - 1 into strict head, needed from pathmirror.namespace where id = of_namespace;
    if needed = 0 then
        return 0;
    end if;
    -- Gateways can write the head, but not make entries of nothing.
    select least(head, max(seq)) into head from pathmirror.log where namespace_id = of_namespace;
    if not exists (select from pathmirror.snapshot where namespace_id = of_namespace and seq = needed) then
        raise exception 'namespace % has no snapshot at seq %', of_namespace, needed using errcode = 'PM004';
    end if;
    if exists (select from pathmirror.log_cursor where namespace_id = of_namespace and seq < needed) then
        raise exception 'the log of namespace % is still needed', of_namespace using errcode = 'PM004';
    end if;

    -- The oldest partition: where it may not go, no younger one may.
    for piece in
        select relation, relname, first, coalesce(lead(first) over (order by first), (
            select partitioned_to from pathmirror.namespace where id = of_namespace)) as past,
            coalesce(sum(bytes) over (order by first desc rows between unbounded preceding and 1 preceding), 0) as bytes_behind,
            bytes
        from (
            select oid as relation, relname, split_part(relname, '_', 3)::bigint as first,
                case when policy.max_bytes is null then 0 else pg_total_relation_size(oid) end as bytes
            from pg_class
            where relnamespace = 'pathmirror'::regnamespace and relkind = 'r'
                and relname ~ ('^log_' || of_namespace || '_[0-9]+$')
        ) as mine
        order by first limit 1
    loop
        all_bytes := piece.bytes_behind + piece.bytes;
        exit when piece.past > needed + 1;
        by_age := not (coalesce(piece.bytes_behind >= policy.max_bytes, false)
            or coalesce(piece.past - 1 <= head - policy.keep_entries, false));
        exit when by_age and policy.keep_seconds is null;
        is_large := by_age and piece.past - piece.first > 1000000;
        if is_large then
            -- Asked first: nobody is to wait for what can't go yet.
            execute format('select not exists (select from pathmirror.%I)', piece.relname) into is_empty;
            if not is_empty then
                select * into look from pathmirror.retention_look where namespace_id = of_namespace and relation = piece.relation;
                exit when not found or look.looked_to < piece.past;
            else
                look := (of_namespace, piece.relation, piece.past, piece.past, '-infinity');
            end if;
        end if;
        if by_age and not is_large then
            execute format('select coalesce(max(committed_at), ''-infinity'') from pathmirror.%I', piece.relname) into newest;
            exit when newest >= clock_timestamp() - policy.keep_seconds * interval '1 second';
        end if;
        -- Nobody adds an entry to what is being looked at. (Those who write elsewhere in the log don't wait for this.)
        execute format('lock table only pathmirror.%I in share row exclusive mode', piece.relname);
        -- Gateways can write where the last partition ends.
        execute format('select not exists (select from pathmirror.%I where namespace_id = $1 and seq >= $2)', piece.relname)
            into is_right using of_namespace, piece.past;
        exit when not is_right;
        if is_large and not is_empty then
            -- A prune by hand may have come in between.
            select * into look from pathmirror.retention_look where namespace_id = of_namespace and relation = piece.relation;
            exit when not found or look.looked_to < piece.past;
        end if;
        if is_large then
            -- What was looked at was whole, so that nothing could be added there since.
            execute format('select not exists (select from pathmirror.%I where namespace_id = $1 and seq < $2)', piece.relname)
                into is_right using of_namespace, look.begins;
            exit when not is_right;
            newest := look.newest;
        elsif by_age then
            -- All of its entries are looked at: gateways may append, and one that was taken over could append an entry of long
            -- ago as the last.
            execute format('select coalesce(max(committed_at), ''-infinity'') from pathmirror.%I', piece.relname) into newest;
        end if;
        exit when by_age and newest >= clock_timestamp() - policy.keep_seconds * interval '1 second';
        -- Imports' pieces go with their entries; before the table is taken away, as everybody waits from then on.
        execute format('delete from pathmirror.log_part as part where part.namespace_id = $1 and part.seq >= $2 and part.seq < $3 '
            'and exists (select from pathmirror.%I as entry where entry.namespace_id = $1 and entry.seq = part.seq)', piece.relname)
            using of_namespace, piece.first, piece.past;
        delete from pathmirror.retention_look where namespace_id = of_namespace;
        select pg_class.relname as name, inhdetachpending as is_begun into parent
        from pg_inherits join pg_class on pg_class.oid = inhparent where inhrelid = piece.relation;
        if found then
            -- A prune by hand may have been cut short.
            execute format('alter table pathmirror.%I detach partition pathmirror.%I', parent.name, piece.relname)
                || case when parent.is_begun then ' finalize' else '' end;
        end if;
        execute format('drop table pathmirror.%I', piece.relname);
        return piece.past - piece.first;
    end loop;

    -- What is in the tables that namespaces share, a stretch at a time. What is in a partition goes with it.
    select min(seq) into oldest from pathmirror.log_begin where namespace_id = of_namespace and seq <= needed;
    if oldest is null then
        return 0;
    end if;
    with dropped as (
        delete from pathmirror.log_begin
        where namespace_id = of_namespace and seq <= least(needed, oldest + 9999)
            and (
                all_bytes >= policy.max_bytes
                or seq <= head - policy.keep_entries
                or committed_at < clock_timestamp() - policy.keep_seconds * interval '1 second')
        returning seq
    ), parts as (
        delete from pathmirror.log_part using dropped where log_part.namespace_id = of_namespace and log_part.seq = dropped.seq
    )
    select count(*) into gone from dropped;
    return gone;
end
$$;

comment on function pathmirror.drop_log(bigint) is
    'Drops a piece of the log that pathmirror.retention says may go and nobody needs; returns how many entries that were.';

-- Looks at a stretch of the oldest partition that lies before the oldest entry of a namespace that is still retained: whether all of
-- it is old enough to go. pathmirror.drop_log drops a partition of more than a million entries when it has been looked
-- through. Returns whether to call it again.
create or replace function pathmirror.look_through_log(of_namespace bigint) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
declare
    started timestamptz := clock_timestamp();
    young timestamptz;
    piece record;
    look pathmirror.retention_look;
    entries bigint;
    newest timestamptz;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'the log can''t be shortened in a % transaction', current_setting('transaction_isolation')
            using errcode = '25001';
    end if;
    -- Who deletes entries by hand forgets looks, and waits for those under way.
    lock table pathmirror.retention_look in row exclusive mode;
    if exists (select from pathmirror.namespace_copy where namespace_id = of_namespace and is_dormant) then
        return false;
    end if;
    select started - keep_seconds * interval '1 second' into young from pathmirror.retention
    where namespace_id in (of_namespace, 0) order by namespace_id desc limit 1;
    if young is null then
        return false;
    end if;
    select relation, relname, first, coalesce(lead(first) over (order by first), partitioned_to) as past, retained_from into piece
    from (
        select oid as relation, relname, split_part(relname, '_', 3)::bigint as first from pg_class
        where relnamespace = 'pathmirror'::regnamespace and relkind = 'r' and relname ~ ('^log_' || of_namespace || '_[0-9]+$')
    ) as mine, pathmirror.namespace
    where namespace.id = of_namespace
    order by first limit 1;
    if not found or piece.past > piece.retained_from or piece.past - piece.first <= 1000000 then
        return false;
    end if;
    select * into look from pathmirror.retention_look where namespace_id = of_namespace and relation = piece.relation;
    if not found then
        -- The first ones may have been deleted.
        execute format('select min(seq) from pathmirror.%I where namespace_id = $1', piece.relname) into look.begins using of_namespace;
        if look.begins is null then
            return false;
        end if;
        look := (of_namespace, piece.relation, look.begins, look.begins, '-infinity');
    end if;
    if look.looked_to >= piece.past then
        return false;
    end if;
    loop
        execute format('select count(*), max(committed_at) from pathmirror.%I where namespace_id = $1 and seq >= $2 and seq < $3',
            piece.relname) into entries, newest using of_namespace, look.looked_to, least(look.looked_to + 50000, piece.past);
        -- What is too young is looked at again the next time; and so is what is not whole, as there an entry could be added.
        if newest >= young or entries < least(look.looked_to + 50000, piece.past) - look.looked_to then
            newest := null;
            exit;
        end if;
        look.newest := greatest(look.newest, newest);
        look.looked_to := look.looked_to + entries;
        exit when look.looked_to >= piece.past or clock_timestamp() not between started and started + interval '1 second';
    end loop;
    insert into pathmirror.retention_look values (look.*)
    on conflict (namespace_id) do update set relation = excluded.relation, begins = excluded.begins, looked_to = excluded.looked_to,
        newest = excluded.newest;
    return newest is not null;
end
$$;

comment on function pathmirror.look_through_log(bigint) is
    'Looks whether all entries of the oldest large partition may go; returns whether to call it again.';

-- What triggers call, of what may not be changed.
create or replace function pathmirror.refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '% of %.% can''t be changed', tg_argv[0], tg_table_schema, tg_table_name using errcode = '42501';
end
$$;

-- The parts of a large write get its seq when it is committed, and keep it. The trigger acts after the update: one before it would make
-- PostgreSQL lock each row first, and log that.
create or replace trigger seq_stays after update of seq on pathmirror.log_part
    for each row when (old.seq >= 0) execute function pathmirror.refuse_change('seq');
