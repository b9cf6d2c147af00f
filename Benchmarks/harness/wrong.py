"""The error that makes a suite void."""


class Wrong(Exception):
    """The answers are not those that a benchmark may count."""
