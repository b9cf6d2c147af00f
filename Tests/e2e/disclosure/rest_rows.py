"""The REST operations of the table."""

from dataclasses import dataclass, field

from oracle.hashes import etag

from .verdicts import (BEYOND, BEYOND_SHOWN, COMPARES, ECHOES, ECHOES_OR_NOT, READS, REFUSED, SAME, STALE, WRITES, Needs)
from .worlds import KNOWN, PLACE, SECRET_PATH

TAG = etag(KNOWN)
WRONG = etag("something else")
INCREMENT = b'{".sv":{"increment":0}}'


@dataclass
class Row:
    """One operation: `path` without .json, parameters, headers, and its `needs`."""

    name: str
    needs: Needs
    method: str = "GET"
    path: str = SECRET_PATH
    body: bytes | None = None
    headers: dict = field(default_factory=dict)
    params: dict = field(default_factory=dict)

    def __repr__(self):
        return self.name


def reads() -> list[Row]:
    query = {"orderBy": '"rank"', "startAt": "5"}
    etag_asked = {"X-Firebase-ETag": "true"}
    return [
        Row("GET", READS),
        Row("GET above", READS, path=PLACE),
        Row("GET of a child", READS, path=f"{SECRET_PATH}/asked"),
        Row("GET of a grandchild", REFUSED, path=f"{SECRET_PATH}/asked/deeper"),
        Row("GET of the priority", READS, path=f"{SECRET_PATH}/.priority"),
        Row("GET shallow", READS, params={"shallow": "true"}),
        Row("GET shallow above", READS, path=PLACE, params={"shallow": "true"}),
        Row("GET shallow, limited", READS, params={"shallow": "true", "limitToFirst": "1"}),
        Row("GET by key", READS, params={"orderBy": '"$key"', "limitToFirst": "1"}),
        Row("GET by key, one", READS, params={"orderBy": '"$key"', "equalTo": '"asked"'}),
        Row("GET by value", READS, params={"orderBy": '"$value"', "equalTo": f'"{KNOWN}"'}),
        Row("GET by priority", READS, params={"orderBy": '"$priority"', "limitToLast": "1"}),
        Row("GET by a declared index", READS, params=query),
        Row("GET by no index", REFUSED, params={"orderBy": '"colour"', "equalTo": "1"}),
        Row("GET by no index, bad bounds", SAME, params={"orderBy": '"colour"', "equalTo": "{}"}),
        Row("GET export", READS, params={"format": "export"}),
        Row("GET pretty", READS, params={"print": "pretty"}),
        Row("GET silent", REFUSED, params={"print": "silent"}),
        Row("GET silent with a tag", READS, params={"print": "silent"}, headers=etag_asked),
        Row("GET as a script", READS, params={"callback": "f"}),
        Row("GET to download", READS, params={"download": "f.json"}),
        Row("GET with a tag", READS, headers=etag_asked),
        Row("GET if-none-match, right", READS, headers={"if-none-match": TAG}),
        Row("GET if-none-match, wrong", READS, headers={"if-none-match": WRONG}),
        Row("GET if-none-match null_etag", READS, headers={"if-none-match": "null_etag"}),
        Row("GET if-match", SAME, headers={"if-match": TAG}),
        Row("GET packed", READS, headers={"Accept-Encoding": "gzip"}),
        Row("GET with a seq that was", READS, headers={"X-Pathmirror-Min-Seq": "1"}),
        Row("HEAD", READS, method="HEAD"),
        Row("HEAD with a tag", READS, method="HEAD", headers=etag_asked),
        Row("GET by POST", READS, method="POST", headers={"X-HTTP-Method-Override": "GET"}),
        Row("GET by POST and parameter", READS, method="POST", params={"x-http-method-override": "GET"}),
        Row("OPTIONS", SAME, method="OPTIONS", headers={"Access-Control-Request-Method": "PUT", "Origin": "http://x"}),
        Row("TRACE", SAME, method="TRACE"),
        Row("GET without .json", SAME, path="!/" + SECRET_PATH),
        Row("GET /.inspect", SAME, path="!/.inspect/databases.json"),
        Row("GET of other settings", SAME, path="!/.settings/secrets.json"),
        Row("GET /.settings/rules", SAME, path="!/.settings/rules.json", params={"auth": "x" * 20}),
        Row("GET /.settings/functionTriggers", SAME, path="!/.settings/functionTriggers.json"),
        Row("POST /.settings/functionTriggers", SAME, "POST", path="!/.settings/functionTriggers.json", body=b"{}"),
    ]


