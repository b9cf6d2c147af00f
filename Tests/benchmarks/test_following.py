"""The race of a mirror that follows the log begins each round with the mirror before all entries."""

from harness.gateway import Gateway
from suites import mirrors

ROWS = 300


def test_a_second_round_has_all_rows():
    with Gateway() as gateway:
        gateway.sql(mirrors.ENTRIES.format(rows=ROWS))
        gateway.command("mirror", "apply", mirrors.definition(gateway, "follow"), "--yes")
        for _ in range(2):
            gateway.command("mirror", "pause", "posts", "--ns", "follow")
            gateway.sql(mirrors.BEGINNING.format(rows=ROWS))
            gateway.command("mirror", "resume", "posts", "--ns", "follow")
            gateway.sql(f"select pathmirror.wait_for('follow', {ROWS}, '60 s')")
            mirrors.must_have_all(gateway, "follow", ROWS)
