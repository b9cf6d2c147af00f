-- How gateways authenticate one another, and to whom names of writes and tokens of feeds belong.

-- The key that authenticates notifications between gateways: every role that can connect can NOTIFY. To replace it, update the row and
-- restart the gateways one after another.
create table pathmirror.gateway_key (
    is_only boolean primary key default true check (is_only),
    key bytea not null check (octet_length(key) >= 32)
);

comment on table pathmirror.gateway_key is 'The key that authenticates notifications between gateways. Only gateways can read it.';

insert into pathmirror.gateway_key (key)
values (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

-- Where gateways of this version reach a gateway, the key that authenticates what they forward to it, and the SHA-256 of the public key of
-- its certificate. Null in rows of older gateways, which know the address only.
alter table pathmirror.feed_worker
    add column peer_address text,
    add column peer_key bytea,
    add column peer_pin bytea;

-- Tells a feed from a later one of the same name, also after the namespace has moved to another database.
alter table pathmirror.feed add column uid uuid not null default gen_random_uuid();

-- Whose writes the names are: a digest of the identity that used the writer first. Null where an older gateway noted it.
alter table pathmirror.named_write add column identity bytea;

do $$
begin
    if exists (select from pg_roles where rolname = 'pathmirror_gateway') then
        grant select on pathmirror.gateway_key to pathmirror_gateway;
    end if;
end
$$;
