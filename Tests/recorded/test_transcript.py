"""Bytes as lines: different bytes have different lines."""

import pytest
from names import Names
from transcript import LONGEST_LINE, Transcript, lines_of, visible


@pytest.mark.parametrize("data, lines", [
    (b"", []), (b"\n", ["\\n"]), (b"a", ["a"]), (b"a\r\nb\n\nc", ["a\\r\\n", "b\\n", "\\n", "c"]), (b"a\n", ["a\\n"]), (b"\r", ["\\r"]), (b"a\rb\x0bc", ["a\\rb\\x0bc"])])
def test_lines_end_where_a_line_feed_is(data, lines):
    assert lines_of(data) == lines


def test_each_byte_is_seen():
    seen = {visible(bytes([byte])) for byte in range(256)}
    assert len(seen) == 256
    # An escape differs from a text that looks like it.
    assert visible(b"\\n") != visible(b"\n") and visible(b"\\xff") != visible(b"\xff") and visible(b"\\") == "\\\\"


@pytest.mark.parametrize("text", ["é", "🎈", "\u2028", "\ufeff", "\u200b", "\u0085"])
def test_characters_that_look_alike_differ(text):
    assert visible(text.encode()) not in (visible(b""), visible(b" "), visible(b"\n"))
    assert visible(text.encode()) != visible(text.encode("unicode_escape"))


def test_invalid_utf8_is_escaped_by_bytes():
    assert visible(b"a\xffb\xc3") == "a\\xffb\\xc3"
    assert visible("é".encode()[:1]) == "\\xc3"


def test_a_long_line_is_its_beginning_and_its_digest():
    long = b"x" * (LONGEST_LINE + 1)
    [line] = lines_of(long)
    assert line.startswith("x" * LONGEST_LINE) and f"{LONGEST_LINE + 1} characters" in line
    assert lines_of(long[:-1]) == ["x" * LONGEST_LINE]
    for changed in (long[:-1] + b"y", long + b"x"):
        assert lines_of(changed) != [line]


def test_who_said_what():
    transcript = Transcript(Names())
    transcript.sent("a", b"GET / HTTP/1.1\r\n\r\n")
    transcript.came("a", b'{"ts":1795342597123}')
    transcript.event("a", "closed by the server")
    transcript.note("a note")
    assert transcript.text() == 'a > GET / HTTP/1.1\\r\\n\na > \\r\\n\na < {"ts":<ms>}\na ! closed by the server\n# a note\n'
