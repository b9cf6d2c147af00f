"""The long-polling client of browsers: scripts in, pieces of base64 out."""

import base64
import http.client
import json
import re
import threading
import time

from .waiting import PATIENCE, Late
from .websocket_client import compact

PIECE = 1840


class PollingClient:
    """One session over `/.lp`. `messages` has the received messages in order of the response numbers."""

    def __init__(self, port: int, ns: str | None = None, ls: str | None = None, callback: str = "1"):
        self.port, self.ns = port, f"&ns={ns}" if ns else ""
        self.serial, self.segment = 1000, 0
        self.expected = 0
        # Responses that came before their turn, by number.
        self.early: dict[int, list] = {}
        self.messages: list[dict] = []
        self.closed = False
        self.script = self.get(f"start=t&cb={callback}&v=5" + (f"&ls={ls}" if ls else ""))
        start = re.search(r"pLPCommand\('start','([0-9a-zA-Z]+)','([0-9a-zA-Z]+)'\)", self.script)
        self.id, self.password = start.groups()
        self.callback = callback
        self.take(self.script)
        self.hello = self.messages.pop(0)

    def get(self, query: str, patience: float = PATIENCE) -> str:
        self.serial += 1
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)
        try:
            connection.request("GET", f"/.lp?{query}&ser={self.serial}{self.ns}")
            answer = connection.getresponse()
            assert answer.status == 200, (answer.status, answer.read())
            self.type = answer.headers["Content-Type"]
            return answer.read().decode()
        finally:
            connection.close()

    def hold(self) -> http.client.HTTPConnection:
        """Starts a poll and leaves its answer unread."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", f"/.lp?id={self.id}&pw={self.password}{self.ns}")
        return connection

    def take(self, script: str):
        """Handles a response as a browser does."""
        calls = [match for match in re.finditer(r"^pRTLPCB\((\d+),(\[.*\])\);?$", script.replace("pRTLPCB(0,[\n", "pRTLPCB(0,["), re.M)]
        for call in calls:
            number = int(call[1])
            assert number >= self.expected and number not in self.early, (number, self.expected)
            self.early[number] = json.loads(call[2])
        while self.expected in self.early:
            self.messages += self.early.pop(self.expected)
            self.expected += 1
        if "pLPCommand('close'" in script:
            self.closed = True

    def poll(self, data: str = "", patience: float = PATIENCE) -> str:
        script = self.get(f"id={self.id}&pw={self.password}{data}", patience)
        self.take(script)
        return script

    def pieces(self, message) -> list[str]:
        """A message as the parameters of one request after another."""
        text = message if isinstance(message, str) else compact(message)
        encoded = base64.urlsafe_b64encode(text.encode()).decode().replace("=", ".")
        cut = [encoded[start:start + PIECE] for start in range(0, len(encoded), PIECE)]
        first, self.segment = self.segment, self.segment + len(cut)
        return [f"&seg0={first + index}&ts0={len(cut)}&d0={piece}" for index, piece in enumerate(cut)]

    def request(self, number: int, action: str, body: dict) -> dict:
        """Sends a request and polls until it is answered."""
        pieces = self.pieces({"t": "d", "d": {"r": number, "a": action, "b": body}})
        deadline = time.monotonic() + PATIENCE
        for index, piece in enumerate(pieces):
            if index < len(pieces) - 1:
                # Does not wait for the last poll: it has no answer yet, and a later request ends it.
                threading.Thread(target=self.poll, args=(piece,)).start()
            else:
                self.poll(piece)
        while time.monotonic() < deadline:
            for message in self.messages:
                if message["t"] == "d" and message["d"].get("r") == number:
                    return message["d"]["b"]
            self.poll()
        raise Late(f"no answer to {number}")
