-- Namespaces share the tables that the beginnings of their logs are in. Until now each had a partition of its own from its
-- making on, so that making one took a table, an index and a TOAST table, and every statement on the log got slower with
-- the number of namespaces.
--
--     log                     as before: partitions log_<namespace>_<first seq> of the namespaces that were there before this
--       log_tiered            all namespaces made from now on
--         log_begin           their seqs below 65,536, in eight tables by the namespace's hash
--         log_rest            what is beyond: partitions log_<namespace>_<first seq>, made ahead of need
--
-- Namespaces that have partitions keep them: nothing is copied, nothing is scanned.

-- Nobody makes a namespace between the look for the last one and the end of this. (The lock that the changes need, at once:
-- raising a lower one to it could meet a writer who does the same.)
lock table pathmirror.namespace in access exclusive mode;

alter table pathmirror.namespace add column shared_to bigint not null default 0;
alter table pathmirror.namespace
    alter column shared_to set default 65536,
    -- There is somewhere to write to without anything being made.
    alter column partitioned_to set default 65536;

comment on column pathmirror.namespace.shared_to is 'Seqs below this are in the tables that namespaces share.';

create table pathmirror.log_tiered (
    like pathmirror.log including defaults including constraints, primary key (namespace_id, seq)
) partition by range (seq);

comment on table pathmirror.log_tiered is 'The log of the namespaces that share tables: log_begin and, beyond it, log_rest.';

create table pathmirror.log_begin partition of pathmirror.log_tiered
    for values from (minvalue) to (65536) partition by hash (namespace_id);

comment on table pathmirror.log_begin is 'The first 65,536 seqs of each namespace''s log, in tables that namespaces share.';

create table pathmirror.log_rest partition of pathmirror.log_tiered
    for values from (65536) to (maxvalue) partition by range (namespace_id, seq);

comment on table pathmirror.log_rest is 'What is beyond log_begin, in partitions of one namespace each, which are dropped whole.';

do $$
declare
    first_sharing bigint;
begin
    for piece in 0 .. 7 loop
        -- What pruning deletes is a small share of such a table: vacuum is not to wait for a fifth of it.
        execute format(
            'create table pathmirror.%I partition of pathmirror.log_begin for values with (modulus 8, remainder %s)'
            ' with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)',
            'log_begin_' || piece, piece);
    end loop;
    -- Ids that were given and not used, or are in use by a transaction that has not ended, count as old ones.
    select greatest(coalesce(max(id), 0), (select case when is_called then last_value else 0 end from pathmirror.namespace_id_seq)) + 1
    into first_sharing from pathmirror.namespace;
    execute format(
        'alter table pathmirror.log attach partition pathmirror.log_tiered for values from (%s, minvalue) to (maxvalue, maxvalue)',
        first_sharing);
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        -- Nobody needs it who reads the log as "log"; but gateways read every table.
        execute 'grant select on pathmirror.log_tiered, pathmirror.log_begin, pathmirror.log_rest to pathmirror_gateway';
        for piece in 0 .. 7 loop
            execute format('grant select on pathmirror.%I to pathmirror_gateway', 'log_begin_' || piece);
        end loop;
    end if;
end
$$;

-- Makes sure that seqs up to `needed` have a table to go to, `entries_each` seqs a partition. Returns the first seq that
-- has none. What is in the shared tables costs one look.
create or replace function pathmirror.ensure_log_partition(
    of_namespace bigint, needed bigint, entries_each bigint
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    first bigint;
    parent text;
    name text;
begin
    -- Without a lock, as it only grows.
    select partitioned_to into strict first from pathmirror.namespace where id = of_namespace;
    if first > needed then
        return first;
    end if;
    select partitioned_to, case when shared_to > 0 then 'log_rest' else 'log' end into strict first, parent
    from pathmirror.namespace where id = of_namespace for update;
    while first <= needed loop
        name := format('log_%s_%s', of_namespace, first);
        -- Attaching locks the parent far less than creating a partition of it would. (Nor is the parent what the table is
        -- like: whoever detaches another partition from it waits for all who have it locked.)
        execute format(
            'create table pathmirror.%I (like pathmirror.log_begin including defaults including constraints, '
            'primary key (namespace_id, seq))', name);
        execute format('alter table pathmirror.%I attach partition pathmirror.%I for values from (%s, %s) to (%s, %s)',
            parent, name, of_namespace, first, of_namespace, first + entries_each);
        first := first + entries_each;
    end loop;
    update pathmirror.namespace set partitioned_to = first where id = of_namespace and partitioned_to <> first;
    return first;
end
$$;
