"""REST requests of the stand-in: data, rules, settings, and the token endpoint."""

import asyncio

from . import hashing, query
from .tree import PRIORITY, Invalid, at, dump, export, parse, plain, split_path
from .wire import Request, response

_TOO_BIG = "Data requested exceeds the maximum size that can be accessed with a single request."


def _failure(status: int, text: str, headers: dict | None = None) -> bytes:
    return response(status, f'{{\n  "error" : {dump(text)}\n}}\n'.encode(), headers)


def _value(data, status: int = 200, headers: dict | None = None) -> bytes:
    return response(status, dump(data).encode(), headers)


class Rest:
    def __init__(self, standin):
        self._standin = standin

    async def answer(self, request: Request, is_first_port: bool) -> bytes:
        """The answer to a request that is no WebSocket; all but the control port's are recorded."""
        standin, settings = self._standin, self._standin.settings
        if request.path.startswith("/control"):
            return standin.controlled(request)
        if request.path == "/token":
            while standin.account.mode == "silent" or settings.freeze == "everything":
                await asyncio.sleep(0.05)
            status, body = standin.account.answer(request.body, standin.token_uri)
            standin.record_http(request, status)
            return _value(body, status)
        while settings.freeze == "everything":
            await asyncio.sleep(0.02)
        try:
            answer = self._serve(request, is_first_port)
        except Invalid as failure:
            answer = _failure(400, str(failure))
        standin.record_http(request, int(answer[9:12]))
        return answer

    def _serve(self, request: Request, is_first_port: bool) -> bytes:
        standin, settings = self._standin, self._standin.settings
        if settings.redirects_rest and is_first_port:
            host = settings.redirect_to or f"127.0.0.1:{standin.other_port}"
            return response(307, b"", {"Location": f"http://{host}{request.target}"})
        if settings.rest_status:
            return _failure(settings.rest_status, "refused on command")
        if not request.path.endswith(".json"):
            return response(400, b"append .json to your request URI to use the REST API.", kind="text/plain")
        status = self._judge(request)
        if status != "ok":
            return _failure(401, {"expired_token": "Auth token is expired", "invalid_token": "Could not parse auth token."}
                            .get(status, "Permission denied"))
        name = request.params.get("ns") or request.headers.get("host", "").split(".")[0]
        if settings.namespaces is not None and name not in settings.namespaces:
            return _failure(404, "404 Not Found")
        namespace = standin.namespace(name)
        keys = tuple(request.keys)
        if keys[:1] == (".settings",):
            return self._settings(request, namespace, keys[1:])
        method = request.headers.get("x-http-method-override", request.method) if request.method == "POST" else request.method
        if method == "GET":
            return self._get(request, namespace, keys)
        if method not in ("PUT", "PATCH", "DELETE"):
            return _failure(405, "Method not allowed")
        if method != "DELETE" and not request.body:
            return _failure(400, "Error: No data supplied.")
        data = None if method == "DELETE" else parse(request.body)
        if method == "PATCH" and data is not None:
            namespace.merge(keys, data, by="REST")
            echo = {key: export(at(namespace.root, (*keys, *split_path(key)))) for key in data if not key.endswith(PRIORITY)}
        else:
            namespace.put(keys, data, by="REST")
            echo = export(at(namespace.root, keys)) if keys[-1:] != (PRIORITY,) else data
        return response(204) if request.params.get("print") == "silent" else _value(echo)

    def _judge(self, request: Request) -> str:
        """Whether the caller may do this: `ok`, or why not."""
        if not self._standin.settings.requires_auth:
            return "ok"
        credential = request.bearer or request.params.get("access_token") or request.params.get("auth")
        if credential is None:
            return "permission_denied"
        return self._standin.account.judge(credential)[0]

    def _settings(self, request: Request, namespace, keys: tuple) -> bytes:
        if keys == ("rules",):
            if request.method == "PUT":
                if not isinstance(found := parse(request.body), dict) or "rules" not in found:
                    raise Invalid("1: rules are missing")
                namespace.rules = request.body.decode()
                return _value({"status": "ok"})
            if request.params.get("format") == "strict":
                return _value(parse(namespace.rules))
            return response(200, namespace.rules.encode())
        if len(keys) != 1 or keys[0] not in namespace.settings:
            return _failure(404, "no such setting")
        if request.method == "PUT":
            namespace.settings[keys[0]] = parse(request.body)
        return _value(namespace.settings[keys[0]])

    def _get(self, request: Request, namespace, keys: tuple) -> bytes:
        params, limit = request.params, self._standin.settings.too_big_rest_bytes
        if keys[-1:] == (PRIORITY,):
            owner = at(namespace.root, keys[:-1])
            return _value(owner.priority if owner else None)
        node = at(namespace.root, keys)
        asked = self._query(params)
        tag = hashing.node_hash(node) or "null_etag"
        if asked is not None:
            node = query.filtered(node, asked)
        if params.get("shallow") == "true":
            if node is not None and node.children is not None:
                return _value({key: True for _, key in node.ordered()})
            return _value(plain(node))
        if limit is not None and node is not None and node.size > limit:
            return _failure(400, _TOO_BIG)
        return _value(export(node) if params.get("format") == "export" else plain(node), headers={"ETag": tag})

    @staticmethod
    def _query(params: dict) -> dict | None:
        """The query of the parameters, in the form of the socket."""
        names = {"startAt", "startAfter", "endAt", "endBefore", "equalTo", "limitToFirst", "limitToLast"}
        if "orderBy" not in params:
            if not names & set(params):
                return None
            if params.get("shallow") != "true":
                raise Invalid("orderBy must be defined when other query parameters are defined")
            found: dict = {"i": ".key"}
        else:
            order = parse(params["orderBy"])
            if not isinstance(order, str):
                raise Invalid("orderBy must be a valid JSON encoded path")
            found = {"i": {"$key": ".key", "$value": ".value", "$priority": PRIORITY}.get(order, order)}
        for name, (where, is_inclusive) in {"startAt": ("sp", True), "startAfter": ("sp", False), "endAt": ("ep", True),
                                            "endBefore": ("ep", False)}.items():
            if name in params:
                found[where] = parse(params[name])
                found["sin" if where == "sp" else "ein"] = is_inclusive
        if "equalTo" in params:
            found["sp"] = found["ep"] = parse(params["equalTo"])
        if found["i"] == ".key" and not all(isinstance(found[name], str) for name in ("sp", "ep") if name in found):
            raise Invalid("Provided key index type is invalid, must be string")
        for name, side in (("limitToFirst", "l"), ("limitToLast", "r")):
            if name in params:
                if not params[name].isdigit():
                    raise Invalid(f"{name} must be an integer")
                if int(params[name]) < 1:
                    raise Invalid(f"{name} must be positive")
                if "l" in found:
                    raise Invalid("Only one of limitToFirst and limitToLast may be specified")
                found["l"], found["vf"] = int(params[name]), side
        return found
