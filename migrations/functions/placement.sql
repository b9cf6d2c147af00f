-- Functions that store the database of each namespace. The owner of the schema calls all of them except the check.

-- A transaction that creates a namespace in the primary database, or places it in another one, holds this lock of its name. A
-- namespace is therefore never in two databases.
create or replace function pathmirror.lock_name(of_namespace text) returns void
language sql
set search_path = pg_catalog, pg_temp
begin atomic
    select pg_advisory_xact_lock(hashtextextended(of_namespace, 7061746863));
end;

-- Rejects a namespace that is in another database, or that a move is copying to this one, with PM005. The caller has an outdated
-- list of placements, or none.
create or replace function pathmirror.check_placement() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    other text;
begin
    perform pg_advisory_xact_lock(hashtextextended(new.name, 7061746863));
    select database into other from pathmirror.placement where namespace = new.name;
    if other is not null then
        raise exception 'the namespace "%" lives in the database "%"', new.name, other using errcode = 'PM005';
    end if;
    if exists (select from pathmirror.namespace_copy where namespace = new.name and is_dormant) then
        raise exception 'the namespace "%" is on its way to this database', new.name using errcode = 'PM005';
    end if;
    return new;
end
$$;

create or replace trigger check_placement before insert on pathmirror.namespace
    for each row execute function pathmirror.check_placement();

-- Returns the next version of databases and placements, and announces the changes of the caller with it.
create or replace function pathmirror.next_placement_version() returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    new_version bigint;
begin
    update pathmirror.placement_version set version = version + 1 returning version into strict new_version;
    perform pg_notify('pathmirror_placement', new_version::text);
    return new_version;
end
$$;

-- Places a namespace in a database. Null stands for the primary database. Raises PM005 if the database cannot take the
-- namespace.
create or replace function pathmirror.place(of_namespace text, in_database text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    current_place text;
    target pathmirror.database;
    new_version bigint;
begin
    perform pathmirror.lock_name(of_namespace);
    select database into current_place from pathmirror.placement where namespace = of_namespace;
    if in_database is not distinct from current_place then
        return;
    end if;
    -- The function takes the lock of the version first, like transactions that change a database, to avoid a deadlock.
    new_version := pathmirror.next_placement_version();
    if in_database is not null then
        -- Draining waits for this transaction, or this transaction reads that the database is draining.
        select * into target from pathmirror.database where name = in_database for share;
        if not found then
            raise exception 'there is no database "%"', in_database using errcode = 'PM005';
        end if;
        if target.is_draining then
            raise exception 'the database "%" takes no new namespaces: it is being drained', in_database using errcode = 'PM005';
        end if;
        if current_place is not null then
            raise exception 'the namespace "%" lives in the database "%"', of_namespace, current_place using errcode = 'PM005';
        end if;
        if exists (select from pathmirror.namespace where name = of_namespace) then
            raise exception 'the namespace "%" lives in the home', of_namespace using errcode = 'PM005';
        end if;
    end if;
    insert into pathmirror.placement (namespace, database, version)
    values (of_namespace, in_database, new_version)
    on conflict (namespace) do update set database = excluded.database, version = excluded.version;
end
$$;

comment on function pathmirror.place(text, text) is 'Says in which database a namespace lives, before it is made there.';

-- Places a namespace that has just left its database in another database. Null stands for the primary database.
create or replace function pathmirror.replace_placement(of_namespace text, in_database text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    new_version bigint;
begin
    perform pathmirror.lock_name(of_namespace);
    new_version := pathmirror.next_placement_version();
    if in_database is not null then
        perform from pathmirror.database where name = in_database for share;
        if not found then
            raise exception 'there is no database "%"', in_database using errcode = 'PM005';
        end if;
    end if;
    insert into pathmirror.placement (namespace, database, version)
    values (of_namespace, in_database, new_version)
    on conflict (namespace) do update set database = excluded.database, version = excluded.version;
end
$$;

-- Keeps a namespace in this database until the transaction ends. A move then includes the changes of the administrator, or the
-- function rejects them. Raises PM005 if the namespace is no longer here.
create or replace function pathmirror.hold_namespace(of_namespace bigint) returns void
language plpgsql as $$
begin
    perform from pathmirror.namespace where id = of_namespace for key share;
    if not found then
        raise exception 'the namespace is not in this database any more: try again' using errcode = 'PM005';
    end if;
end
$$;
