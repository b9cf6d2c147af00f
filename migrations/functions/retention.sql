-- Shortening the log as far as administrators have said that it may be.

-- Drops a piece of what lies before the oldest entry of a namespace that is still retained: one partition, or some thousands of
-- entries. Returns how many entries went; 0 when nothing is left to drop.
--
-- It runs as the owner, so that gateways can shorten logs which they may not rewrite. What goes must be what pathmirror.retention says may go,
-- a snapshot must be there to go on from, and nobody may still need it: whoever calls this can't drop more, whatever
-- else it has written.
create or replace function pathmirror.drop_log(of_namespace bigint) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
-- Taking a partition away waits for everybody who reads or writes the log, and everybody else waits behind it: not for long.
set lock_timeout = '100ms' as $$
declare
    policy pathmirror.retention;
    head bigint;
    needed bigint;
    piece record;
    times record;
    gone bigint;
    parent text;
    oldest bigint;
    shared_end bigint;
    all_bytes bigint := 0;
begin
    select * into policy from pathmirror.retention where namespace_id in (of_namespace, 0) order by namespace_id desc limit 1;
    if not found then
        raise exception 'nobody has said what of the log of namespace % may go', of_namespace using errcode = 'PM004';
    end if;
    select namespace.head, retained_from - 1, shared_to into strict head, needed, shared_end
    from pathmirror.namespace where id = of_namespace;
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

    for piece in
        select relname, first, coalesce(lead(first) over (order by first), (
            select partitioned_to from pathmirror.namespace where id = of_namespace)) as past,
            coalesce(sum(pg_total_relation_size(oid)) over (order by first desc rows between unbounded preceding and 1 preceding), 0)
                as bytes_behind,
            pg_total_relation_size(oid) as bytes
        from (
            select oid, relname, split_part(relname, '_', 3)::bigint as first from pg_class
            where relnamespace = 'pathmirror'::regnamespace and relkind = 'r'
                and relname ~ ('^log_' || of_namespace || '_[0-9]+$')
        ) as mine
        order by first
    loop
        all_bytes := greatest(all_bytes, piece.bytes_behind + piece.bytes);
        continue when piece.past > needed + 1;
        -- All of them are looked at: gateways may append, and one that was taken over could append an entry of long ago as the last.
        execute format('select max(committed_at) as newest from pathmirror.%I', piece.relname) into times;
        continue when not (
            coalesce(piece.bytes_behind >= policy.max_bytes, false)
            or coalesce(piece.past - 1 <= head - policy.keep_entries, false)
            or coalesce(coalesce(times.newest, '-infinity') < clock_timestamp() - policy.keep_seconds * interval '1 second', false));
        select pg_class.relname into parent from pg_inherits join pg_class on pg_class.oid = inhparent
        where inhrelid = ('pathmirror.' || quote_ident(piece.relname))::regclass;
        if found then
            execute format('alter table pathmirror.%I detach partition pathmirror.%I', parent, piece.relname);
        end if;
        execute format('drop table pathmirror.%I', piece.relname);
        delete from pathmirror.log_part where namespace_id = of_namespace and seq < piece.past;
        return piece.past - piece.first;
    end loop;

    -- What is in the tables that namespaces share, a stretch at a time. What is in a partition goes with it.
    needed := least(needed, shared_end - 1);
    select min(seq) into oldest from pathmirror.log where namespace_id = of_namespace and seq <= needed;
    if oldest is null then
        return 0;
    end if;
    with dropped as (
        delete from pathmirror.log
        where namespace_id = of_namespace and seq <= least(needed, oldest + 9999)
            and (
                all_bytes >= policy.max_bytes
                or seq <= head - policy.keep_entries
                or committed_at < clock_timestamp() - policy.keep_seconds * interval '1 second')
        returning seq
    )
    select count(*), max(seq) into gone, oldest from dropped;
    -- Imports' pieces go with their entries.
    delete from pathmirror.log_part where namespace_id = of_namespace and seq <= oldest;
    return gone;
end
$$;

comment on function pathmirror.drop_log(bigint) is
    'Drops a piece of the log that pathmirror.retention says may go and nobody needs; returns how many entries that were.';
