"""Tests of disclosure: callers, worlds that differ in a part that most callers may not read, and the operations of these callers."""
