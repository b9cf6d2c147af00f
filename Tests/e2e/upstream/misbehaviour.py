"""What a stand-in does on command that a good server does rarely or never."""

import asyncio
import base64
import json

from .database import Listen
from .tree import dump, export, join_path, split_path
from .wire import BINARY, CLOSE, PING, frame


def _push(action: str, **body) -> str:
    return json.dumps({"t": "d", "d": {"a": action, "b": body}})


def _deep(depth: int) -> str:
    return '{"t":"d","d":{"a":"d","b":{"p":"deep","d":' + '{"a":' * depth + "1" + "}" * depth + "}}}"


# Text frames that no server may send to a client with a root listen; a client must survive each, and take over none in part.
INVALID: dict[str, str] = {
    "not_json": "{\"t\":",
    "an_array": "[1,2,3,4]",
    "a_string": "\"a long enough string\"",
    "no_layer": '{"d":{"a":"d","b":{"p":"x","d":1}}}',
    "unknown_layer": '{"t":"z","d":{"a":"d","b":{"p":"x","d":1}}}',
    "control_without_type": '{"t":"c","d":{"d":null}}',
    "control_unknown": '{"t":"c","d":{"t":"zz","d":null}}',
    "second_greeting_without_body": '{"t":"c","d":{"t":"h","d":null}}',
    "redirect_to_a_number": '{"t":"c","d":{"t":"r","d":17}}',
    "data_without_action": '{"t":"d","d":{"b":{"p":"x","d":1}}}',
    "unknown_action": _push("zz", p="x", d=1),
    "no_body": '{"t":"d","d":{"a":"d"}}',
    "body_is_a_list": '{"t":"d","d":{"a":"d","b":["x",1]}}',
    "no_path": _push("d", d=1),
    "path_is_a_number": _push("d", p=5, d=1),
    "no_data": _push("d", p="bad"),
    "path_with_bad_key": _push("d", p="bad/a.b", d=1),
    "path_with_dollar": _push("d", p="bad/$a", d=1),
    "path_with_a_control": _push("d", p="bad/a\u0007b", d=1),
    "path_of_40_levels": _push("d", p="/".join(["bad"] * 40), d=1),
    "path_with_a_long_key": _push("d", p="bad/" + "k" * 769, d=1),
    "path_above_the_tree": _push("d", p="../../bad", d=1),
    "data_with_bad_key": _push("d", p="bad", d={"a.b": 1, "good": 2}),
    "data_with_empty_key": _push("d", p="bad", d={"": 1, "good": 2}),
    "data_with_a_long_key": _push("d", p="bad", d={"k" * 769: 1, "good": 2}),
    "value_and_children": _push("d", p="bad", d={".value": 1, "child": 2}),
    "value_is_an_object": _push("d", p="bad", d={".value": {"a": 1}}),
    "priority_is_an_object": _push("d", p="bad", d={".value": 1, ".priority": {"a": 1}}),
    "priority_is_a_boolean": _push("d", p="bad", d={".value": 1, ".priority": True}),
    "server_value": _push("d", p="bad", d={".sv": "timestamp"}),
    "not_a_number": '{"t":"d","d":{"a":"d","b":{"p":"bad","d":NaN}}}',
    "beyond_doubles": '{"t":"d","d":{"a":"d","b":{"p":"bad","d":1e999}}}',
    "merge_of_a_number": _push("m", p="bad", d=7),
    "merge_with_bad_key": _push("m", p="bad", d={"good": 1, "a/b#c": 2}),
    "merge_with_ancestor": _push("m", p="bad", d={"a": 1, "a/b": 2}),
    "range_merge_of_an_object": _push("rm", p="", d={"m": {"bad": 1}}),
    "range_merge_without_data": _push("rm", p="", d=[{"s": "a", "e": "b"}]),
    "range_merge_backwards": _push("rm", p="", d=[{"s": "z", "e": "a", "m": {"bad": 1}}]),
    "range_merge_out_of_order": _push("rm", p="", d=[{"s": "m", "m": {"z": 1}}, {"e": "b", "m": {"a": 1}}]),
    "range_merge_bounds_are_numbers": _push("rm", p="", d=[{"s": 1, "e": 2, "m": None}]),
    "unknown_tag": _push("d", p="bad", d=1, t=987654),
    "tag_is_a_string": _push("d", p="bad", d=1, t="7"),
    "answer_to_nothing": '{"t":"d","d":{"r":987654,"b":{"s":"ok","d":{}}}}',
    "answer_without_status": '{"t":"d","d":{"r":1,"b":{}}}',
    "answer_number_is_a_string": '{"t":"d","d":{"r":"1","b":{"s":"ok","d":{}}}}',
    "error_message": '{"t":"d","d":{"error":"something went wrong"}}',
    "cancel_of_nothing": _push("c", p="no/such/listen"),
    "deep_tree": _deep(200),
    "negative_count": "-5",
}


