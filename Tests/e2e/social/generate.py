#!/usr/bin/env python3
"""Generates the social-blog data set: posts, each author's copy of them, stars, comments, users.

    python3 generate.py --leaves 1000000 > blog.json        about that many leaves

The mirrors for it are in mirrors.json.
"""

import argparse
import json
import random
import sys
from pathlib import Path

_PUSH = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_WORDS = "the quick brown fox jumps over a lazy dog while seven gulls watch from old roofs".split()
_WEEK = 7 * 86_400_000
# Posts are spread over the four weeks before it.
_END = 1_760_000_000_000 + 4 * _WEEK
# The average number of leaves for a post: both copies, its comments and its share of a user.
_LEAVES_A_POST = 33.7

# The countries of users.
_COUNTRIES = "AR AU BR CA DE EG ES FI FR IN IT JP KE MX NG NL NO PL SE TR UA US VN ZA".split()

# Includes the mirrors of the ISO lists, which are from a Debian package: see test_reports.py.
MIRRORS = json.loads((Path(__file__).parent / "mirrors.json").read_text())


def push_id(time: int, dice: random.Random) -> str:
    text = ""
    for _ in range(8):
        text = _PUSH[time % 64] + text
        time //= 64
    return text + "".join(dice.choices(_PUSH, k=12))


def _sentence(dice: random.Random, most: int) -> str:
    return " ".join(dice.choices(_WORDS, k=dice.randint(2, most)))


def _users(count: int, end: int, dice: random.Random):
    for number in range(count):
        yield f"user{number}", {"name": f"User {number}", "email": f"user{number}@example.com",
                                "country": dice.choice(_COUNTRIES), "joinedAt": end - 4 * _WEEK - dice.randrange(100 * _WEEK)}


def _posts(users: int, count: int, end: int, dice: random.Random):
    """(id, post, comments by id) of each post, in order of time."""
    for number in range(count):
        time = end - 4 * _WEEK + number * (4 * _WEEK) // max(count, 1)
        # Few people write much, and many write little.
        author = f"user{int(users * dice.random() ** 2)}"
        stars = {f"user{dice.randrange(users)}": True for _ in range(dice.randrange(8))}
        post = {"author": author, "title": _sentence(dice, 6), "body": _sentence(dice, 30), "starCount": len(stars),
                "createdAt": time}
        if stars:
            post["stars"] = stars
        comments = {push_id(time + index, dice): {
            "author": f"user{dice.randrange(users)}", "text": _sentence(dice, 12), "createdAt": time + 60_000 * index}
            for index in range(dice.randrange(12))}
        yield push_id(time, dice), post, comments


def blog(users: int, posts: int, seed: int, end: int = _END) -> dict:
    """The whole tree; `end` is in milliseconds since 1970."""
    dice = random.Random(seed)
    tree = {"users": dict(_users(users, end, dice)), "posts": {}, "user-posts": {}, "post-comments": {}}
    for name, post, comments in _posts(users, posts, end, dice):
        tree["posts"][name] = post
        tree["user-posts"].setdefault(post["author"], {})[name] = post
        if comments:
            tree["post-comments"][name] = comments
    return tree


def blog_of(leaves: int, seed: int = 1, end: int = _END) -> dict:
    """A tree of about `leaves` leaves."""
    posts = max(1, int(leaves / _LEAVES_A_POST))
    return blog(max(1, posts // 20), posts, seed, end)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--end", type=int, default=_END, help="when the last post is written, in milliseconds since 1970")
    arguments = parser.parse_args()
    json.dump(blog_of(arguments.leaves, arguments.seed, arguments.end), sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main()
