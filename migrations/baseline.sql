-- The schema of a new database: the result of all numbered migrations. A database that has some of them gets the others instead.
-- A migration changes this file, too; a test creates one database in each way and compares them. Functions, views and triggers are in
-- migrations/functions.

create table pathmirror.function_file (
    name text collate "C" not null,
    -- The SHA-256 of the file that was applied last.
    checksum text not null,
    applied_at timestamptz not null default now(),
    primary key (name)
);
comment on table pathmirror.function_file is 'The files of functions and views, each as it was applied last.';

-- The identity of the database, and the key of its gateways

create table pathmirror.installation (
    id uuid not null default gen_random_uuid()
);
create unique index installation_is_one_row on pathmirror.installation ((true));
insert into pathmirror.installation default values;

create table pathmirror.gateway_key (
    is_only boolean not null default true,
    key bytea not null,
    primary key (is_only),
    constraint gateway_key_is_only_check check (is_only),
    constraint gateway_key_key_check check (octet_length(key) >= 32)
);
comment on table pathmirror.gateway_key is 'The key that authenticates notifications between gateways. Only gateways can read it.';
insert into pathmirror.gateway_key (key)
values (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

-- Service accounts

create table pathmirror.service_account (
    uid uuid not null default gen_random_uuid(),
    name text collate "C" not null,
    role text not null,
    -- Null: all namespaces.
    namespaces text[],
    -- The address of the token endpoint in the account's file, which its assertions name.
    token_uri text not null,
    created_at timestamptz not null default now(),
    primary key (uid),
    constraint service_account_name_key unique (name),
    constraint service_account_name_check check (name ~ '^[a-z][a-z0-9-]{0,62}$'),
    constraint service_account_role_check check (role in ('admin', 'viewer')),
    constraint service_account_namespaces_check check (cardinality(namespaces) > 0)
);
comment on table pathmirror.service_account is 'Service accounts, with their rights.';

create table pathmirror.service_account_key (
    -- Random.
    id text collate "C" not null,
    account uuid not null,
    -- A SubjectPublicKeyInfo in DER.
    public_key bytea not null,
    created_at timestamptz not null default now(),
    -- From this time on the key is invalid. Null: no end.
    ends_at timestamptz,
    primary key (id),
    constraint service_account_key_id_check check (id ~ '^[0-9a-f]{40}$'),
    constraint service_account_key_account_fkey
        foreign key (account) references pathmirror.service_account (uid) on delete cascade
);
create index service_account_key_account_idx on pathmirror.service_account_key (account);
comment on table pathmirror.service_account_key is 'The public keys of service accounts.';

create table pathmirror.service_account_audit (
    id bigint not null generated always as identity,
    at timestamptz not null default now(),
    action text not null,
    account uuid not null,
    name text collate "C" not null,
    role text not null,
    namespaces text[],
    -- The id of the new key.
    key text,
    -- The role of PostgreSQL that made the change, and its address. Null for a Unix socket.
    actor name not null default session_user,
    address inet default inet_client_addr(),
    primary key (id),
    constraint service_account_audit_action_check check (action in ('create', 'rotate', 'rm'))
);
comment on table pathmirror.service_account_audit is 'Every change of service accounts by a command. Rows are never changed.';

-- The log

create table pathmirror.namespace (
    id bigint not null generated always as identity,
    name text collate "C" not null,
    -- The last seq. Committing a batch moves it, and the transaction that moves it holds this row's lock until commit: this
    -- puts all writes of all gateways into one order without gaps.
    head bigint not null default 0,
    -- The oldest seq that is still in the log (head + 1 if the log is empty).
    retained_from bigint not null default 1,
    -- Seqs below this have a partition.
    partitioned_to bigint not null default 65536,
    created_at timestamptz not null default now(),
    stream_key uuid not null default gen_random_uuid(),
    -- From this entry on the order of an entry's changes has no meaning (docs/reference/log.md). Readers apply earlier entries in the
    -- order of their text, as their writers did.
    any_order_from bigint not null default 1,
    -- The batch id of the entry at the head. Null if nothing has been written since this column exists; for an empty log
    -- the namespace's stream_key takes its role.
    last_batch uuid,
    -- The batch id of the entry before retained_from, which the log no longer contains.
    pruned_batch uuid,
    shared_to bigint not null default 65536,
    stamped_at timestamptz not null default '-infinity',
    is_following boolean not null default false,
    constraint namespace_name_key unique (name),
    primary key (id)
) with (fillfactor = 50);
comment on column pathmirror.namespace.stream_key is 'What gateways sign the ids of stream events with.';
comment on column pathmirror.namespace.last_batch is 'The batch id of the entry at the head.';
comment on column pathmirror.namespace.pruned_batch is 'The batch id of the last entry that was pruned.';
comment on column pathmirror.namespace.shared_to is 'Seqs below this are in the tables that namespaces share.';
comment on column pathmirror.namespace.stamped_at is 'The committed_at of the last entry. It never steps back, whatever the clock does.';
comment on column pathmirror.namespace.is_following is 'True if the namespace follows an upstream. Then only its follower writes to it.';
comment on table pathmirror.namespace is 'One database instance: its own tree, log and rules.';

create table pathmirror.log (
    namespace_id bigint not null,
    seq bigint not null,
    committed_at timestamptz not null,
    -- The same for all entries of one SQL transaction; resolves a COMMIT whose outcome is unknown.
    batch_id uuid not null,
    op text not null,
    -- The path that the request named.
    path text collate "C" not null,
    -- {"/absolute/path": value in export form, …}, in order, server values resolved.
    changes json not null,
    -- How many rows of log_part hold more changes, to be applied after these.
    parts integer not null default 0,
    -- The author: {"uid": text or null, "admin": boolean, "via": "rest", "sse", "ws" or "cli", "ip": text}.
    origin json,
    primary key (namespace_id, seq)
) partition by range (namespace_id, seq);
comment on table pathmirror.log is 'Every committed write, gapless and in commit order.';

create table pathmirror.log_tiered partition of pathmirror.log for values from (1, minvalue) to (maxvalue, maxvalue)
    partition by range (seq);
comment on table pathmirror.log_tiered is 'The log of the namespaces that share tables: log_begin and, beyond it, log_rest.';

create table pathmirror.log_begin partition of pathmirror.log_tiered for values from (minvalue) to (65536)
    partition by hash (namespace_id);
create table pathmirror.log_begin_0 partition of pathmirror.log_begin for values with (modulus 8, remainder 0)
    with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create table pathmirror.log_begin_1 partition of pathmirror.log_begin for values with (modulus 8, remainder 1)
    with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create table pathmirror.log_begin_2 partition of pathmirror.log_begin for values with (modulus 8, remainder 2)
    with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create table pathmirror.log_begin_3 partition of pathmirror.log_begin for values with (modulus 8, remainder 3)
    with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create table pathmirror.log_begin_4 partition of pathmirror.log_begin for values with (modulus 8, remainder 4)
    with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create table pathmirror.log_begin_5 partition of pathmirror.log_begin for values with (modulus 8, remainder 5)
    with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create table pathmirror.log_begin_6 partition of pathmirror.log_begin for values with (modulus 8, remainder 6)
    with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
create table pathmirror.log_begin_7 partition of pathmirror.log_begin for values with (modulus 8, remainder 7)
    with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
comment on table pathmirror.log_begin is 'The first 65,536 seqs of each namespace''s log, in tables that namespaces share.';

create table pathmirror.log_rest partition of pathmirror.log_tiered for values from (65536) to (maxvalue)
    partition by range (namespace_id, seq);
comment on table pathmirror.log_rest is 'What is beyond log_begin, in partitions of one namespace each, which are dropped whole.';

create table pathmirror.log_part (
    namespace_id bigint not null,
    seq bigint not null,
    part integer not null,
    changes json not null,
    primary key (namespace_id, seq, part)
);
comment on table pathmirror.log_part is 'The changes of bulk entries (imports), in pieces of bounded size.';

create table pathmirror.large_write (
    id bigint not null,
    namespace_id bigint not null,
    -- The entry of the write.
    seq bigint not null,
    primary key (id)
);
comment on table pathmirror.large_write is 'The entries of large writes: node.version is −id in the rows that they wrote.';
create sequence pathmirror.large_write_number;

-- The tree and its rules

create type pathmirror.node_range as (
    own_key text,
    low text,
    high text,
    beginning text
);

create table pathmirror.node (
    namespace_id bigint not null,
    -- The leaf's path. A path over 2,000 bytes is stored as its first 2,000 bytes or a little less, "#" and the SHA-256 of the
    -- whole path in hex, because an index row has to stay under 2.7 kB. No key contains "#", so the form is unambiguous.
    path text collate "C" not null,
    -- The part of a long path that "path" omits.
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
    -- The entry from which on the rules apply.
    seq bigint not null,
    source text not null,
    primary key (namespace_id, seq)
);
comment on table pathmirror.rule is 'The security rules that each namespace has had; the newest hold.';

-- Gateways, and the onDisconnect operations of clients

create table pathmirror.gateway (
    id uuid not null,
    seen_at timestamptz not null default now(),
    beat bigint not null default 0,
    connection bigint not null default 0,
    primary key (id)
);
comment on column pathmirror.gateway.beat is 'Counted up while the gateway lives. Others watch it by their own clocks: seen_at is for people only.';
comment on column pathmirror.gateway.connection is 'Counts the connections that the gateway saves sessions by. What comes late by an earlier one is not taken.';
comment on table pathmirror.gateway is 'Gateways that keep sessions. A row is one lease: whoever finds its own gone begins anew under another id.';

create table pathmirror.session (
    namespace_id bigint not null,
    session_id text not null,
    gateway_id uuid not null,
    -- The operations for the end of the connection: a list of {"/absolute/path": value, …}, in order; server values unresolved.
    orders json not null,
    -- The identity for which the rules are evaluated then: {"admin": boolean, "auth": value}.
    auth json not null,
    save bigint not null default 0,
    primary key (namespace_id, session_id)
);
comment on column pathmirror.session.save is 'The number of the save that the orders are of, counted by the session.';
comment on table pathmirror.session is 'Realtime sessions with onDisconnect orders. A row goes in the transaction that does them.';

-- Writes that are applied once

create table pathmirror.named_write (
    namespace_id bigint not null,
    -- A random text that the client chose for one run of an app.
    writer text collate "C" not null,
    -- The numbers of the writer's writes that are in the log. The other numbers below the greatest are of refused writes.
    done int8multirange not null,
    -- The last entry of these writes.
    seq bigint not null,
    -- Changes once a day at most, so that the other updates need not touch the index.
    used_on date not null default current_date,
    -- A digest of the identity that used the writer first and owns its names. Null if an older gateway recorded the writer.
    identity bytea,
    primary key (namespace_id, writer)
) with (fillfactor = 70);
create index named_write_used_on_idx on pathmirror.named_write (used_on);
comment on table pathmirror.named_write is 'Which named writes of clients are in the log; forgotten some time after a client''s last write.';

create table pathmirror.import_progress (
    namespace_id bigint not null,
    -- The SHA-256 of the target path.
    path_hash text not null,
    -- Identifies the file: an import of another file starts from the beginning.
    fingerprint text not null,
    rows_done bigint not null,
    -- The entry of the last chunk: the import checks the entries of other writers after it.
    last_seq bigint not null,
    primary key (namespace_id, path_hash)
);
comment on table pathmirror.import_progress is 'How far interrupted imports in chunks have come.';

create table pathmirror.replay_applied (
    -- The namespace that the entry was applied to.
    namespace_id bigint not null,
    -- The first half of the SHA-256 of the source's name: installation, namespace and path.
    source uuid not null,
    source_seq bigint not null,
    -- The entry in this log.
    seq bigint not null,
    primary key (namespace_id, source, source_seq)
);
comment on table pathmirror.replay_applied is 'Which entries of other logs have been applied, so that none is applied twice.';

-- Snapshots and retention

create table pathmirror.snapshot (
    namespace_id bigint not null,
    -- The tree is the one after this entry.
    seq bigint not null,
    -- When that entry was committed; null for seq 0.
    entry_at timestamptz,
    created_at timestamptz not null default now(),
    row_count bigint not null,
    -- manual, or prune: a prune of the log that follows it removes the latter.
    made_by text not null,
    primary key (namespace_id, seq)
);
comment on table pathmirror.snapshot is 'Whole trees as of past entries: with the log behind them, any later tree can be rebuilt.';

create table pathmirror.snapshot_chunk (
    namespace_id bigint not null,
    seq bigint not null,
    chunk integer not null,
    -- {"/path/of/a/leaf": JSON scalar, …}
    leaves json not null,
    primary key (namespace_id, seq, chunk)
);
comment on table pathmirror.snapshot_chunk is 'The leaves of snapshots, in pieces of bounded size.';

create table pathmirror.cursor (
    namespace_id bigint not null,
    -- The kind of the reader, such as feed.
    kind text not null,
    name text collate "C" not null,
    -- The last entry that the reader has processed.
    seq bigint not null,
    moved_at timestamptz not null default now(),
    primary key (namespace_id, kind, name)
) with (fillfactor = 50);
comment on table pathmirror.cursor is 'Readers that need the entries after seq; mirrors have cursors of their own (see log_cursor).';

create table pathmirror.retention (
    -- 0: the policy for all namespaces without a row.
    namespace_id bigint not null,
    -- Entries younger than this stay, or else this number of last entries. Null: only the size counts.
    keep_seconds bigint,
    keep_entries bigint,
    -- The maximum size of the log's partitions; the oldest ones are dropped, regardless of age. Null: no bound.
    max_bytes bigint,
    -- The age of the newest snapshot at which another one is taken.
    snapshot_seconds bigint,
    set_at timestamptz not null default now(),
    primary key (namespace_id),
    constraint retention_check check (keep_seconds is null or keep_entries is null),
    constraint retention_check1 check (keep_seconds is not null or keep_entries is not null or max_bytes is not null),
    constraint retention_keep_entries_check check (keep_entries >= 0),
    constraint retention_keep_seconds_check check (keep_seconds > 0),
    constraint retention_max_bytes_check check (max_bytes > 0),
    constraint retention_snapshot_seconds_check check (snapshot_seconds > 0)
);
comment on table pathmirror.retention is 'What of the log stays: set by administrators, carried out by gateways, which can''t change it.';

create table pathmirror.retention_look (
    namespace_id bigint not null,
    -- The partition, its first entry, and the seq before which all of its entries have been examined.
    relation oid not null,
    begins bigint not null,
    looked_to bigint not null,
    -- The commit time of the youngest of these entries.
    newest timestamptz not null,
    primary key (namespace_id)
) with (fillfactor = 50);
comment on table pathmirror.retention_look is 'How far the oldest partition of each log has been looked through before it goes.';

create table pathmirror.retention_run (
    namespace_id bigint not null,
    ran_at timestamptz not null default now(),
    -- The numbers of dropped entries and of snapshots since retention began here.
    dropped bigint not null default 0,
    snapshots bigint not null default 0,
    -- The reader that needs entries which would have been dropped: `mirror orders`.
    waits_for text,
    -- The error of the last round.
    message text,
    primary key (namespace_id)
) with (fillfactor = 50);
comment on table pathmirror.retention_run is 'How the shortening of each namespace''s log went last.';

-- Mirrors

create table pathmirror.mirror (
    namespace_id bigint not null,
    name text collate "C" not null,
    -- The mirror's id in the target database.
    id uuid not null default gen_random_uuid(),
    definition json not null,
    -- The URL of the table's database; null for this database. It may contain a password, so readers cannot select it.
    target text,
    is_paused boolean not null default false,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (namespace_id, name)
);
comment on table pathmirror.mirror is 'The mirrors that exist, each as its definition.';

create table pathmirror.mirror_run (
    namespace_id bigint not null,
    mirror uuid not null,
    -- running, broken, or building.
    state text not null,
    -- The reason of the state broken.
    message text,
    -- The gateway that reported the state, and the time.
    gateway text not null,
    reported_at timestamptz not null,
    -- The cursor at that time, for tables in another database.
    seq bigint,
    error_count bigint,
    retry_at timestamptz,
    unkept_errors bigint,
    primary key (namespace_id, mirror)
) with (fillfactor = 50);
comment on table pathmirror.mirror_run is 'What the gateways that run the mirrors said last.';

create table pathmirror.mirror_cursor (
    namespace_id bigint not null,
    mirror uuid not null,
    seq bigint not null,
    entry_at timestamptz,
    definition json not null,
    generation bigint not null,
    moved_at timestamptz not null default now(),
    batch uuid,
    begins_at_seq bigint,
    begins_at timestamptz,
    primary key (namespace_id, mirror)
) with (fillfactor = 50);
comment on table pathmirror.mirror_cursor is 'How far each mirror''s table has come.';

create table pathmirror.mirror_error (
    namespace_id bigint not null,
    mirror uuid not null,
    generation bigint not null,
    record_hash uuid not null,
    column_name text collate "C" not null,
    record text collate "C" not null,
    path text collate "C" not null,
    seq bigint not null,
    value text,
    reason text not null,
    found_at timestamptz not null default now(),
    primary key (namespace_id, mirror, generation, record_hash, column_name)
);
comment on table pathmirror.mirror_error is 'Values that did not fit their columns, as of each mirror''s cursor. The view mirror_misfit is for those who report.';

create table pathmirror.mirror_error_excess (
    namespace_id bigint not null,
    mirror uuid not null,
    generation bigint not null,
    found bigint not null,
    last_found_at timestamptz not null default now(),
    primary key (namespace_id, mirror, generation)
) with (fillfactor = 50);
comment on table pathmirror.mirror_error_excess is 'How many errors of each mirror were not kept, as there were too many.';

create table pathmirror.mirror_version (
    namespace_id bigint not null,
    mirror uuid not null,
    key text collate "C" not null,
    seq bigint not null,
    at timestamptz,
    uid text,
    is_admin boolean,
    via text,
    is_begin boolean not null,
    record text,
    primary key (namespace_id, mirror, key, seq)
);
create index mirror_version_seq on pathmirror.mirror_version (seq, mirror);
comment on table pathmirror.mirror_version is 'What records of mirrors were that keep it, entry by entry; their tables are made of it.';

create table pathmirror.mirror_freed (
    namespace_id bigint not null,
    mirror uuid not null,
    generation bigint not null,
    slot smallint not null,
    hash bigint not null,
    primary key (namespace_id, mirror, generation, slot, hash)
);
comment on table pathmirror.mirror_freed is 'Values of unique indexes that came free, and for which records wait that have not been looked at since.';

create table pathmirror.mirror_waiting (
    namespace_id bigint not null,
    mirror uuid not null,
    generation bigint not null,
    key text collate "C" not null,
    slot smallint not null,
    hash bigint not null,
    made jsonb not null,
    primary key (namespace_id, mirror, generation, key)
);
create index mirror_waiting_hash on pathmirror.mirror_waiting (namespace_id, mirror, generation, slot, hash, key);
comment on table pathmirror.mirror_waiting is 'Records without a row, as another row has the values that a unique index allows once.';

-- Feeds

create table pathmirror.feed (
    namespace_id bigint not null,
    id bigint not null generated always as identity,
    name text collate "C" not null,
    -- The definition as applied last, with secrets: readers cannot select it.
    definition json not null,
    -- Incremented with each change of the feed.
    revision bigint not null default 1,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    -- Distinguishes a feed from a later one of the same name, also after the namespace has moved to another database.
    uid uuid not null default gen_random_uuid(),
    constraint feed_namespace_id_name_key unique (namespace_id, name),
    primary key (namespace_id, id)
);
comment on table pathmirror.feed is 'The durable change feeds that exist, each as its definition.';

create table pathmirror.feed_progress (
    namespace_id bigint not null,
    feed bigint not null,
    -- The gateway that runs the feed, by its row of feed_worker, and the number of this ownership: requests with another
    -- number are refused.
    worker uuid,
    generation bigint not null default 1,
    -- All messages up to this position are done: those of the entries up to seq, and this number of the next entry's.
    seq bigint not null,
    index bigint not null default 0,
    -- The batch of the entry at seq, which identifies the history of the log.
    batch uuid,
    -- The entry whose tree is the snapshot with which the feed begins, until all messages of the snapshot are done.
    snapshot_seq bigint,
    -- The messages after the position that are done, too, as ranges of positions.
    done bytea,
    -- No consumer has received messages of entries after this one.
    handed_to bigint not null,
    -- Counted since the creation of the feed.
    delivered bigint not null default 0,
    acknowledged bigint not null default 0,
    redelivered bigint not null default 0,
    read_to bigint not null default 0,
    moved_at timestamptz not null default now(),
    -- The number of the worker's last move. After a restore of an older state of the database, the next move does not follow it.
    moves bigint not null default 0,
    primary key (namespace_id, feed)
) with (fillfactor = 30);
comment on table pathmirror.feed_progress is 'How far each feed has come, and whose word on that is taken.';

create table pathmirror.feed_owner (
    namespace_id bigint not null,
    feed bigint not null,
    -- As in feed_progress, whose row is authoritative.
    worker uuid,
    generation bigint not null default 1,
    -- The state of the feed that its gateway reported last.
    state text not null default 'starting',
    message text,
    pending bigint not null default 0,
    held bigint not null default 0,
    reported_at timestamptz,
    primary key (namespace_id, feed)
) with (fillfactor = 30);
comment on table pathmirror.feed_owner is 'Which gateway works each feed, and how it fares.';

create table pathmirror.feed_worker (
    id uuid not null,
    -- Incremented while the gateway lives. Other gateways watch it by their own clocks: seen_at is for people only.
    beat bigint not null default 1,
    -- The address for other gateways, such as http://10.0.0.5:9000.
    address text not null,
    seen_at timestamptz not null default now(),
    peer_address text,
    peer_key bytea,
    peer_pin bytea,
    primary key (id)
) with (fillfactor = 30);
comment on table pathmirror.feed_worker is 'Gateways that work feeds. Whoever finds its row gone works none any more.';

create table pathmirror.feed_message (
    namespace_id bigint not null,
    feed bigint not null,
    seq bigint not null,
    -- The message's number among those of its entry, or, if is_snapshot is true, among those of a snapshot's tree.
    index bigint not null,
    is_snapshot boolean not null,
    key text collate "C" not null,
    -- failing: the gateway delivers it again, from the log. dead: after its last attempt. blocked: set aside after a dead one of its
    -- key. retry: the gateway delivers it once more, from this row.
    state text not null,
    attempts integer not null,
    -- [{"time": …, "attempt": 1, "reason": …}, …], the newest last.
    errors json not null,
    -- The message as consumers see it, without its attempt; null while it is failing.
    message json,
    since timestamptz not null default now(),
    -- The length of the message, which bounds a page of messages without reading them.
    bytes bigint not null default 0,
    primary key (namespace_id, feed, seq, index, is_snapshot)
) with (fillfactor = 50);
alter table pathmirror.feed_message alter column errors set storage main;
alter table pathmirror.feed_message alter column message set storage external;
comment on table pathmirror.feed_message is 'Messages of feeds that failed: dead letters, and those that are tried again.';

-- Namespaces that follow an upstream

create table pathmirror.follow (
    namespace_id bigint not null,
    upstream text not null,
    -- The kind of the credentials and the name of their file; never a secret.
    credentials json not null,
    -- True if the namespace keeps rules of its own instead of the upstream's.
    keep_rules boolean not null default false,
    max_bytes_per_day bigint,
    is_paused boolean not null default false,
    created_at timestamptz not null default now(),
    -- The claim under which messages are committed; null if no gateway follows. The gateway increments the heartbeat.
    fence uuid,
    gateway text,
    heartbeat bigint not null default 0,
    -- The number of the last committed message under the fence.
    position bigint not null default 0,
    -- The batch that may move the head: the follower's last one, or a batch with an administrator's rules.
    batch uuid,
    -- The last status that the gateway reported.
    state text not null default 'starting',
    message text,
    state_since timestamptz,
    connected_since timestamptz,
    last_message_at timestamptz,
    received_on date,
    received_today bigint not null default 0,
    received bigint not null default 0,
    entries bigint not null default 0,
    resyncs bigint not null default 0,
    last_resync_seq bigint,
    lag_milliseconds bigint,
    parts json,
    rules_digest text,
    reported_at timestamptz,
    primary key (namespace_id),
    constraint follow_max_bytes_per_day_check check (max_bytes_per_day > 0)
) with (fillfactor = 30);
comment on table pathmirror.follow is 'Namespaces that follow an upstream, with the claim of the gateway that follows and its last status.';

-- Namespaces in several databases

create table pathmirror.database (
    name text collate "C" not null,
    -- The connection parameters of libpq, without user and password: readers of this table must not get credentials.
    host text not null,
    port text,
    dbname text not null,
    -- The installation id of that database: the same one cannot be added twice.
    installation uuid not null,
    -- True if no more namespaces are placed there.
    is_draining boolean not null default false,
    added_at timestamptz not null default now(),
    -- The placement_version of the last change of the row.
    version bigint not null,
    constraint database_installation_key unique (installation),
    primary key (name),
    constraint database_name_check check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$' and name <> 'home')
);
comment on table pathmirror.database is 'The databases besides the home in which namespaces live.';

create table pathmirror.placement_version (
    id boolean not null default true,
    -- A transaction that changes databases or placements holds this row's lock until commit, so that versions become visible in order.
    version bigint not null,
    primary key (id),
    constraint placement_version_id_check check (id)
);
comment on table pathmirror.placement_version is 'How often databases and placements were changed.';
insert into pathmirror.placement_version (version) values (0);

create table pathmirror.placement (
    namespace text collate "C" not null,
    -- Null: the namespace has left the other database, and the primary database may have it.
    database text collate "C",
    version bigint not null,
    primary key (namespace),
    constraint placement_database_fkey foreign key (database) references pathmirror.database(name)
);
create index placement_version_idx on pathmirror.placement (version);
comment on table pathmirror.placement is 'In which database a namespace lives; one without a row lives in the home.';

create table pathmirror.namespace_move (
    namespace text collate "C" not null,
    -- The id of this move: the copy and the final record in the source contain it.
    id uuid not null default gen_random_uuid(),
    -- Names of databases; `home` is the primary database.
    source text collate "C" not null,
    target text collate "C" not null,
    -- The namespace in the source. After a restore of a backup an id may be assigned again, but a key may not.
    source_id bigint not null,
    stream_key uuid not null,
    -- True once the primary database places it in the target: only the removal from the source remains.
    has_left boolean not null default false,
    began_at timestamptz not null default now(),
    constraint namespace_move_id_key unique (id),
    primary key (namespace)
);
comment on table pathmirror.namespace_move is 'Namespaces that are being moved to another database.';

create table pathmirror.namespace_copy (
    namespace_id bigint not null,
    namespace text collate "C" not null,
    move uuid not null,
    source text collate "C" not null,
    source_id bigint not null,
    stream_key uuid not null,
    -- True until the source has released it: its name is .moving/ and its own name until then, and no gateway serves it.
    is_dormant boolean not null default true,
    -- Created for each attempt to leave, and recorded by the source at the release: the copy with this value is complete.
    farewell uuid,
    made_at timestamptz not null default now(),
    primary key (namespace_id)
);
comment on table pathmirror.namespace_copy is 'Copies of namespaces that move to this database, or came here so.';

create table pathmirror.former_namespace (
    id bigint not null,
    name text collate "C" not null,
    stream_key uuid not null,
    removed_at timestamptz not null default now(),
    -- The target, the move, the head at that time and the value of the complete copy, unless the namespace was removed for good.
    head bigint,
    moved_to text,
    move uuid,
    farewell uuid,
    primary key (id)
);
comment on table pathmirror.former_namespace is 'Namespaces that were removed from this database on purpose.';

-- Roles, and their privileges on the tables. If the role that migrates may not create roles, an administrator creates them, and grants
-- the privileges of docs/reference/sql.md.

do $$
declare
    role_name text;
begin
    foreach role_name in array array['pathmirror_reader', 'pathmirror_writer', 'pathmirror_gateway'] loop
        if not exists (select from pg_roles where rolname = role_name) then
            begin
                execute format('create role %I nologin', role_name);
            exception
                when duplicate_object or unique_violation then null;
                when insufficient_privilege then
                    raise notice 'role % was not created: an administrator can, and grant as docs/reference/sql.md says', role_name;
            end;
        end if;
    end loop;
end
$$;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_reader') then
        grant usage on schema pathmirror to pathmirror_reader;
        grant select on
            pathmirror.database, pathmirror.former_namespace, pathmirror.large_write, pathmirror.log,
            pathmirror.log_part, pathmirror.namespace, pathmirror.namespace_copy, pathmirror.namespace_move,
            pathmirror.node, pathmirror.placement, pathmirror.placement_version, pathmirror.retention,
            pathmirror.retention_look, pathmirror.retention_run, pathmirror.snapshot, pathmirror.snapshot_chunk
            to pathmirror_reader;
        grant select (namespace_id, keep_rules) on pathmirror.follow to pathmirror_reader;
    end if;
end
$$;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_writer') then
        grant usage on schema pathmirror to pathmirror_writer;
        grant select on
            pathmirror.large_write, pathmirror.log, pathmirror.log_part, pathmirror.namespace, pathmirror.node,
            pathmirror.snapshot, pathmirror.snapshot_chunk
            to pathmirror_writer;
        grant select (namespace_id, keep_rules) on pathmirror.follow to pathmirror_writer;
    end if;
end
$$;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant usage on schema pathmirror to pathmirror_gateway;
        grant select on
            pathmirror.database, pathmirror.former_namespace, pathmirror.function_file, pathmirror.gateway_key,
            pathmirror.installation, pathmirror.log_begin, pathmirror.log_begin_0, pathmirror.log_begin_1,
            pathmirror.log_begin_2, pathmirror.log_begin_3, pathmirror.log_begin_4, pathmirror.log_begin_5,
            pathmirror.log_begin_6, pathmirror.log_begin_7, pathmirror.log_rest, pathmirror.log_tiered,
            pathmirror.migration, pathmirror.namespace_copy, pathmirror.namespace_move, pathmirror.placement,
            pathmirror.placement_version, pathmirror.retention, pathmirror.retention_look, pathmirror.service_account,
            pathmirror.service_account_audit, pathmirror.service_account_key
            to pathmirror_gateway;
        grant select, insert on
            pathmirror.large_write, pathmirror.log, pathmirror.log_part, pathmirror.replay_applied, pathmirror.rule
            to pathmirror_gateway;
        grant select, insert, update on
            pathmirror.namespace
            to pathmirror_gateway;
        grant select, insert, update, delete on
            pathmirror.cursor, pathmirror.feed, pathmirror.feed_message, pathmirror.feed_owner,
            pathmirror.feed_progress, pathmirror.feed_worker, pathmirror.follow, pathmirror.gateway, pathmirror.import_progress,
            pathmirror.mirror, pathmirror.mirror_cursor, pathmirror.mirror_error, pathmirror.mirror_error_excess,
            pathmirror.mirror_freed, pathmirror.mirror_run, pathmirror.mirror_version, pathmirror.mirror_waiting,
            pathmirror.named_write, pathmirror.node, pathmirror.retention_run, pathmirror.session,
            pathmirror.snapshot, pathmirror.snapshot_chunk
            to pathmirror_gateway;
        grant usage on sequence
            pathmirror.large_write_number
            to pathmirror_gateway;
        grant update (seq) on pathmirror.log_part to pathmirror_gateway;
    end if;
end
$$;
