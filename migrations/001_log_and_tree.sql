-- The replication log, the current tree, and what names them.
-- Every primary key starts with the namespace, so that the tables can be distributed by it.

create table pathmirror.namespace (
    id bigint generated always as identity primary key,
    name text collate "C" not null unique,
    -- The last seq. Committing a batch moves it, and whoever moves it holds this row's lock until commit: that is
    -- what puts all writes of all gateways into one order without gaps.
    head bigint not null default 0,
    -- The oldest seq that is still in the log (head + 1 when none is).
    retained_from bigint not null default 1,
    -- Seqs below this have a partition to go to.
    partitioned_to bigint not null default 0,
    created_at timestamptz not null default now()
) with (fillfactor = 50);

comment on table pathmirror.namespace is 'One database instance: its own tree, log and rules.';

create table pathmirror.log (
    namespace_id bigint not null,
    seq bigint not null,
    committed_at timestamptz not null,
    -- The same for all entries of one SQL transaction; resolves a COMMIT whose outcome is unknown.
    batch_id uuid not null,
    op text not null,
    -- The place that the request named.
    path text collate "C" not null,
    -- {"/absolute/path": value in export form, …}, in order, server values resolved.
    changes json not null,
    -- How many rows of log_part hold more changes, to be applied after these.
    parts integer not null default 0,
    -- Who made it: {"uid": text or null, "admin": boolean, "via": "rest", "sse", "ws" or "cli", "ip": text}.
    origin json,
    primary key (namespace_id, seq)
) partition by range (namespace_id, seq);

comment on table pathmirror.log is 'Every committed write, gapless and in commit order.';

create table pathmirror.log_part (
    namespace_id bigint not null,
    seq bigint not null,
    part integer not null,
    changes json not null,
    primary key (namespace_id, seq, part)
);

comment on table pathmirror.log_part is 'The changes of bulk entries (imports), in pieces of bounded size.';

create table pathmirror.node (
    namespace_id bigint not null,
    -- The leaf's path. Of a path over 2,000 bytes the first 2,000 bytes or a little less, "#" and the SHA-256 of all
    -- of it in hex, as an index row has to stay under 2.7 kB; "#" is in no key, so no other path looks like that.
    path text collate "C" not null,
    -- What of a long path "path" leaves out after its first part.
    rest text collate "C",
    -- A JSON scalar.
    value json not null,
    -- The seq that last wrote this row.
    version bigint not null,
    primary key (namespace_id, path)
) with (fillfactor = 90);

comment on table pathmirror.node is 'The current tree: one row a leaf; priorities are leaves named .priority.';

create table pathmirror.rule (
    namespace_id bigint not null,
    -- The entry from which on they hold.
    seq bigint not null,
    source text not null,
    primary key (namespace_id, seq)
);

comment on table pathmirror.rule is 'The security rules that each namespace has had; the newest hold.';

-- A running gateway. One that has not been seen for a while is dead: others do what its sessions had asked for.
create table pathmirror.gateway (
    id uuid primary key,
    seen_at timestamptz not null default now()
);

create table pathmirror.session (
    namespace_id bigint not null,
    session_id text not null,
    gateway_id uuid not null,
    -- What to do when the connection ends: a list of {"/absolute/path": value, …}, in order; server values unresolved.
    orders json not null,
    -- Whom the rules judge then: {"admin": boolean, "auth": value}.
    auth json not null,
    primary key (namespace_id, session_id)
);

comment on table pathmirror.session is 'Realtime sessions with onDisconnect orders. A row goes in the transaction that does them.';

-- Takes a session's orders, or raises PM002 when somebody else has.
create function pathmirror.claim_session(of_namespace bigint, of_session text) returns void
language plpgsql as $$
begin
    delete from pathmirror.session where namespace_id = of_namespace and session_id = of_session;
    if not found then
        raise exception 'the session''s orders have been carried out' using errcode = 'PM002';
    end if;
end
$$;

create table pathmirror.import_progress (
    namespace_id bigint not null,
    -- SHA-256 of the path that is imported to.
    path_hash text not null,
    -- Names the file: a restart with another begins anew.
    fingerprint text not null,
    rows_done bigint not null,
    -- The entry of the last chunk: what others have written since then is looked at.
    last_seq bigint not null,
    primary key (namespace_id, path_hash)
);

comment on table pathmirror.import_progress is 'How far interrupted imports in chunks have come.';

-- Moves a namespace's head from `expected` by `entries`, or raises PM001 when somebody else has moved it.
create function pathmirror.advance(of_namespace bigint, expected bigint, entries bigint) returns bigint
language plpgsql as $$
begin
    update pathmirror.namespace set head = head + entries where id = of_namespace and head = expected;
    if not found then
        raise exception 'the head of namespace % is not % any more', of_namespace, expected
            using errcode = 'PM001';
    end if;
    return expected + entries;
end
$$;

-- Makes sure that seqs up to `needed` have a partition, `entries_each` seqs a partition.
create function pathmirror.ensure_log_partition(of_namespace bigint, needed bigint, entries_each bigint) returns bigint
language plpgsql as $$
declare
    first bigint;
    name text;
begin
    select partitioned_to into strict first from pathmirror.namespace where id = of_namespace for update;
    while first <= needed loop
        name := format('log_%s_%s', of_namespace, first);
        -- Attaching locks the parent far less than creating a partition of it would.
        execute format('create table pathmirror.%I (like pathmirror.log including defaults including constraints)', name);
        execute format('alter table pathmirror.%I add primary key (namespace_id, seq)', name);
        execute format('alter table pathmirror.log attach partition pathmirror.%I for values from (%s, %s) to (%s, %s)',
            name, of_namespace, first, of_namespace, first + entries_each);
        first := first + entries_each;
    end loop;
    update pathmirror.namespace set partitioned_to = first where id = of_namespace and partitioned_to <> first;
    return first;
end
$$;

-- The whole path of a row of node.
create function pathmirror.full_path(path text, rest text) returns text
language sql immutable parallel safe as $$
    select case when rest is null then path else left(path, position('#' in path) - 1) || rest end
$$;
