"""The reports of docs/guides/reports.md on a blog of a million leaves and the ISO lists. Each test compares a report with the result of
Python code on the output of `pathmirror export` and `pathmirror replay log`.

PATHMIRROR_SOCIAL_LEAVES sets another size."""

import json
import os
import re
import time
from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psycopg
import pytest
from harness import cli, sql
from harness.binary import REPOSITORY
from harness.gateway import start_serve
from harness.process import peak_resident_bytes
from harness.scratch import scratch_directory
from psycopg.rows import dict_row
from social import generate

LEAVES = int(os.environ.get("PATHMIRROR_SOCIAL_LEAVES", 1_000_000))
ISO = Path("/usr/share/iso-codes/json")

pytestmark = pytest.mark.skipif(not ISO.exists(), reason="needs the Debian package iso-codes")


# The page has its own namespace and schema; this data set is in the default ones.
DOCUMENT = (REPOSITORY / "docs" / "guides" / "reports.md").read_text().replace("'magazine'", "'default'").replace(" magazine.", " mirror.")
# The headings of the reports.
WAITING, AUTHORS, PLACES = "Wait for the newest write", "Top authors of the week", "Find copies that differ"
COUNTRIES, ONLINE, WITHOUT_MIRRORS = "Join two collections", "Hours online", "A report without mirrors"


