"""Recordings of the built binary: equal in every run; a changed answer shows."""

import socket
import threading
from pathlib import Path

import pytest
import recorder
from comparison import differences, transcripts
from harness.binary import pathmirror
from names import Names
from transcript import Transcript
from wires.http import HTTP, Events
from wires.realtime import Realtime
from wires.wire import Missing

# A play of each kind; all of them take over a minute.
FEW = ["rest-etags", "streams-changes", "realtime-listens", "polling-upgrade", "commands-rules"]


def test_two_recordings_of_one_binary_are_the_same(tmp_path):
    only = [word for name in FEW for word in ("--only", name)]
    recordings = []
    for number in range(2):
        directory = tmp_path / str(number)
        assert recorder.main(["record", pathmirror(), str(directory), *only]) == 0
        recordings.append(transcripts(directory))
    assert sorted(recordings[0]) == sorted(FEW)
    assert differences(*recordings) == []
    for name, text in recordings[0].items():
        assert text.count("\n") > 100 and "in vain" not in text and "ends here" not in text, name


@pytest.fixture
def server():
    """Answers each connection with given bytes and closes it."""
    listener = socket.create_server(("127.0.0.1", 0))
    answers = []

    def serve():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                client.recv(65536)
                client.sendall(answers.pop(0))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1], answers
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def lines(transcript: Transcript) -> list[str]:
    return [line for line in transcript.lines if " > " not in line]


@pytest.mark.parametrize("answer, expected", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ["a < HTTP/1.1 200 OK\\r\\n", "a < Content-Length: 2\\r\\n", "a < \\r\\n", "a < {}"]),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", ["a < HTTP/1.1 100 Continue\\r\\n", "a < \\r\\n", "a < HTTP/1.1 204 No\\r\\n", "a < \\r\\n"]),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
     ["a < HTTP/1.1 200 OK\\r\\n", "a < Transfer-Encoding: chunked\\r\\n", "a < \\r\\n", "a < 2\\r\\n", "a < {}\\r\\n", "a < 0\\r\\n", "a < \\r\\n"]),
    (b"HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 1\r\n\r\nxtoo much",
     ["a < HTTP/1.1 400 Bad\\r\\n", "a < Connection: close\\r\\n", "a < Content-Length: 1\\r\\n", "a < \\r\\n", "a < x", "a < too much", "a ! closed by the server"]),
    (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", ["a < HTTP/1.1 200 OK\\r\\n", "a < \\r\\n", "a < until the end"]),
    (b"HTTP/1.1 2", ["a < HTTP/1.1 2", "a ! closed by the server"]),
    (b"", ["a ! closed by the server"])])
def test_answers_are_written_down_whole(server, answer, expected):
    port, answers = server
    answers.append(answer)
    transcript = Transcript(Names())
    client = HTTP(transcript, "a", port, "a.localhost")
    client.ask("GET", "/")
    client.close()
    assert lines(transcript) == expected
    assert transcript.lines[:3] == ["a > GET / HTTP/1.1\\r\\n", "a > Host: a.localhost\\r\\n", "a > \\r\\n"]


def test_events_come_one_by_one(server):
    port, answers = server
    answers.append(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: put\ndata: 1\n\nevent: put\ndata: 2\n\nevent: pu")
    transcript = Transcript(Names())
    stream = Events(transcript, "s", port, "a.localhost").open("/a.json")
    assert stream.expect() == [b"event: put\ndata: 1\n\n"]
    assert lines(transcript)[3:] == ["s < event: put\\n", "s < data: 1\\n", "s < \\n"]
    assert stream.expect(2) == [b"event: put\ndata: 2\n\n"]
    assert lines(transcript)[-2:] == ["s < event: pu", "s ! closed by the server"]
    stream.close()


def test_frames_are_written_down_with_their_heads(server):
    port, answers = server
    text = b'{"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}'
    answers.append(b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + bytes([0x81, len(text)]) + text + b"\x81\x7e\x01\x00" + b"1" * 256 + b"\x88\x02\x03\xe9")
    transcript = Transcript(Names())
    client = Realtime(transcript, "ws", port, "a.localhost").open(greeted=False)
    assert client.until(1) == {"s": "ok", "d": ""}
    assert client.frame() == (1, b"1" * 256)
    assert client.frame() == (8, b"\x03\xe9")
    assert client.frame() == (-1, b"")
    assert lines(transcript)[2:] == [f"ws < [81 2b] {text.decode()}", "ws < [81 7e 01 00] " + "1" * 256, "ws < [88 02] \\x03\\xe9", "ws ! closed by the server"]
    client.close()


def test_what_does_not_come_is_written_down(monkeypatch):
    monkeypatch.setattr("wires.http.PATIENCE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        transcript = Transcript(Names())
        client = HTTP(transcript, "a", listener.getsockname()[1], "a.localhost")
        with pytest.raises(Missing):
            client.ask("GET", "/")
        client.close()
    assert lines(transcript) == ["a ! waited in vain for more bytes"]


def test_an_unknown_play_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="there is no play nonsense"):
        recorder.main(["record", pathmirror(), str(tmp_path / "x"), "--only", "nonsense"])
    assert not Path(tmp_path / "x").exists()
