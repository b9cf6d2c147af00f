-- Service accounts: servers that sign in with a private key and receive access tokens. The database has the public keys only. Only the
-- tables of the primary database count.

create table pathmirror.service_account (
    uid uuid primary key default gen_random_uuid(),
    name text collate "C" not null unique check (name ~ '^[a-z][a-z0-9-]{0,62}$'),
    role text not null check (role in ('admin', 'viewer')),
    -- Null: all namespaces.
    namespaces text[] check (cardinality(namespaces) > 0),
    -- The address of the token endpoint in the account's file, which its assertions name.
    token_uri text not null,
    created_at timestamptz not null default now()
);

comment on table pathmirror.service_account is 'Service accounts, with their rights.';

create table pathmirror.service_account_key (
    -- Random.
    id text collate "C" primary key check (id ~ '^[0-9a-f]{40}$'),
    account uuid not null references pathmirror.service_account (uid) on delete cascade,
    -- A SubjectPublicKeyInfo in DER.
    public_key bytea not null,
    created_at timestamptz not null default now(),
    -- From this time on the key is invalid. Null: no end.
    ends_at timestamptz
);

comment on table pathmirror.service_account_key is 'The public keys of service accounts.';

create index on pathmirror.service_account_key (account);

create table pathmirror.service_account_audit (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    action text not null check (action in ('create', 'rotate', 'rm')),
    account uuid not null,
    name text collate "C" not null,
    role text not null,
    namespaces text[],
    -- The id of the new key.
    key text,
    -- The role of PostgreSQL that made the change, and its address. Null for a Unix socket.
    actor name not null default session_user,
    address inet default inet_client_addr()
);

comment on table pathmirror.service_account_audit is 'Every change of service accounts by a command. Rows are never changed.';

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select on pathmirror.service_account, pathmirror.service_account_key, pathmirror.service_account_audit
            to pathmirror_gateway;
    end if;
end
$$;
