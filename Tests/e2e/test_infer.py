"""`mirror infer` on the data of chats, a small team, shops, presence, ISO's lists and vega's data sets: `proposals/` keeps the proposals,
and `mirror apply` accepts them.

After an intended change, PATHMIRROR_WRITE_PROPOSALS=1 writes them again: read them before you commit them."""

import json
import os
from pathlib import Path

import pytest
from harness import cli
from vega_datasets import local_data

PROPOSALS = Path(__file__).parent / "proposals"
ISO = Path("/usr/share/iso-codes/json")


def iso():
    return {"iso": {name: json.loads((ISO / f"iso_{name}.json").read_text())[name] for name in ("3166-1", "4217", "15924")}}


def vega():
    return {"vega": {name: json.loads(Path(getattr(local_data, name).filepath).read_text()) for name in ("cars", "barley", "iris", "burtin", "driving")}}


@pytest.mark.parametrize("name", ["chat", "team", "shop", "presence", "iso", "vega"])
def test_the_proposal_is_the_one_that_is_kept(mirrored, name):
    data = {"iso": iso, "vega": vega}.get(name, lambda: json.loads((PROPOSALS / f"{name}.json").read_text()))()
    file = mirrored.scratch / "data.json"
    file.write_text(json.dumps(data))
    cli.succeeds("import", file, "--database-url", mirrored.url)
    found = cli.command("mirror", "infer", "/", "--database-url", mirrored.url)
    assert found.returncode == 0, found.stderr
    kept = PROPOSALS / f"{name}.txt"
    text = f"{found.stderr}\n{found.stdout}"
    if os.environ.get("PATHMIRROR_WRITE_PROPOSALS"):
        kept.write_text(text)
    assert text == kept.read_text()

    # The predicted conversion errors are those of `mirror apply`.
    wanted = {}
    for inferred in cli.objects(cli.succeeds("mirror", "infer", "/", "--json", "--database-url", mirrored.url)):
        wanted[inferred["definition"]["name"]] = (inferred["records"], sum(column["misfits"] for column in inferred["evidence"]))
    definitions = mirrored.scratch / "mirrors.json"
    definitions.write_text(found.stdout)
    applied = cli.objects(cli.succeeds("mirror", "apply", definitions, "--yes", "--json", "--database-url", mirrored.url))
    assert {plan["name"]: (plan["rows"], plan["misfits"]) for plan in applied} == wanted
    cli.verify("--database-url", mirrored.url)


def test_a_small_team_that_grows_needs_no_other_columns(mirrored):
    cli.succeeds("import", PROPOSALS / "team.json", "--database-url", mirrored.url)
    definitions = mirrored.scratch / "mirrors.json"
    cli.succeeds("mirror", "infer", "/", "--output", definitions, "--database-url", mirrored.url)
    cli.succeeds("mirror", "apply", definitions, "--yes", "--database-url", mirrored.url)
    data = json.loads((PROPOSALS / "team.json").read_text())
    votes = "select name, sum(value)::int from mirror.doc_votes join mirror.users using (user_id) group by 1 order by name"
    expected = {user["name"]: sum(doc.get("votes", {}).get(key, 0) for doc in data["docs"].values()) for key, user in data["users"].items()}
    assert mirrored.rows(votes) == sorted(expected.items())
    document = next(iter(data["docs"]))
    written = mirrored.rest.send("PATCH", "/.json", json.dumps({
        "users/eve": {"name": "Eve"}, f"docs/{document}/votes/eve": 1, f"docs/{document}/perms/eve": "read", "minutes/2026-02-28/eve": 60}).encode())
    assert written.status == 200
    mirrored.caught_up()
    assert ("Eve", 1) in mirrored.rows(votes)
    # Days are days.
    weeks = "select date_trunc('week', date)::date::text, sum(value)::int from mirror.minutes where user_id = 'eve' group by 1"
    assert mirrored.rows(weeks) == [("2026-02-23", 60)]
    assert mirrored.rows("select misfits from (select count(*) as misfits from pathmirror.mirror_error) as found") == [(0,)]
    cli.verify("--database-url", mirrored.url)


def test_children_join_with_their_parents(mirrored):
    file = PROPOSALS / "shop.json"
    cli.succeeds("import", file, "--database-url", mirrored.url)
    definitions = mirrored.scratch / "mirrors.json"
    cli.succeeds("mirror", "infer", "/orders", "--output", definitions, "--database-url", mirrored.url)
    cli.succeeds("mirror", "apply", definitions, "--yes", "--database-url", mirrored.url)
    orders = json.loads(file.read_text())["orders"]
    expected = sorted((key, len(order["items"]), sum(item["count"] for item in order["items"])) for key, order in orders.items())
    joined = "select order_id, count(*), sum(count)::int from mirror.orders join mirror.order_items using (order_id) group by 1 order by order_id collate \"C\""
    assert mirrored.rows(joined) == expected
    # Both follow the log.
    key = expected[0][0]
    written = mirrored.rest.send("PUT", f"/orders/{key}/items/7.json", b'{"sku": "sku-001", "count": 5, "price": "2.00"}')
    assert written.status == 200
    mirrored.caught_up()
    assert mirrored.rows(f"select item_index, count from mirror.order_items where order_id = '{key}' and count = 5") == [(7, 5)]
    mirrored.rest.send("DELETE", f"/orders/{key}.json")
    mirrored.caught_up()
    assert key not in {row[0] for row in mirrored.rows("select order_id from mirror.order_items union select order_id from mirror.orders")}
