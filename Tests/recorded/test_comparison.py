"""The comparison finds every change of a transcript, and the report names its position."""

import random

import recorder
from comparison import MOST_LINES, differences, transcripts

OLD = {"rest": "a > GET /\na < 200\n" * 20, "stream": "s < event: put\\n\ns < data: 1\\n\n"}


def test_the_same_is_no_difference():
    assert differences(OLD, dict(OLD)) == []


def test_a_play_that_is_in_one_only():
    rest = {"rest": OLD["rest"]}
    assert differences(OLD, rest) == ["stream: only in the old recording"]
    assert differences(rest, OLD) == ["stream: only in the new recording"]


def test_any_byte_that_changes_is_found():
    text = OLD["rest"]
    dice = random.Random(7)
    for place in range(len(text)):
        other = chr((ord(text[place]) + dice.randrange(1, 100)) % 128)
        changed = text[:place] + other + text[place + 1:]
        assert len(differences(OLD, OLD | {"rest": changed})) == (changed != text)
        for shorter in (text[:place] + text[place + 1:], text[:place] + "x" + text[place:]):
            assert len(differences(OLD, OLD | {"rest": shorter})) == 1


def test_a_report_names_the_play_and_shows_both_sides():
    [report] = differences(OLD, OLD | {"stream": OLD["stream"].replace("1", "2")})
    assert report.startswith("--- old/stream\n+++ new/stream\n")
    assert "\n-s < data: 1\\n\n+s < data: 2\\n\n" in report + "\n"


def test_a_missing_last_line_feed_is_a_difference():
    assert differences({"a": "x\n"}, {"a": "x"}) != []


def test_a_report_of_all_lines_is_cut():
    old, new = "".join(f"{n}\n" for n in range(500)), "".join(f"{n}!\n" for n in range(500))
    [report] = differences({"a": old}, {"a": new})
    assert report.count("\n") == MOST_LINES and report.endswith("more lines")


def written(path, texts):
    path.mkdir()
    for name, text in texts.items():
        (path / f"{name}.txt").write_text(text)
    return path


def test_recordings_are_compared_as_directories(tmp_path, capsys):
    old = written(tmp_path / "old", OLD)
    assert transcripts(old) == OLD
    assert recorder.main(["compare", str(old), str(written(tmp_path / "same", OLD))]) == 0
    assert "no difference in 2 plays, 42 lines" in capsys.readouterr().out
    changed = written(tmp_path / "changed", OLD | {"stream": OLD["stream"] + "s < \\n\n"})
    assert recorder.main(["compare", str(old), str(changed)]) == 1
    out = capsys.readouterr().out
    assert "+s < \\n" in out and "1 of 2 plays differ" in out
    assert recorder.main(["compare", str(old), str(changed), "--only", "rest"]) == 0
    # Empty recordings do not count as equal.
    assert recorder.main(["compare", str(written(tmp_path / "none", {})), str(written(tmp_path / "none too", {}))]) == 1


def test_the_plays_have_names_of_namespaces(capsys):
    assert recorder.main(["list"]) == 0
    names = capsys.readouterr().out.split()
    assert len(names) == len(set(names)) > 40
    assert all(len(name) <= 64 and name.replace("-", "").isalnum() for name in names)
