-- Functions for the rows of realtime sessions with onDisconnect operations.

-- Stores the onDisconnect operations of a session. The first save of the session inserts the row, and later saves only update
-- it. If the row no longer exists, a gateway has already executed the operations. Returns saved, lost (the gateway's lease has
-- ended, or the gateway uses another connection) or ended (the session has ended).
create or replace function pathmirror.save_session(
    of_namespace bigint, of_session text, by_gateway uuid, by_connection bigint, number bigint, is_first boolean,
    new_orders json, new_auth json
) returns text
language plpgsql as $$
begin
    -- Until this transaction ends, no other transaction can end the lease, and the gateway cannot begin to use another
    -- connection.
    perform from pathmirror.gateway where id = by_gateway and connection = by_connection for share;
    if not found then
        return 'lost';
    end if;
    -- A move copies the sessions of a namespace to the other database, and prevents later saves here.
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

-- Takes a session's operations in the version `of_save`, or in any version if `of_save` is null. Raises PM002 if another
-- transaction has taken or changed them.
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

-- Takes a session's operations. Raises PM002 if another transaction has taken them.
create or replace function pathmirror.claim_session(of_namespace bigint, of_session text) returns void
language plpgsql as $$
begin
    delete from pathmirror.session where namespace_id = of_namespace and session_id = of_session;
    if not found then
        raise exception 'the session''s orders have been carried out' using errcode = 'PM002';
    end if;
end
$$;