def report(heading: str) -> str:
    """The sql block of docs/guides/reports.md below a heading."""
    found = re.findall(rf"^## {re.escape(heading)}\n(?:(?!```).)*```sql\n(.*?)```", DOCUMENT, re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"docs/guides/reports.md has {len(found)} reports below {heading!r}"
    return found[0]


class Blog:
    """The data set in a database, with mirrors and a gateway that has written to it since."""

    def __init__(self, gateway, url: str, folder: Path):
        self.gateway, self.url, self.folder = gateway, url, folder
        self.seconds: dict[str, float] = {}
        self.broken: list[tuple[str, str, str]] = []

    def timed(self, what: str, work):
        start = time.monotonic()
        result = work()
        self.seconds[what] = time.monotonic() - start
        return result

    def run(self, beginning: str) -> tuple[list[tuple], datetime]:
        """The rows of a report, and its now()."""
        with psycopg.connect(self.url) as connection:
            now = connection.execute("select now()").fetchone()[0]
            rows = self.timed(beginning, lambda: connection.execute(report(beginning)).fetchall())
            return rows, now

    def table(self, query: str) -> list[dict]:
        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def blog(postgres, logs):
    url = postgres.create_database()
    with scratch_directory("reports") as folder:
        gateway = start_serve(url, folder, logs, name="reports")
        try:
            made = Blog(gateway, url, folder)
            fill(made)
            yield made
            print("\nseconds:", ", ".join(f"{what} {seconds:.1f}" for what, seconds in made.seconds.items()))
            print(f"the gateway's peak: {peak_resident_bytes(gateway.process.pid) >> 20} MiB")
        finally:
            gateway.sweep()


def fill(blog: Blog):
    now = int(time.time() * 1000)
    tree = blog.timed("making", lambda: generate.blog_of(LEAVES, end=now))
    tree["iso"] = iso_lists()
    file = blog.folder / "blog.json"
    blog.timed("writing", lambda: file.write_text(json.dumps(tree)))
    blog.timed("import", lambda: cli.succeeds("import", file, "--database-url", blog.url))
    definitions = REPOSITORY / "Tests" / "e2e" / "social" / "mirrors.json"
    blog.timed("mirrors", lambda: cli.succeeds("mirror", "apply", definitions, "--yes", "--database-url", blog.url))
    blog.timed("writes", lambda: write_on(blog, tree, now))
    blog.timed("wait", lambda: sql.rows(blog.url, report(WAITING)))
    blog.export = blog.folder / "export.json"
    blog.timed("export", lambda: cli.succeeds("export", "--output", blog.export, "--database-url", blog.url))
    blog.tree = json.loads(blog.export.read_bytes())


def iso_lists() -> dict:
    def lists(name: str, key: str) -> dict:
        return {entry[key]: entry for entry in json.loads((ISO / f"iso_{name}.json").read_text())[name]}

    return {"countries": lists("3166-1", "alpha_2"), "languages": lists("639-3", "alpha_3")}


def write_on(blog: Blog, tree: dict, now: int):
    """Writes as clients do: posts and stars in both paths at once, presence, and some updates without the copy."""
    rest = blog.gateway.rest
    for number in range(40):
        author = f"user{number % 3}"
        post = {"author": author, "title": f"New {number}", "body": "…", "starCount": 0, "createdAt": now + number}
        assert rest.patch("", {f"posts/new{number}": post, f"user-posts/{author}/new{number}": post}).status == 200
        starred = {f"{place}/new{number}/{what}": value for place in ("posts", f"user-posts/{author}")
                   for what, value in (("stars/fan", True), ("starCount", {".sv": {"increment": 100 + number}}))}
        assert rest.patch("", starred).status == 200

    some = list(tree["posts"].items())[7::max(1, len(tree["posts"]) // 12)][:12]
    for (name, post), fault in zip(some, ("no copy", "only a copy", "different", "different") * 3):
        copy = f"user-posts/{post['author']}/{name}"
        if fault == "no copy":
            rest.delete(copy)
        elif fault == "only a copy":
            rest.delete(f"posts/{name}")
        else:
            rest.set(f"posts/{name}/{'title' if len(blog.broken) % 2 else 'lang'}", "another")
        blog.broken.append((name, post["author"], fault))

    presence(blog)


def presence(blog: Blog):
    rest = blog.gateway.rest
    for step in range(120):
        who = f"user{step % 11}"
        if step % 17 == 16:
            rest.delete(f"presence/{who}")
        elif step % 5 == 4:
            rest.set(f"presence/{who}", {"online": step % 2 == 0, "since": {".sv": "timestamp"}})
        else:
            rest.set(f"presence/{who}/online", step % 3 != 0)
    # Makes the presence of weeks from milliseconds; a part of it is older than the period of the report.
    sql.execute(blog.url, "update pathmirror.log set committed_at = date_trunc('milliseconds', now()) - (namespace.head - seq) * (namespace.head - seq) * interval '5 minutes' "
                "from pathmirror.namespace where namespace.id = log.namespace_id")


def this_week(blog: Blog, now: datetime) -> list[tuple[str, dict]]:
    since = (now - timedelta(days=7)).timestamp() * 1000
    return [(name, post) for name, post in blog.tree["posts"].items() if post["createdAt"] >= since]


def test_the_tables_hold_every_record(blog):
    def moment(milliseconds: int) -> datetime:
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)

    def post(value: dict) -> tuple:
        rest = {name: part for name, part in value.items()
                if name not in ("author", "title", "body", "starCount", "stars", "createdAt")}
        return (value["author"], value["title"], value["body"], value["starCount"], sorted(value.get("stars", {})) or None,
                moment(value["createdAt"]), rest or None)

    columns = "author, title, body, star_count, stars, created_at, rest"
    tree = blog.tree
    assert {row[0]: (*row[1:5], sorted(row[5]) if row[5] else None, *row[6:])
            for row in sql.rows(blog.url, f"select post_id, {columns} from mirror.posts")} \
        == {name: post(value) for name, value in tree["posts"].items()}
    assert {row[:2]: (*row[2:6], sorted(row[6]) if row[6] else None, *row[7:])
            for row in sql.rows(blog.url, f"select uid, post_id, {columns} from mirror.user_posts")} \
        == {(uid, name): post(value) for uid, posts in tree["user-posts"].items() for name, value in posts.items()}
    assert {row[:2]: row[2:] for row in sql.rows(
        blog.url, "select post_id, comment_id, author, text, created_at from mirror.comments")} == {
        (name, key): (comment["author"], comment["text"], moment(comment["createdAt"]))
        for name, comments in tree["post-comments"].items() for key, comment in comments.items()}
    assert {row[0]: row[1:] for row in sql.rows(blog.url, "select uid, name, email, country, joined_at from mirror.users")} == {
        uid: (user["name"], user["email"], user["country"], moment(user["joinedAt"])) for uid, user in tree["users"].items()}


def test_the_tables_hold_the_iso_lists(blog):
    lists = iso_lists()
    assert len(lists["countries"]) > 200 and len(lists["languages"]) > 7000
    assert {row[0]: row[1:] for row in sql.rows(
        blog.url, "select code, name, alpha_3, numeric, flag from mirror.countries")} == {
        code: (entry["name"], entry["alpha_3"], entry["numeric"], entry["flag"]) for code, entry in lists["countries"].items()}
    assert {row[0]: row[1:] for row in sql.rows(blog.url, "select code, name, scope, type from mirror.languages")} == {
        code: (entry["name"], entry["scope"], entry["type"]) for code, entry in lists["languages"].items()}


def test_top_authors_by_stars_this_week(blog):
    rows, now = blog.run(AUTHORS)
    stars, posts = Counter(), Counter()
    for _, post in this_week(blog, now):
        stars[post["author"]] += post["starCount"]
        posts[post["author"]] += 1
    assert 0 < len(this_week(blog, now)) < len(blog.tree["posts"])
    assert rows == [(author, stars[author], posts[author])
                    for author in sorted(stars, key=lambda author: (-stars[author], author))[:10]]


def test_posts_whose_places_do_not_agree(blog):
    rows, _ = blog.run(PLACES)
    first = {(post["author"], name): post for name, post in blog.tree["posts"].items()}
    second = {(uid, name): post for uid, posts in blog.tree["user-posts"].items() for name, post in posts.items()}
    counted = [(name, author, "no copy") for author, name in first.keys() - second.keys()]
    counted += [(name, author, "only a copy") for author, name in second.keys() - first.keys()]
    counted += [(name, author, "different") for author, name in first.keys() & second.keys()
                if first[author, name] != second[author, name]]
    assert rows == sorted(counted)
    assert rows == sorted(blog.broken) and len(rows) == 12


def test_where_authors_live(blog):
    rows, now = blog.run(COUNTRIES)
    posts, authors = Counter(), defaultdict(set)
    for _, post in this_week(blog, now):
        name = blog.tree["iso"]["countries"][blog.tree["users"][post["author"]]["country"]]["name"]
        posts[name] += 1
        authors[name].add(post["author"])
    assert rows == [(name, len(authors[name]), posts[name]) for name in sorted(posts, key=lambda name: (-posts[name], name))]


def test_how_long_everybody_was_online(blog):
    rows, now = blog.run(ONLINE)
    lines = cli.objects(cli.succeeds("replay", "log", "--path", "/presence", "--database-url", blog.url))
    since, online, passed = {}, defaultdict(timedelta), 0

    def says(who: str, is_online: bool, moment: datetime):
        if who in since:
            online[who] += moment - since.pop(who)
        if is_online:
            since[who] = moment

    # The import's parts are lines, too; they have no time.
    for line in (line for line in lines if "op" in line):
        moment = datetime.fromisoformat(line["committedAt"])
        if moment <= now - timedelta(days=30):
            passed += 1
            continue
        for path, value in line["changes"].items():
            keys = path.strip("/").split("/")
            if len(keys) == 2:
                says(keys[1], bool(value and value["online"]), moment)
            elif len(keys) == 3:
                says(keys[1], value, moment)
    for who in list(since):
        says(who, False, now)
    assert len(rows) == 11 and passed > 20
    assert rows == [(uid, int(total.total_seconds() // 3600)) for uid, total in sorted(online.items(), key=lambda pair: (-pair[1], pair[0]))]


def test_fan_out_lists_without_mirrors(serve, database_url):
    rest = serve().rest
    rest.set(value={"posts": {"1": {"author": "ada"}, "9": {"author": "eve"}}, "user-posts": {"ada": {"1": {"author": "ada"}}}})
    assert sql.rows(database_url, report(WITHOUT_MIRRORS)) == [("9", "eve")]


def test_there_are_no_other_reports():
    # This section has data of its own, and test_documentation.py compares its rows.
    others = re.sub(r"^## Revenue per month\n.*?(?=^## )", "", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
    assert {report(beginning) for beginning in (WAITING, AUTHORS, PLACES, COUNTRIES, ONLINE, WITHOUT_MIRRORS)} \
        == set(re.findall(r"```sql\n(.*?)```", others, re.DOTALL))
