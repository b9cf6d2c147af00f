-- Which database has which namespace. All of it is called by the schema's owner, but for the check.

-- Whoever makes a namespace in the home, or places one elsewhere, holds this lock of its name: so it is never in two databases.
create or replace function pathmirror.lock_name(of_namespace text) returns void
language sql
set search_path = pg_catalog, pg_temp
begin atomic
    select pg_advisory_xact_lock(hashtextextended(of_namespace, 7061746863));
end;

-- Refuses a namespace that lives in another database, or is on its way here: raises PM005. Whoever asks for it has an old list of
-- placements, or none.
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

-- The next version of databases and placements. Its caller's changes are announced with it.
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

-- Says that a namespace lives in a database from now on; null: in none but the home. Raises PM005 where it can't be.
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
    -- Its lock first, as whoever changes a database takes it: else each could wait for the other.
    new_version := pathmirror.next_placement_version();
    if in_database is not null then
        -- Draining waits until this is done, or this sees that it drains.
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

-- Says that a namespace lives in a database from now on, wherever it was: it has just left there. Null: in the home.
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

-- Keeps a namespace in this database until the transaction ends: what administrators change of it goes along with it, or is
-- refused. Raises PM005 where it is not here any more.
create or replace function pathmirror.hold_namespace(of_namespace bigint) returns void
language plpgsql as $$
begin
    perform from pathmirror.namespace where id = of_namespace for key share;
    if not found then
        raise exception 'the namespace is not in this database any more: try again' using errcode = 'PM005';
    end if;
end
$$;
