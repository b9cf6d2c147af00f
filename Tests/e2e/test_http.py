"""HTTP as such: HEAD, CORS, pipelining, chunked uploads, 100-continue, gzip both ways, keep-alive, host names."""

import gzip
import json

import pytest
from harness.raw import Responses, raw_connection


def test_head_is_get_without_a_body(at):
    at.set(value={"a": 1})
    got, asked = at.get(), at.send("HEAD", at.url())
    assert (asked.status, asked.body) == (200, b"")
    for name in ("Content-Type", "Content-Length", "Cache-Control"):
        assert asked.headers[name] == got.headers[name]


def test_preflight(at):
    response = at.send("OPTIONS", at.url(), headers={
        "Origin": "https://app.example", "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "if-match, x-firebase-etag"})
    assert response.status in (200, 204)
    assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"
    allowed = response.headers["Access-Control-Allow-Methods"].upper()
    assert all(method in allowed for method in ("GET", "PUT", "POST", "PATCH", "DELETE"))
    granted = response.headers["Access-Control-Allow-Headers"].lower()
    assert granted == "*" or ("if-match" in granted and "x-firebase-etag" in granted)


def test_browsers_may_read_answers_and_tags(at):
    response = at.get(headers={"Origin": "https://app.example"})
    assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "etag" in response.headers["Access-Control-Expose-Headers"].lower()


def test_browsers_may_read_errors(at):
    response = at.put(body=b"{", headers={"Origin": "https://app.example"})
    assert response.status == 400
    assert response.headers["Access-Control-Allow-Origin"] == "https://app.example"


def test_options_says_what_is_allowed(at):
    assert at.send("OPTIONS", at.url()).status in (200, 204)


@pytest.mark.parametrize("method", ["TRACE", "PROPFIND", "LINK"])
def test_other_methods_are_refused(at, method):
    assert at.send(method, at.url()).status in (400, 405, 501)


def test_requests_in_one_packet_are_answered_in_order(dev, at):
    """Pipelining: each request sees the writes of the requests before it."""
    def request(method, body=""):
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        return f"{method} {at.url()} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n{body}"

    script = [("GET", "", None), ("PUT", '"one"', "one"), ("GET", "", "one"), ("HEAD", "", None), ("PUT", '"two"', "two"), ("GET", "", "two"), ("DELETE", "", None), ("GET", "", None)]
    with raw_connection(dev.port) as plain:
        plain.sendall("".join(request(method, body) for method, body, _ in script).encode())
        responses = Responses(plain)
        for method, _, expected in script:
            status, _, body = responses.next(method)
            assert status == 200
            if method != "HEAD":
                assert json.loads(body) == expected


def test_many_pipelined_writes(dev, at):
    with raw_connection(dev.port) as plain:
        responses = Responses(plain)
        plain.sendall(b"".join(f"PUT {at.url(f'p/{number}')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(str(number))}\r\n\r\n{number}".encode() for number in range(500)))
        seqs = []
        for number in range(500):
            status, headers, body = responses.next("PUT")
            assert (status, json.loads(body)) == (200, number)
            seqs.append(int(headers["X-Pathmirror-Seq"]))
    assert seqs == sorted(set(seqs))
    assert at.value("p") == list(range(500))


def test_a_request_byte_by_byte(dev, at):
    with raw_connection(dev.port) as plain:
        for byte in f"PUT {at.url()} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\n\"bytes\"".encode():
            plain.sendall(bytes([byte]))
        assert Responses(plain).next("PUT")[0] == 200
    assert at.value() == "bytes"


def test_a_chunked_upload(dev, at):
    with raw_connection(dev.port) as plain:
        plain.sendall(f"PUT {at.url()} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for part in (b'{"a"', b":", b"[1,2", b"]}"):
            plain.sendall(b"%x;extension=1\r\n%s\r\n" % (len(part), part))
        plain.sendall(b"0\r\nTrailer: x\r\n\r\n")
        status, _, body = Responses(plain).next("PUT")
    assert (status, json.loads(body)) == (200, {"a": [1, 2]})


def test_expect_100_continue(dev, at):
    with raw_connection(dev.port) as plain:
        responses = Responses(plain)
        plain.sendall(f"PUT {at.url()} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n".encode())
        assert responses.next("PUT")[0] == 100
        plain.sendall(b"true")
        assert responses.next("PUT")[0] == 200
    assert at.value() is True


def test_a_gzipped_upload(at):
    value = {"text": "abc" * 10_000}
    response = at.put(body=gzip.compress(json.dumps(value).encode()), headers={"Content-Encoding": "gzip"})
    assert response.status == 200
    assert at.value() == value


@pytest.mark.parametrize("body", [b"not gzip at all", gzip.compress(b'{"a":1}', mtime=0)[:-6], gzip.compress(b"1", mtime=0) + b"rubbish"])
def test_a_broken_gzip_upload(at, body):
    response = at.put(body=body, headers={"Content-Encoding": "gzip"})
    assert response.status == 400 and response.error
    assert at.value() is None


def test_an_unknown_encoding_is_refused(at):
    assert at.put(body=b"1", headers={"Content-Encoding": "br"}).status in (400, 415)
    assert at.value() is None


def test_a_small_upload_that_unpacks_without_end(at):
    """A gzip bomb: 400 MB of blanks in about 0.4 MB, where 256 MB is the limit."""
    packer = gzip.zlib.compressobj(9, gzip.zlib.DEFLATED, 31)
    blank = b" " * 1_000_000
    bomb = b"".join(packer.compress(blank) for _ in range(400)) + packer.compress(b"1") + packer.flush()
    assert at.put(body=bomb, headers={"Content-Encoding": "gzip"}).status in (400, 413)
    assert at.value() is None


def test_a_gzipped_answer(at):
    value = {f"k{number}": "some text that repeats" for number in range(2000)}
    at.set(value=value)
    packed = at.get(headers={"Accept-Encoding": "gzip, deflate"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "accept-encoding" in ", ".join(packed.headers.get_all("Vary")).lower()
    assert json.loads(gzip.decompress(packed.body)) == value
    assert len(packed.body) < 20_000
    plain = at.get()
    assert plain.headers["Content-Encoding"] is None and plain.json() == value
    assert at.get(headers={"Accept-Encoding": "gzip;q=0, identity"}).headers["Content-Encoding"] is None


def test_connections_are_kept_and_closed_as_asked(dev, at):
    with raw_connection(dev.port) as plain:
        responses = Responses(plain)
        for _ in range(3):
            plain.sendall(f"GET {at.url()} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert responses.next()[0] == 200
        plain.sendall(f"GET {at.url()} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        _, headers, _ = responses.next()
        assert headers["Connection"].lower() == "close"
        assert plain.recv(1) == b""


def test_http_1_0_closes(dev, at):
    with raw_connection(dev.port) as plain:
        plain.sendall(f"GET {at.url()} HTTP/1.0\r\n\r\n".encode())
        data = b""
        while more := plain.recv(65536):
            data += more
    assert data.split(b" ")[1] == b"200" and data.rstrip().endswith(b"null")


def test_namespaces_are_apart(dev, at, ns):
    there = at.at(ns=ns)
    at.set(value="default")
    there.set(value="other")
    assert (at.value(), there.value()) == ("default", "other")
    there.delete()
    assert at.value() == "default"


def test_each_namespace_counts_its_own_seqs(dev, ns):
    rest = dev.rest.at(ns=ns)
    assert [rest.set("x", number).seq for number in range(3)] == [1, 2, 3]


def test_the_host_name_says_the_namespace(dev, ns):
    rest = dev.rest.at(f"x{ns}")
    assert rest.put(value="by host", headers={"Host": f"{ns}.example.com"}).status == 200
    assert rest.value(ns=ns) == "by host"
    assert rest.value() is None
    # The parameter takes precedence over the host.
    other = rest.get(headers={"Host": "somewhere.example.com"}, ns=ns)
    assert other.json() == "by host"


def test_an_address_says_the_default_namespace(dev, at):
    at.set(value=1)
    for host in (f"127.0.0.1:{dev.port}", f"localhost:{dev.port}", "[::1]:9000"):
        assert at.get(headers={"Host": host}).json() == 1


def test_min_seq_waits_for_what_others_write(dev, ns):
    rest = dev.rest.at(ns=ns)
    rest.set("x", 1)
    answer = rest.get("x", headers={"X-Pathmirror-Min-Seq": "1"})
    assert answer.status == 200 and answer.seq >= 1


def test_min_seq_gives_up_in_the_end(dev, ns):
    rest = dev.rest.at(ns=ns)
    rest.set("x", 1)
    response = rest.get("x", headers={"X-Pathmirror-Min-Seq": "1000000"}, timeout="300ms")
    assert response.status in (400, 408, 503, 504) and response.error
