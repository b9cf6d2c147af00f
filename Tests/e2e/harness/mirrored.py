"""A gateway with mirrors, as an analyst and an operator have it."""

import json
from pathlib import Path

from . import cli, sql
from .waiting import wait_until

POSTS = {
    "name": "posts", "path": "/posts/{post_id}", "comment": "What people wrote",
    "columns": {
        "author": {"type": "text", "not null": "skip", "comment": "It's a uid"},
        "title": "text",
        "star_count": {"type": "bigint", "path": "starCount", "default": 0},
        "created_at": {"type": "timestamptz", "path": "createdAt"},
        "tags": "text[]",
    },
    "rest": "rest", "indexes": [["author"], ["tags"]],
}
USER_POSTS = {**POSTS, "name": "user_posts", "path": "/user-posts/{uid}/{post_id}", "comment": "The same, by author"}


class Mirrored:
    """A gateway with its database, and the command line for both."""

    def __init__(self, serve, database_url, scratch):
        self.url, self.scratch = database_url, scratch
        self.gateway = serve()
        self.rest = self.gateway.rest

    def file(self, *definitions) -> Path:
        path = self.scratch / "mirrors.json"
        path.write_text(json.dumps(list(definitions)))
        return path

    def apply(self, *definitions) -> list[dict]:
        return cli.objects(self.run("apply", self.file(*definitions), "--yes", "--json"))

    def run(self, *words) -> str:
        return cli.succeeds("mirror", *words, "--database-url", self.url)

    def command(self, *words):
        """Runs a command. Any exit status is allowed."""
        return cli.command(*words, "--database-url", self.url)

    def run_replay(self, name: str, *words) -> dict:
        return json.loads(cli.succeeds("replay", "mirror", name, *words, "--json", "--database-url", self.url))

    def verify(self) -> str:
        return cli.verify("--database-url", self.url)

    def rows(self, query: str) -> list[tuple]:
        return sql.rows(self.url, query)

    def caught_up(self):
        """Waits until every mirror has reached the head."""
        wait_until(lambda: self.rows(
            "select coalesce(bool_and(seq is not distinct from head), true) from pathmirror.mirror_status")[0][0], "the mirrors to catch up", 60)
