-- What of each namespace's log stays, and how that went: gateways shorten logs by themselves, as far as an administrator has said.
create table pathmirror.retention (
    -- 0: for all namespaces that have no row of their own.
    namespace_id bigint primary key,
    -- Entries younger than this stay, or else the last so many. Null: by size alone.
    keep_seconds bigint check (keep_seconds > 0),
    keep_entries bigint check (keep_entries >= 0),
    -- What of the log's partitions may stay; older ones go, however young. Null: no bound.
    max_bytes bigint check (max_bytes > 0),
    -- How old the newest snapshot may get before another is taken.
    snapshot_seconds bigint check (snapshot_seconds > 0),
    set_at timestamptz not null default now(),
    check (keep_seconds is null or keep_entries is null),
    check (keep_seconds is not null or keep_entries is not null or max_bytes is not null)
);

comment on table pathmirror.retention is 'What of the log stays: set by administrators, carried out by gateways, which can''t change it.';

create table pathmirror.retention_run (
    namespace_id bigint primary key,
    ran_at timestamptz not null default now(),
    -- Entries that have gone, and snapshots that have been taken, since retention began here.
    dropped bigint not null default 0,
    snapshots bigint not null default 0,
    -- Who still needs entries that would have gone: `mirror orders`.
    waits_for text,
    -- Why the last round did not succeed.
    message text
) with (fillfactor = 50);

comment on table pathmirror.retention_run is 'How the shortening of each namespace''s log went last.';

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select on pathmirror.retention to pathmirror_gateway;
        grant select, insert, update, delete on pathmirror.retention_run to pathmirror_gateway;
    end if;
    if exists (select from pg_roles where rolname = 'pathmirror_reader') then
        grant select on pathmirror.retention, pathmirror.retention_run to pathmirror_reader;
    end if;
end
$$;
