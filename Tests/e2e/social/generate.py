#!/usr/bin/env python3
"""Generates the social-blog data set: posts, each author's copy of them, stars, comments, users.

    python3 generate.py --leaves 1000000 > blog.json        about that many leaves, piece by piece
    python3 generate.py --mirrors > mirrors.json            the mirrors for it
"""

import argparse
import json
import random
import sys

_PUSH = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_WORDS = "the quick brown fox jumps over a lazy dog while seven gulls watch from old roofs".split()
_START = 1_760_000_000_000
_WEEK = 7 * 86_400_000
# Leaves that a post makes on the average, both copies and its comments counted.
_LEAVES_A_POST = 37

_POST = {
    "author": {"type": "text", "not null": "skip"}, "title": "text", "body": "text",
    "star_count": {"type": "bigint", "path": "starCount", "default": 0},
    "stars": {"type": "text[]", "comment": "Who gave a star"}, "created_at": {"type": "timestamptz", "path": "createdAt"},
}
MIRRORS = [
    {"name": "users", "path": "/users/{uid}", "columns": {
        "name": "text", "email": "text", "joined_at": {"type": "timestamptz", "path": "joinedAt"}}},
    {"name": "posts", "path": "/posts/{post_id}", "columns": _POST, "rest": "rest", "indexes": [["author"], ["created_at"]]},
    {"name": "user_posts", "path": "/user-posts/{uid}/{post_id}", "columns": _POST, "rest": "rest"},
    {"name": "comments", "path": "/post-comments/{post_id}/{comment_id}", "columns": {
        "author": "text", "text": "text", "created_at": {"type": "timestamptz", "path": "createdAt"}}},
]


def push_id(time: int, dice: random.Random) -> str:
    text = ""
    for _ in range(8):
        text = _PUSH[time % 64] + text
        time //= 64
    return text + "".join(dice.choices(_PUSH, k=12))


def _sentence(dice: random.Random, most: int) -> str:
    return " ".join(dice.choices(_WORDS, k=dice.randint(2, most)))


def _users(count: int, dice: random.Random):
    for number in range(count):
        yield f"user{number}", {"name": f"User {number}", "email": f"user{number}@example.com",
                                "joinedAt": _START - dice.randrange(100 * _WEEK)}


def _posts(users: int, count: int, dice: random.Random):
    """(id, post, comments by id) of each post, in order of time."""
    for number in range(count):
        time = _START + number * (4 * _WEEK) // max(count, 1)
        # Few people write much, and many little.
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


def blog(users: int, posts: int, seed: int) -> dict:
    """The whole tree, for small ones."""
    dice = random.Random(seed)
    tree = {"users": dict(_users(users, dice)), "posts": {}, "user-posts": {}, "post-comments": {}}
    for name, post, comments in _posts(users, posts, dice):
        tree["posts"][name] = post
        tree["user-posts"].setdefault(post["author"], {})[name] = post
        if comments:
            tree["post-comments"][name] = comments
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mirrors", action="store_true")
    arguments = parser.parse_args()
    if arguments.mirrors:
        json.dump(MIRRORS, sys.stdout, indent=2)
        return
    posts = max(1, arguments.leaves // _LEAVES_A_POST)
    json.dump(blog(max(1, posts // 20), posts, arguments.seed), sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main()
