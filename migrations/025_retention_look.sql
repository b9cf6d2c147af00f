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
