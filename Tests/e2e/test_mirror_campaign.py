"""Some rounds of `make campaign NAME=mirrors`, and a check that the campaign can fail: it detects any single wrong value of a table."""

import os

import pytest
from harness import sql
from mirror_campaign.comparing import Difference
from mirror_campaign.stored import read
from mirror_campaign.world import World

SEED = int(os.environ.get("PATHMIRROR_E2E_CAMPAIGN_SEED", 5))
ROUNDS = int(os.environ.get("PATHMIRROR_E2E_CAMPAIGN_ROUNDS", 5))
# By kind of table, statements that each make one row wrong. `{row}` is that row.
PLANTED = {
    None: ["delete from {table} where {row}", "update {table} set _misfits = array['c9'] where {row}",
           "update {table} set _updated_at = coalesce(_updated_at, now()) + interval '1 hour' where {row}"],
    "changes": ["delete from {table} where {row}", "update {table} set _via = 'nobody' where {row}", "update {table} set _at = _at - interval '1 ms' where {row}",
                "update {table} set _new = jsonb_build_object('c0', 1) where {row}", "update {table} set _seq = _seq + 100000 where {row}"],
    "latest": ["delete from {table} where {row}", "update {table} set _deleted_at = coalesce(_deleted_at, now()) + interval '1 ms' where {row}"],
}
ERRORS = ["delete from pathmirror.mirror_error", "update pathmirror.mirror_error set column_name = 'c9'"]
VERSIONS = ["delete from pathmirror.mirror_version", "update pathmirror.mirror_version set record = '\"other\"'"]


def notices(world, url, table, statement):
    """Makes the table wrong during one check, which must fail; restores it afterwards."""
    sql.autocommit(url, f"create table public.before as select * from {table}", statement)
    try:
        with pytest.raises(Difference):
            world.check()
    finally:
        sql.execute(url, f"delete from {table}", f"insert into {table} select * from public.before", "drop table public.before")


def test_a_minute_of_the_campaign_and_every_planted_mistake(own_postgres, scratch):
    world = World(SEED, own_postgres, scratch, (10, 40))
    try:
        world.gateways[0].rest.send("PUT", "/a.json", b'{"a": {"a": "x", "b": 7, "items": [{"a": 1}, "y"]}, "1": {"a": "z", ".priority": 1}, "b": true}')
        for _ in range(ROUNDS):
            world.round()
        world.finish()
        planted = 0
        for url in world.urls:
            found = world.query(url, read)
            for keeps, statements in PLANTED.items():
                kind = next((one for one in found if one.keeps == keeps and one.rows), None)
                for statement in statements if kind else []:
                    notices(world, url, kind.table, statement.format(table=kind.table, row=f"ctid = (select min(ctid) from {kind.table})"))
                    planted += 1
        # The campaign compares former records only for mirrors that keep all of them.
        whole = "where mirror in (select mirror from pathmirror.mirror_cursor where definition ->> 'keeps' is not null)"
        for table, statements, which in (("mirror_error", ERRORS, ""), ("mirror_version", VERSIONS, whole)):
            for statement in statements:
                notices(world, world.urls[0], f"pathmirror.{table}", f"{statement} where ctid = (select min(ctid) from pathmirror.{table} {which})")
                planted += 1
        world.check()
        print(f"{world.log.head} entries; {dict(world.counts)}; {planted} planted mistakes were noticed")
        assert planted >= 15
    finally:
        world.end()
