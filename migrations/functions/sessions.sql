-- The rows of realtime sessions with onDisconnect operations.

-- Keeps a session's orders. A row is inserted once, by the session's first save, and only updated from then on: a row that
-- is gone has been carried out. Says what became of it:
-- saved; lost (the gateway's lease is over, or it has another connection by now); ended (the session is over).
create or replace function pathmirror.save_session(
    of_namespace bigint, of_session text, by_gateway uuid, by_connection bigint, number bigint, is_first boolean,
    new_orders json, new_auth json
) returns text
language plpgsql as $$
begin
    -- Until this has ended nobody can end the lease, nor the gateway begin to use another connection.
    perform from pathmirror.gateway where id = by_gateway and connection = by_connection for share;
    if not found then
        return 'lost';
    end if;
    -- A namespace that is leaving for another database takes its sessions along: none is saved behind that.
    perform pg_advisory_xact_lock_shared(706174686, hashint8(of_namespace));
    perform from pathmirror.namespace where id = of_namespace;
    if not found then
        return 'ended';
    end if;
    if is_first then
        insert into pathmirror.session (namespace_id, session_id, gateway_id, save, orders, auth)
        values (of_namespace, of_session, by_gateway, number, new_orders, new_auth)
        on conflict (namespace_id, session_id) do nothing;
    else
        update pathmirror.session set save = number, orders = new_orders, auth = new_auth
        where namespace_id = of_namespace and session_id = of_session and gateway_id = by_gateway and save < number;
    end if;
    return case when found then 'saved' else 'ended' end;
end
$$;

-- Takes a session's orders as they were read, or raises PM002: somebody else has taken them, or they have changed since.
-- Without a save, takes them whatever they are.
create or replace function pathmirror.claim_session(
    of_namespace bigint, of_session text, of_gateway uuid, of_save bigint
) returns void
language plpgsql as $$
begin
    delete from pathmirror.session
    where namespace_id = of_namespace and session_id = of_session and gateway_id = of_gateway
        and (of_save is null or save = of_save);
    if not found then
        raise exception 'the session''s orders have been carried out or changed' using errcode = 'PM002';
    end if;
end
$$;

-- Takes a session's orders, or raises PM002 when somebody else has.
create or replace function pathmirror.claim_session(of_namespace bigint, of_session text) returns void
language plpgsql as $$
begin
    delete from pathmirror.session where namespace_id = of_namespace and session_id = of_session;
    if not found then
        raise exception 'the session''s orders have been carried out' using errcode = 'PM002';
    end if;
end
$$;