def unconditional() -> list[Row]:
    etag_asked = {"X-Firebase-ETag": "true"}
    return [
        Row("PUT", WRITES, "PUT", body=b'"mine"'),
        Row("PUT of null", WRITES, "PUT", body=b"null"),
        Row("PUT silent", WRITES, "PUT", body=b'"mine"', params={"print": "silent"}),
        Row("PUT with a tag", WRITES, "PUT", body=b'"mine"', headers=etag_asked),
        Row("PUT below", WRITES, "PUT", f"{SECRET_PATH}/asked", b"1"),
        Row("PUT of null below", WRITES, "PUT", f"{SECRET_PATH}/asked/deeper", b"null"),
        Row("PUT with a priority", WRITES, "PUT", body=b'{".value":1,".priority":2}'),
        Row("PUT of what is no JSON", SAME, "PUT", body=b"{x"),
        Row("PUT of nothing", SAME, "PUT", body=b""),
        Row("PUT of a large value", WRITES, "PUT", body=b'{' + b",".join(b'"k%d":1' % n for n in range(12_000)) + b'}'),
        Row("PUT, size limited", WRITES, "PUT", body=b'"mine"', params={"writeSizeLimit": "tiny"}),
        Row("PUT by POST", WRITES, "POST", body=b'"mine"', headers={"X-HTTP-Method-Override": "PUT"}),
        Row("PUT with a query", SAME, "PUT", body=b"1", params={"orderBy": '"$key"'}),
        Row("PUT with if-none-match", WRITES, "PUT", body=b'"mine"', headers={"if-none-match": TAG}),
        Row("PUT at the root", BEYOND, "PUT", "", b'{"side":{"here":true}}'),
        Row("POST", WRITES, "POST", body=b'"mine"'),
        Row("POST with a tag", WRITES, "POST", body=b'"mine"', headers=etag_asked),
        Row("PATCH", WRITES, "PATCH", body=b'{"asked":2}'),
        Row("PATCH below", WRITES, "PATCH", body=b'{"asked/deep":2,"b/c":null}'),
        Row("PATCH above", WRITES, "PATCH", PLACE, b'{"secret/asked":2}'),
        Row("PATCH of null", WRITES, "PATCH", body=b"null"),
        Row("PATCH of nothing", SAME, "PATCH", body=b"{}"),
        Row("PATCH of overlapping paths", SAME, "PATCH", body=b'{"a":1,"a/b":2}'),
        Row("PATCH by POST", WRITES, "POST", body=b'{"asked":2}', headers={"X-HTTP-Method-Override": "PATCH"}),
        Row("PATCH here and there", BEYOND, "PATCH", "", b'{"side/x":1,"vault/place/secret/asked":2}'),
        Row("PATCH with priorities here and there", BEYOND_SHOWN, "PATCH", "",
            b'{"side/here/.priority":1,"vault/place/secret/.priority":2}'),
        Row("DELETE", WRITES, "DELETE"),
        Row("DELETE silent", WRITES, "DELETE", params={"print": "silent"}),
        Row("DELETE with a tag", WRITES, "DELETE", headers=etag_asked),
        Row("DELETE by POST", WRITES, "POST", headers={"X-HTTP-Method-Override": "DELETE"}),
        Row("DELETE at the root", BEYOND, "DELETE", ""),
        # Answers that contain the result of a write.
        Row("PUT of an increment", ECHOES, "PUT", body=INCREMENT),
        Row("PUT of an increment, with a tag", ECHOES, "PUT", body=INCREMENT, headers=etag_asked),
        Row("PUT of an increment, silent, with a tag", ECHOES, "PUT", body=INCREMENT,
            headers=etag_asked, params={"print": "silent"}),
        Row("PUT of a priority's increment", ECHOES, "PUT", body=b'{".value":1,".priority":{".sv":{"increment":0}}}'),
        Row("PATCH of an increment", ECHOES, "PATCH", PLACE, b'{"secret":{".sv":{"increment":0}}}'),
        Row("POST of an increment", WRITES, "POST", body=INCREMENT),
    ]


def conditional() -> list[Row]:
    """Conditional writes. A caller with the right to write learns whether the write succeeded; one that may also read gets the value."""
    rows = []
    for method, body in (("PUT", b'"mine"'), ("DELETE", None)):
        rows += [
            Row(f"{method} if-match, right", COMPARES, method, body=body, headers={"if-match": TAG}),
            Row(f"{method} if-match, right, in quotes", COMPARES, method, body=body, headers={"if-match": f'"{TAG}"'}),
            Row(f"{method} if-match null_etag", COMPARES, method, body=body, headers={"if-match": "null_etag"}),
            Row(f"{method} if-match, right, silent", COMPARES, method, body=body, headers={"if-match": TAG},
                params={"print": "silent"}),
            Row(f"{method} if-match, right, with a tag", COMPARES, method, body=body,
                headers={"if-match": TAG, "X-Firebase-ETag": "true"}),
            Row(f"{method} if-match by POST", COMPARES, "POST", body=body,
                headers={"if-match": TAG, "X-HTTP-Method-Override": method}),
            Row(f"{method} below if-match null_etag", COMPARES, method, f"{SECRET_PATH}/asked", body,
                {"if-match": "null_etag"}),
            Row(f"{method} at the root if-match", BEYOND_SHOWN, method, "", body, {"if-match": WRONG}),
        ]
    return rows + [
        Row("PUT if-match, wrong", STALE, "PUT", body=b'"mine"', headers={"if-match": WRONG}),
        Row("DELETE if-match, wrong", STALE, "DELETE", headers={"if-match": "x"}),
        Row("PUT of a priority", COMPARES, "PUT", f"{SECRET_PATH}/.priority", b"3"),
        Row("PUT of a priority's increment by path", ECHOES_OR_NOT, "PUT", f"{SECRET_PATH}/.priority", INCREMENT),
        Row("PATCH of a priority", COMPARES, "PATCH", PLACE, b'{"secret/.priority":3}'),
        Row("POST if-match", SAME, "POST", body=b"1", headers={"if-match": TAG}),
        Row("PATCH if-match", SAME, "PATCH", body=b'{"a":1}', headers={"if-match": TAG}),
    ]


ROWS = reads() + unconditional() + conditional()
