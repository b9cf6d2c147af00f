-- Unique indexes of mirrors: records whose values another row has, and values that came free.

-- These also exist in each other database that has mirrors' tables, made by MirrorTargetSchema.

create table if not exists pathmirror.mirror_waiting (
    namespace_id bigint not null,
    mirror uuid not null,
    generation bigint not null,
    -- The captured keys, joined by /.
    key text collate "C" not null,
    -- For which of the unique indexes it waits, and for which values there.
    slot smallint not null,
    hash bigint not null,
    -- The row that it would have.
    made jsonb not null,
    primary key (namespace_id, mirror, generation, key)
);

create index if not exists mirror_waiting_hash on pathmirror.mirror_waiting (namespace_id, mirror, generation, slot, hash, key);

comment on table pathmirror.mirror_waiting is 'Records without a row, as another row has the values that a unique index allows once.';

create table if not exists pathmirror.mirror_freed (
    namespace_id bigint not null,
    mirror uuid not null,
    generation bigint not null,
    slot smallint not null,
    hash bigint not null,
    primary key (namespace_id, mirror, generation, slot, hash)
);

comment on table pathmirror.mirror_freed is 'Values of unique indexes that came free, and for which records wait that have not been looked at since.';

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select, insert, update, delete on pathmirror.mirror_waiting, pathmirror.mirror_freed to pathmirror_gateway;
    end if;
end
$$;
