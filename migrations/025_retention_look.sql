-- How far the oldest partition of a log has been looked through, before it is dropped (pathmirror.look_through_log). Only the owner
-- writes here: what it says lets entries go.
create table pathmirror.retention_look (
    namespace_id bigint primary key,
    -- The partition, its first entry, and up to before which seq each of its entries was looked at.
    relation oid not null,
    begins bigint not null,
    looked_to bigint not null,
    -- When the youngest of these entries was committed.
    newest timestamptz not null
) with (fillfactor = 50);

comment on table pathmirror.retention_look is 'How far the oldest partition of each log has been looked through before it goes.';

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select on pathmirror.retention_look to pathmirror_gateway;
    end if;
    if exists (select from pg_roles where rolname = 'pathmirror_reader') then
        grant select on pathmirror.retention_look to pathmirror_reader;
    end if;
end
$$;

create function pathmirror.refuse_change() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception '% of %.% can''t be changed', tg_argv[0], tg_table_schema, tg_table_name using errcode = '42501';
end
$$;
revoke execute on function pathmirror.refuse_change() from public;

-- The parts of a large write get its seq when it is committed, and keep it. (Behind the update: a trigger before it would have
-- PostgreSQL lock each row first, and log that.)
create trigger seq_stays after update of seq on pathmirror.log_part
    for each row when (old.seq >= 0) execute function pathmirror.refuse_change('seq');
