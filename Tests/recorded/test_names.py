"""Values that names replace, and others."""

import pytest
from names import Names

ID, OTHER = b"0123456789abcdef0123456789abcdef", b"fedcba9876543210fedcba9876543210"


def name(data: bytes) -> bytes:
    return Names().apply(data)


@pytest.mark.parametrize("data, expected", [
    (b"Date: Sun, 22 Nov 2026 09:55:49 GMT\r\n", b"Date: <date> GMT\r\n"),
    (b'"committedAt":"2026-11-22T09:55:49.847Z"', b'"committedAt":"<time>Z"'),
    (b"made 2026-11-22T09:55:49Z", b"made <time in seconds>Z"),
    (b"2026-11-22 09:55:49.847123+00", b"<SQL time>+00"),
    (b'{"ts":1795342597123,"v":"5"}', b'{"ts":<ms>,"v":"5"}'),
    (b"event: put\nid: 21-0bY1T2qLrXcWmN3e0bY1T2qL\ndata: null\n\n", b"event: put\nid: 21-<seal 1>\ndata: null\n\n"),
    (b'{"name":"-P71fjEN9EciUk3Q-_zE"}', b'{"name":"<push id 1>"}'),
    (b'"s":"' + ID + b'"', b'"s":"<session id 1>"'),
    (b'{"ts":1795342597123,"s":"bd0fae1795342597123b7a52a9e56cfe"}', b'{"ts":<ms>,"s":"<session id 1>"}'),
    (b'"batch":"00112233-4455-6677-8899-1795342597ff"', b'"batch":"<uuid 1>"'),
    (b"pLPCommand('start','" + ID + b"','" + OTHER + b"');", b"pLPCommand('start','<session id 1>','<password 1>');"),
    (b'"batch":"00112233-4455-6677-8899-aabbccddeeff"', b'"batch":"<uuid 1>"'),
    (b'{"iat":1795342597,"exp":1795346197}', b'{"iat":<seconds>,"exp":<seconds>}'),
    (b"iat  1795342597  (x)", b"iat  <seconds>  (x)"),
    (b"rows=2 milliseconds=17\n", b"rows=2 milliseconds=<figure>\n"),
    (b"import: 2 leaves in 0.3 s, 117 a second\n", b"import: 2 leaves in <speed>\n"),
    (b"auth=eyJhbGciOiJIUzI1NiJ9.eyJ2IjowfQ.abc-_9 HTTP", b"auth=<token 1> HTTP")])
def test_what_varies_has_a_name(data, expected):
    assert name(data) == expected


@pytest.mark.parametrize("data", [
    b"Date: sometime", b"Date: Sun, 22 Nov 2026 09:55:49 CET", b"id: 21-short\n", b"x\nid: 21-0bY1T2qLrXcWmN3e0bY1T2qLx\n", b'"name":"-P71fjEN9EciUk3Q-_z"', b'"s":"0123"',
    b'"ts":179534259712', b'"n":17953425971234', b"179534259.7123", b'"n":1795342597', b"X-Pathmirror-Seq: 12\r\n", b"Content-Length: 1795\r\n", b"1999-12-31T23:59:59.000Z",
    b"\xff\x00\xfe", b"", b"in 3 s, x a second"])
def test_all_else_is_as_it_came(data):
    assert name(data) == data


def test_a_longer_or_shorter_id_is_no_id():
    for wrong in (ID[:-1], ID[:-1].upper() + b"G"):
        assert name(b'"s":"' + wrong + b'"') == b'"s":"' + wrong + b'"'


def test_ids_are_numbered_in_the_order_in_which_they_appear():
    names = Names()
    first, second = b'"-P71fjEN9EciUk3Q-_zE"', b'"-P71fjEN9EciUk3Q-_zF"'
    assert names.apply(first + second + first) == b'"<push id 1>""<push id 2>""<push id 1>"'
    assert names.apply(second) == b'"<push id 2>"'
    # In another play the same id gets a number of its own.
    assert Names().apply(second) == b'"<push id 1>"'


def test_what_was_seen_once_is_known_wherever_it_stands():
    names = Names()
    names.apply(b'"s":"' + ID + b'"')
    assert names.apply(b"GET /.ws?v=5&ls=" + ID + b" HTTP/1.1") == b"GET /.ws?v=5&ls=<session id 1> HTTP/1.1"


def test_what_a_play_knows_beforehand():
    names = Names()
    names.learn("127.0.0.1:20123", "127.0.0.1:port")
    names.learn(b"/tmp/scratch", "scratch")
    names.learn("/tmp/scratch/play", "directory")
    names.learn("", "nothing")
    assert names.apply(b"http://127.0.0.1:20123/ /tmp/scratch/play/x /tmp/scratch/y") == b"http://<127.0.0.1:port>/ <directory>/x <scratch>/y"
    names.learn("127.0.0.1:20123", "another name")
    assert names.apply(b"127.0.0.1:20123") == b"<127.0.0.1:port>"
