-- What records of mirrors were: for mirrors that keep a history, or rows of records that are gone.

-- These also exist in each other database that has mirrors' tables, made by MirrorTargetSchema.

create table if not exists pathmirror.mirror_version (
    namespace_id bigint not null,
    mirror uuid not null,
    -- The captured keys, joined by /.
    key text collate "C" not null,
    -- The entry that made the record so.
    seq bigint not null,
    at timestamptz,
    -- Who wrote it. Null where nobody knows: the history begins with it.
    uid text,
    is_admin boolean,
    via text,
    -- So the record was when its history began; which entry made it so is not known.
    is_begin boolean not null,
    -- JSON in export form, priorities included; null where the record was gone.
    record text,
    primary key (namespace_id, mirror, key, seq)
);

-- Not by the namespace and mirror first: without statistics PostgreSQL would take it for the newest version of a key.
create index if not exists mirror_version_seq on pathmirror.mirror_version (seq, mirror);

comment on table pathmirror.mirror_version is 'What records of mirrors were that keep it, entry by entry; their tables are made of it.';

-- Where a history begins, and the time of the entry before.
alter table pathmirror.mirror_cursor add column if not exists begins_at_seq bigint,
    add column if not exists begins_at timestamptz;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select, insert, update, delete on pathmirror.mirror_version to pathmirror_gateway;
    end if;
end
$$;
