-- From now on the newest text of every function and view is in migrations/functions, and migrations change tables only: a
-- file that has changed is applied again. This says which text of each the database has.

create table pathmirror.function_file (
    name text collate "C" primary key,
    -- The SHA-256 of the file that was applied last.
    checksum text not null,
    applied_at timestamptz not null default now()
);

comment on table pathmirror.function_file is 'The files of functions and views, each as it was applied last.';

-- As docs/sql.md says; migration 009 had left them open to everybody.
revoke execute on function
    pathmirror.save_session(bigint, text, uuid, bigint, bigint, boolean, json, json),
    pathmirror.claim_session(bigint, text, uuid, bigint)
    from public;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select on pathmirror.function_file to pathmirror_gateway;
    end if;
end
$$;
