"""A plain REST client: keep-alive, one connection a thread, no retries, nothing hidden."""

import http.client
import json
import threading
import time
import uuid
from dataclasses import dataclass
from urllib.parse import quote

_UNSET = object()


@dataclass
class Response:
    """A complete response."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self):
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The text of `{"error": …}`."""
        return self.json()["error"]

    @property
    def etag(self) -> str | None:
        return self.headers["ETag"]

    @property
    def seq(self) -> int:
        return int(self.headers["X-Pathmirror-Seq"])


def query_string(params: dict) -> str:
    return "&".join(f"{quote(name, safe='$')}={quote(str(value), safe='')}" for name, value in params.items())


class Rest:
    """A location of one server. `at` goes deeper; parameters and headers given here go with every request."""

    def __init__(self, port: int, base: str = "", params: dict | None = None, headers: dict | None = None,
                 patience: float = 60):
        self.port, self.base, self.patience = port, base.strip("/"), patience
        self.params, self.headers = params or {}, headers or {}
        self._mine = threading.local()

    def at(self, path: str = "", **params) -> "Rest":
        joined = "/".join(part for part in (self.base, path.strip("/")) if part)
        return Rest(self.port, joined, {**self.params, **params}, self.headers, self.patience)

    def unique(self) -> "Rest":
        """A location that no other test uses."""
        return self.at(f"t{uuid.uuid4().hex}")

    def with_headers(self, **headers) -> "Rest":
        return Rest(self.port, self.base, self.params,
                    {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}, self.patience)

    def url(self, path: str = "", **params) -> str:
        """Path and query of a location, as sent in the request line."""
        joined = "/".join(part for part in (self.base, path.strip("/")) if part)
        query = query_string({**self.params, **params})
        return f"/{quote(joined, safe='/')}.json" + (f"?{query}" if query else "")

    def send(self, method: str, target: str, body: bytes | None = None, headers: dict | None = None) -> Response:
        """One exchange at a target written out by the caller."""
        connection = getattr(self._mine, "connection", None)
        if connection is not None and time.monotonic() - self._mine.used > 20:
            # The server may close a connection that was idle for long at the moment of our request.
            self.close()
            connection = None
        self._mine.used = time.monotonic()
        if connection is None:
            connection = self._mine.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        try:
            connection.request(method, target, body, {**self.headers, **(headers or {})})
            answer = connection.getresponse()
            response = Response(answer.status, answer.headers, answer.read())
        except BaseException:
            self.close()
            raise
        if answer.will_close:
            self.close()
        return response

    def close(self):
        """Closes this thread's connection."""
        connection = getattr(self._mine, "connection", None)
        if connection is not None:
            connection.close()
            self._mine.connection = None

    def _call(self, method, path, value, body, headers, params) -> Response:
        if value is not _UNSET:
            body = json.dumps(value, ensure_ascii=False).encode()
        return self.send(method, self.url(path, **params), body, headers)

    def get(self, path: str = "", headers: dict | None = None, **params) -> Response:
        return self._call("GET", path, _UNSET, None, headers, params)

    def put(self, path: str = "", value=_UNSET, body: bytes | None = None, headers: dict | None = None, **params):
        return self._call("PUT", path, value, body, headers, params)

    def post(self, path: str = "", value=_UNSET, body: bytes | None = None, headers: dict | None = None, **params):
        return self._call("POST", path, value, body, headers, params)

    def patch(self, path: str = "", value=_UNSET, body: bytes | None = None, headers: dict | None = None, **params):
        return self._call("PATCH", path, value, body, headers, params)

    def delete(self, path: str = "", headers: dict | None = None, **params) -> Response:
        return self._call("DELETE", path, _UNSET, None, headers, params)

    def value(self, path: str = "", **params):
        """The current value; a status other than 200 fails the test."""
        response = self.get(path, **params)
        assert response.status == 200, f"GET {path}: {response.status} {response.body[:300]!r}"
        return response.json()

    def set(self, path: str = "", value=None, **params) -> Response:
        """Writes, and fails the test unless the server acknowledges the write."""
        response = self.put(path, value, **params)
        assert response.status == 200, f"PUT {path}: {response.status} {response.body[:300]!r}"
        return response


def ordered(**bounds) -> dict:
    """Query parameters with their values as JSON, limits bare: ordered(orderBy="$key", startAt="b", limitToFirst=2)."""
    return {name: value if name.startswith("limit") else json.dumps(value, ensure_ascii=False)
            for name, value in bounds.items()}
