-- A role for gateways that is neither a superuser nor the schema's owner: it can write the log and cannot rewrite it.

-- Making a partition needs the owner of the log. This function makes nothing but partitions, named by numbers.
alter function pathmirror.ensure_log_partition(bigint, bigint, bigint)
    security definer set search_path = pg_catalog, pg_temp;

do $$
begin
    if not exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        begin
            create role pathmirror_gateway nologin;
        exception
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then
                raise notice 'role pathmirror_gateway was not created: an administrator can, and grant as docs/sql.md says';
        end;
    end if;
end
$$;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant usage on schema pathmirror to pathmirror_gateway;
        grant select on all tables in schema pathmirror to pathmirror_gateway;
        -- What is never changed: entries, rules, and which entries of other logs have been applied.
        grant insert on pathmirror.log, pathmirror.log_part, pathmirror.rule, pathmirror.replay_applied
            to pathmirror_gateway;
        grant insert, update on pathmirror.namespace to pathmirror_gateway;
        grant insert, update, delete on
            pathmirror.node, pathmirror.gateway, pathmirror.session, pathmirror.import_progress, pathmirror.cursor,
            pathmirror.mirror, pathmirror.mirror_run, pathmirror.mirror_cursor, pathmirror.mirror_error,
            pathmirror.mirror_error_excess, pathmirror.snapshot, pathmirror.snapshot_chunk
            to pathmirror_gateway;
        grant execute on all functions in schema pathmirror to pathmirror_gateway;
    end if;
end
$$;
