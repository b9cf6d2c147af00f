-- Namespaces that move from one database to another while they are written to; only the home's table has rows.
create table pathmirror.namespace_move (
    namespace text collate "C" primary key,
    -- Names of databases; home for the home.
    source text collate "C" not null,
    target text collate "C" not null,
    -- The namespace's id there. The target's is known once there is a copy.
    source_id bigint not null,
    target_id bigint,
    -- True once the home says that it lives in the target: only the source is to be cleared up.
    has_left boolean not null default false,
    began_at timestamptz not null default now()
);

comment on table pathmirror.namespace_move is 'Namespaces that are being moved to another database.';

-- Where it went, if it was not removed for good, and what was at its head then: whether a copy has all of it.
alter table pathmirror.former_namespace add column head bigint, add column last_batch uuid, add column moved_to text;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select on pathmirror.namespace_move to pathmirror_gateway;
    end if;
    if exists (select from pg_roles where rolname = 'pathmirror_reader') then
        grant select on pathmirror.namespace_move to pathmirror_reader;
    end if;
end
$$;
