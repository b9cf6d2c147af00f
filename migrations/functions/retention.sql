-- Functions that shorten the log as far as administrators permit.

-- Drops one partition, or some thousands of entries, before the oldest retained entry of a namespace. Returns the number of
-- dropped entries, or 0 if none remain to drop.
--
-- The function runs as the owner, so that gateways can shorten logs that they may not rewrite. It drops only entries that
-- pathmirror.retention permits and that no reader needs, and only if a snapshot can replace them. Callers cannot drop more,
-- regardless of what they have written. The function requires an isolation level that reads the current log, because it drops
-- the current entries of a table.
create or replace function pathmirror.drop_log(of_namespace bigint) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- Detaching a partition waits for all readers and writers of the log, and all later ones wait for it. The timeout limits this
-- wait.
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
    -- The retention of a moving namespace is known only after the move.
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
    -- Gateways can change the head, but they cannot make entries appear, so the function uses the last entry.
    select least(head, max(seq)) into head from pathmirror.log where namespace_id = of_namespace;
    if not exists (select from pathmirror.snapshot where namespace_id = of_namespace and seq = needed) then
        raise exception 'namespace % has no snapshot at seq %', of_namespace, needed using errcode = 'PM004';
    end if;
    if exists (select from pathmirror.log_cursor where namespace_id = of_namespace and seq < needed) then
        raise exception 'the log of namespace % is still needed', of_namespace using errcode = 'PM004';
    end if;

    -- Only the oldest partition is a candidate. If it must stay, all younger ones must stay, too.
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
            -- This check comes before the lock, so that other transactions do not wait for a partition that must stay.
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
        -- The lock prevents new entries in the examined partition. Writers of other partitions do not wait for it.
        execute format('lock table only pathmirror.%I in share row exclusive mode', piece.relname);
        -- Gateways can change the end of the last partition.
        execute format('select not exists (select from pathmirror.%I where namespace_id = $1 and seq >= $2)', piece.relname)
            into is_right using of_namespace, piece.past;
        exit when not is_right;
        if is_large and not is_empty then
            -- A manual prune may have run since the first check.
            select * into look from pathmirror.retention_look where namespace_id = of_namespace and relation = piece.relation;
            exit when not found or look.looked_to < piece.past;
        end if;
        if is_large then
            -- The examined range had no gaps, so gateways cannot have added entries there since.
            execute format('select not exists (select from pathmirror.%I where namespace_id = $1 and seq < $2)', piece.relname)
                into is_right using of_namespace, look.begins;
            exit when not is_right;
            newest := look.newest;
        elsif by_age then
            -- The function reads all entries, because gateways may append: a compromised gateway could append an entry with an
            -- old time as the last one.
            execute format('select coalesce(max(committed_at), ''-infinity'') from pathmirror.%I', piece.relname) into newest;
        end if;
        exit when by_age and newest >= clock_timestamp() - policy.keep_seconds * interval '1 second';
        -- The function deletes the parts of imports with their entries. It does so before it detaches the table, because other
        -- transactions wait from then on.
        execute format('delete from pathmirror.log_part as part where part.namespace_id = $1 and part.seq >= $2 and part.seq < $3 '
            'and exists (select from pathmirror.%I as entry where entry.namespace_id = $1 and entry.seq = part.seq)', piece.relname)
            using of_namespace, piece.first, piece.past;
        delete from pathmirror.retention_look where namespace_id = of_namespace;
        select pg_class.relname as name, inhdetachpending as is_begun into parent
        from pg_inherits join pg_class on pg_class.oid = inhparent where inhrelid = piece.relation;
        if found then
            -- A manual prune may have been interrupted.
            execute format('alter table pathmirror.%I detach partition pathmirror.%I', parent.name, piece.relname)
                || case when parent.is_begun then ' finalize' else '' end;
        end if;
        execute format('drop table pathmirror.%I', piece.relname);
        return piece.past - piece.first;
    end loop;

    -- The function deletes entries of the shared tables in batches. The loop above drops the entries of a partition with it.
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

-- Examines a range of the oldest partition before the oldest retained entry of a namespace, and checks that its entries are old
-- enough to drop. pathmirror.drop_log drops a partition with more than a million entries only after this function has examined
-- it completely. Returns whether the caller should call it again.
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
    -- A manual deletion of entries deletes the results of examinations, and waits for running ones.
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
        -- The first entries may already be deleted.
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
        -- The next call examines entries again if they are too young, or if the range has gaps, because a gateway could add
        -- entries there.
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

-- Raises an error. Triggers call it for columns that must not change.
create or replace function pathmirror.refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '% of %.% can''t be changed', tg_argv[0], tg_table_schema, tg_table_name using errcode = '42501';
end
$$;

-- The parts of a large write get its seq at the commit, and then keep it. The trigger runs after the update, because PostgreSQL
-- locks each row first, and logs the lock, if a trigger runs before the update.
create or replace trigger seq_stays after update of seq on pathmirror.log_part
    for each row when (old.seq >= 0) execute function pathmirror.refuse_change('seq');
