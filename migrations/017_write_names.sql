-- What clients that name their writes have had done: a write that is sent again after a lost answer is not done again.
create table pathmirror.named_write (
    namespace_id bigint not null,
    -- Random text of the client's, for one run of an app.
    writer text collate "C" not null,
    -- The numbers of its writes that are in the log. Others below the greatest were refused, and stay so.
    done int8multirange not null,
    -- The last entry among them.
    seq bigint not null,
    -- Changes once a day at most, so that the other updates need not touch the index.
    used_on date not null default current_date,
    primary key (namespace_id, writer)
) with (fillfactor = 70);

create index on pathmirror.named_write (used_on);

comment on table pathmirror.named_write is 'Which named writes of clients are in the log; forgotten some time after a client''s last write.';

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select, insert, update, delete on pathmirror.named_write to pathmirror_gateway;
    end if;
end
$$;
