-- What pgbench writes to: tables like pathmirror.node and pathmirror.log, in a schema of the benchmark's own.
drop schema if exists pathmirror_bench cascade;
create schema pathmirror_bench;

create table pathmirror_bench.node (
    namespace_id bigint not null,
    path text collate "C" not null,
    rest text collate "C",
    value json not null,
    version bigint not null,
    primary key (namespace_id, path)
) with (fillfactor = 90);

-- One table instead of partitions: that favours pgbench.
create table pathmirror_bench.log (
    namespace_id bigint not null,
    seq bigint not null,
    committed_at timestamptz not null,
    batch_id uuid not null,
    op text not null,
    path text collate "C" not null,
    changes json not null,
    parts integer not null default 0,
    primary key (namespace_id, seq)
);

-- Gaps and disorder allowed, which saves pgbench the lock that gapless seqs need.
create sequence pathmirror_bench.seq;

create table pathmirror_bench.head (namespace_id bigint primary key, head bigint not null) with (fillfactor = 50);
insert into pathmirror_bench.head values (1, 0);
