-- Namespaces that move from one database to another while they are written to.

-- What moves; only the home's table has rows.
create table pathmirror.namespace_move (
    namespace text collate "C" primary key,
    -- Tells this move from all others: the copy and what the source notes at the end carry it.
    id uuid not null unique default gen_random_uuid(),
    -- Names of databases; home for the home.
    source text collate "C" not null,
    target text collate "C" not null,
    -- The namespace as the source has it: an id may be given once more where a database goes back to a backup, a key may not.
    source_id bigint not null,
    stream_key uuid not null,
    -- True once the home says that it lives in the target: only the source is to be cleared up.
    has_left boolean not null default false,
    began_at timestamptz not null default now()
);

comment on table pathmirror.namespace_move is 'Namespaces that are being moved to another database.';

-- The copies that this database has of namespaces that move here, or came here so.
create table pathmirror.namespace_copy (
    namespace_id bigint primary key,
    namespace text collate "C" not null,
    move uuid not null,
    source text collate "C" not null,
    source_id bigint not null,
    stream_key uuid not null,
    -- Until the source has let it go: its name is .moving/ and its own then, and nobody works on it.
    is_dormant boolean not null default true,
    -- Made for each attempt to leave, and noted by the source when it lets go: the copy with it is the one that has all.
    farewell uuid,
    made_at timestamptz not null default now()
);

comment on table pathmirror.namespace_copy is 'Copies of namespaces that move to this database, or came here so.';

-- Where it went and by which move, if it was not removed for good, with its head then, and what the copy that has all of it says.
alter table pathmirror.former_namespace add column head bigint, add column moved_to text, add column move uuid,
    add column farewell uuid;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select on pathmirror.namespace_move, pathmirror.namespace_copy to pathmirror_gateway;
    end if;
    if exists (select from pg_roles where rolname = 'pathmirror_reader') then
        grant select on pathmirror.namespace_move, pathmirror.namespace_copy to pathmirror_reader;
    end if;
end
$$;