class Misbehaviour:
    """The commands. Each applies to the sessions that it is given, or to all that are alive; all run on the loop."""

    def __init__(self, standin):
        self._standin = standin

    def run(self, name: str, sessions: list | None = None, **options):
        method = getattr(self, f"do_{name}", None)
        if method is None:
            raise KeyError(f"no command {name!r}: {', '.join(self.names)}")
        for session in list(self._standin.sessions if sessions is None else sessions):
            method(session, **options)

    @property
    def names(self) -> list[str]:
        return sorted(name[3:] for name in dir(self) if name.startswith("do_"))

    # MARK: endings

    def do_cut(self, session):
        """Resets the connection at once; what was not sent is lost."""
        session.abort()

    def do_close(self, session, code: int = 1000, reason: str = ""):
        session.close(code, reason)

    def do_redirect(self, session, host: str | None = None):
        session.control("r", host or f"127.0.0.1:{self._standin.other_port}")

    def do_shutdown(self, session, reason: str = "database moved"):
        session.control("s", reason)
        session.close(1000)

    def do_error(self, session, text: str = "internal error"):
        session.control("e", text)

    def do_payload_error(self, session):
        """What the service does where the data of a listen is too large to send."""
        session.control("e", "payload is too large")
        session.close(1009)

    def do_revoke_auth(self, session, status: str = "expired_token", text: str = "Auth token is expired.", closes: bool = False):
        session.revoke(status, text)
        if closes:
            session.close(1000)

    def do_cancel(self, session, path: str | None = None):
        for listen in [one for one in session.listens if path is None or one.path == split_path(path)]:
            session.cancel(listen)

    # MARK: messages

    def do_raw(self, session, text: str):
        """One text frame as it is."""
        session.write(frame(text.encode("utf-8", "surrogatepass")))

    def do_bytes(self, session, base64_text: str):
        """Bytes between frames, which may be no frame at all."""
        session.write(base64.b64decode(base64_text))

    def do_ping(self, session):
        session.write(frame(b"are you there", PING))

    def do_invalid(self, session, kind: str):
        session.write(frame(INVALID[kind].encode()))

    def do_every_invalid(self, session):
        for text in INVALID.values():
            session.write(frame(text.encode()))

    def do_bad_utf8(self, session):
        session.write(frame(b'{"t":"d","d":{"a":"d","b":{"p":"bad","d":"\xff\xfe"}}}'))

    def do_binary(self, session):
        session.write(frame(_push("d", p="bad", d=1).encode(), BINARY))

    def do_reserved_bits(self, session):
        session.write(frame(_push("d", p="bad", d=1).encode(), first=0xF1))

    def do_masked(self, session):
        text = _push("d", p="bad", d=1).encode()
        session.write(bytes([0x81, 0x80 | len(text)]) + b"\0\0\0\0" + text)

    def do_long_control_frame(self, session):
        session.write(frame(b"x" * 200, PING))

    def do_close_without_reason(self, session):
        session.write(frame(b"", CLOSE))

    def do_outside(self, session, path: str = "elsewhere/x", data=1):
        """Data at a path that need not be part of any listen, without its tag."""
        session.send(_push("d", p=path, d=data))

    def do_lie(self, session, path: str, data):
        """Sends the listens data that is not in the database: the client's tree then differs."""
        for listen in session.listens:
            if split_path(path)[:len(listen.path)] == listen.path:
                listen.push("d", split_path(path), data)

    def do_big_message(self, session, size: int = 1 << 24, path: str = "bad"):
        """One valid message with a string of so many bytes."""
        session.send(_push("d", p=path, d="x" * size))

    def do_deep_tree(self, session, depth: int = 100_000):
        session.send(_deep(depth))

    # MARK: endless and enormous

    def do_announce_segments(self, session, count: int = 999_999, pieces: int = 0):
        """A count of segments, of which only so many come."""
        session.write(frame(str(count).encode()))
        for _ in range(pieces):
            session.write(frame(b"x" * 16384))

    def do_announce_frame(self, session, size: int = 16 << 30, bytes_sent: int = 1 << 16):
        """The head of a frame of an enormous length, and its first bytes."""
        session.write(frame(b"x" * bytes_sent, announced=size))

    def do_endless(self, session, kind: str = "rm", limit: int = 4 << 30):
        """Parts without an end until the client ends the connection: range merges (rm), data (d) or segments."""
        session.begin(self._endless(session, kind, limit))

    async def _endless(self, session, kind: str, limit: int):
        number, sent = 0, 0
        if kind == "segments":
            session.write(frame(b"999999"))
        while sent < limit and not session.is_over:
            key = f"endless/k{number:012}"
            text = {"rm": lambda: _push("rm", p="", d=[{"s": key, "e": key + "~", "m": {"endless": {key[8:] + "!": "x" * 4000}}}]),
                    "d": lambda: _push("d", p=key, d="x" * 4000), "segments": lambda: "x" * 16384}[kind]()
            session.write(frame(text.encode()))
            number, sent = number + 1, sent + len(text)
            while session.waiting > 1 << 20 and not session.is_over:
                await asyncio.sleep(0.01)

    def do_listen_again(self, session):
        """Sends the whole data of each listen once more, as after a listen that no client asked for."""
        for listen in session.listens:
            listen.push("d", listen.path, export(listen.view(session.namespace.root)))


def parts(listen: Listen, node, limit: int):
    """The initial data of a listen as several `d` messages of about `limit` bytes: (path, data)."""
    def pieces(path, one):
        if one.size <= limit or one.children is None:
            yield path, export(one)
            return
        for _, key in list(one.ordered()):
            yield from pieces((*path, key), one.children[key])
        if one.priority is not None:
            yield (*path, ".priority"), one.priority

    yield listen.path, None
    if node is not None:
        yield from pieces(listen.path, node)


def text_of(path, data, tag) -> str:
    body = {"p": join_path(path), "d": data} | ({} if tag is None else {"t": tag})
    return dump({"t": "d", "d": {"a": "d", "b": body}})
