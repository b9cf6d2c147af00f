"""What makes a suite void."""


class Wrong(Exception):
    """The answers were not what a benchmark may count."""
