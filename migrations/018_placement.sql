-- Several databases behind one gateway: which there are, and which namespace lives in which. What the home's tables say counts;
-- those of the other databases are empty, unless they are homes themselves.
create table pathmirror.database (
    name text collate "C" primary key check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$' and name <> 'home'),
    -- As libpq takes them. No user and no password: whoever reads this table is not to learn how to get in.
    host text not null,
    port text,
    dbname text not null,
    -- What that database says of itself: the same one is not added twice.
    installation uuid not null unique,
    -- No namespace is placed there any more.
    is_draining boolean not null default false,
    added_at timestamptz not null default now(),
    -- When the row was changed last, as placement_version counts.
    version bigint not null
);

comment on table pathmirror.database is 'The databases besides the home in which namespaces live.';

create table pathmirror.placement (
    namespace text collate "C" primary key,
    -- Null: it lives in no other database any more, and the home may have it.
    database text collate "C" references pathmirror.database (name),
    version bigint not null
);

comment on table pathmirror.placement is 'In which database a namespace lives; one without a row lives in the home.';

-- What has changed since a gateway looked last is found by the version.
create index on pathmirror.placement (version);

create table pathmirror.placement_version (
    id boolean primary key default true check (id),
    -- Whoever changes databases or placements holds this row's lock until commit, so that versions become visible in their order.
    version bigint not null
);

comment on table pathmirror.placement_version is 'How often databases and placements were changed.';

insert into pathmirror.placement_version (version) values (0);

-- A gateway that finds a namespace of its own gone looks here whether that was meant, or whether the database has lost something.
create table pathmirror.former_namespace (
    id bigint primary key,
    name text collate "C" not null,
    stream_key uuid not null,
    removed_at timestamptz not null default now()
);

comment on table pathmirror.former_namespace is 'Namespaces that were removed from this database on purpose.';

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select on pathmirror.database, pathmirror.placement, pathmirror.placement_version, pathmirror.former_namespace
            to pathmirror_gateway;
    end if;
    if exists (select from pg_roles where rolname = 'pathmirror_reader') then
        grant select on pathmirror.database, pathmirror.placement, pathmirror.placement_version, pathmirror.former_namespace
            to pathmirror_reader;
    end if;
end
$$;
