"""The realtime protocol over long polling: scripts."""

import base64
import re

from wires.http import HTTP
from wires.realtime import compact

PIECE = 1840


class Polling:
    """One client that sends requests as browsers do, one after another."""

    def __init__(self, transcript, who: str, port: int, host: str):
        self.http = HTTP(transcript, who, port, host)
        self.transcript, self.who, self.port, self.host = transcript, who, port, host
        self.serial, self.segment, self.number = 1000, 0, 0
        self.answers: set[int] = set()
        self.held: list[HTTP] = []
        self.isOver = False

    def open(self, query: str = "start=t&cb=1&v=5") -> "Polling":
        script = self.get(query)
        start = re.search(rb"pLPCommand\('start','([0-9a-zA-Z]+)','([0-9a-zA-Z]+)'\)", script)
        self.id, self.password = (part.decode() for part in start.groups()) if start else ("none", "none")
        return self

    def get(self, query: str) -> bytes:
        self.serial += 1
        script = self.http.ask("GET", f"/.lp?{query}&ser={self.serial}")
        for number in re.findall(rb'"r":(\d+)', script):
            self.answers.add(int(number))
        self.isOver = self.isOver or b"pLPCommand('close'" in script or not script
        return script

    def poll(self, data: str = "") -> bytes:
        return self.get(f"id={self.id}&pw={self.password}{data}")

    def pieces(self, message) -> list[str]:
        """A message as the parameters of one request after another."""
        text = message if isinstance(message, str) else compact(message)
        encoded = base64.urlsafe_b64encode(text.encode()).decode().replace("=", ".")
        cut = [encoded[start:start + PIECE] for start in range(0, len(encoded), PIECE)]
        first, self.segment = self.segment, self.segment + len(cut)
        return [f"&seg0={first + index}&ts0={len(cut)}&d0={piece}" for index, piece in enumerate(cut)]

    def together(self, message) -> str:
        """A message of several pieces in one request: `seg0`, `seg1`, …"""
        return "".join(piece.replace("seg0", f"seg{index}").replace("ts0", f"ts{index}").replace("d0=", f"d{index}=")
                       for index, piece in enumerate(self.pieces(message)))

    def call(self, action: str, body):
        """A request in one piece; polls until it is answered."""
        self.number += 1
        data = self.together({"t": "d", "d": {"r": self.number, "a": action, "b": body}})
        self.poll(data)
        while self.number not in self.answers and not self.isOver:
            self.poll()

    def hold(self, data: str = "") -> HTTP:
        """Sends a poll on a connection of its own and does not wait for the answer."""
        self.serial += 1
        http = HTTP(self.transcript, f"{self.who} held", self.port, self.host)
        self.held.append(http)
        http.send(http.request("GET", f"/.lp?id={self.id}&pw={self.password}{data}&ser={self.serial}"))
        return http

    def poll_wrong(self):
        """A poll with another password."""
        self.transcript.names.learn(self.password[::-1], "wrong password")
        self.get(f"id={self.id}&pw={self.password[::-1]}")

    def poll_until_over(self):
        while not self.isOver:
            self.poll()

    def close(self):
        self.http.close()
        for http in self.held:
            http.close()
