"""examples/swift: the programs work as described, with a connection and without one."""

import json
import re

import pytest
from harness.gateway import start_dev
from harness.process import run
from harness.swift_examples import PACKAGE, App, built
from harness.waiting import wait_until

DOCUMENTS = PACKAGE.parents[1] / "docs"
PROGRAM = re.compile(r"```swift\n(import Foundation\nimport PathmirrorClient\n.*?)```", re.DOTALL)


@pytest.fixture
def start():
    """Starts apps, and ends them after the test."""
    apps = []

    def start(name: str, *arguments) -> App:
        apps.append(App(name, *arguments))
        return apps[-1]

    yield start
    for app in apps:
        app.kill()


@pytest.fixture
def url(dev, ns):
    return f"http://127.0.0.1:{dev.port}?ns={ns}"


@pytest.fixture
def begin(scratch, logs):
    """Starts one gateway, which may be stopped, again and again at the same port."""
    gateways = []

    def begin():
        gateways.append(start_dev(scratch / "data", logs, gateways[0].port if gateways else None))
        return gateways[-1]

    yield begin
    for gateway in gateways:
        gateway.sweep()


def test_whole_programs_of_the_pages_are_examples():
    first, _ = PROGRAM.findall((DOCUMENTS / "guides" / "client.md").read_text())
    worker, = PROGRAM.findall((DOCUMENTS / "reference" / "client.md").read_text())
    assert first == (PACKAGE / "Sources" / "first" / "main.swift").read_text()
    assert worker == (PACKAGE / "Sources" / "worker" / "Worker.swift").read_text()


def test_an_app_needs_nothing_of_the_server():
    """Apps need no PostgreSQL, no libevent, and no client libraries of other engines."""
    libraries = run(["ldd", built() / "first"]).stdout
    own = {match[1] for match in re.finditer(r"(lib[\w+-]+)\.so", libraries)} - {"libc", "libm"}
    assert "libsqlite3" in own and "libssl" in own
    assert not [name for name in own if re.match(r"lib(pq|event|wslay|http_parser|curl|nats|rdkafka|re2)", name)], own


def test_notes_survive_without_a_connection(start, begin, scratch):
    gateway = begin()
    url, folder = f"http://127.0.0.1:{gateway.port}", scratch / "notes"
    first = start("first", url, folder)
    first.shows("connected")
    first.type("one")
    first.shows("- one")
    first.shows("saved: one")
    # A fast app is connected before its first check.
    before = first.count("on our own")
    gateway.stop()
    first.shows("on our own", before + 1)
    first.type("two")
    first.shows("- two")
    first.kill()

    again = start("first", url, folder)
    again.shows("- two")
    assert again.shows("- one") and "saved" not in again.output
    gateway = begin()
    again.shows("connected")
    wait_until(lambda: [note["text"] for note in (gateway.rest.get("notes").json() or {}).values()] == ["one", "two"], "both notes to be there")


def test_a_blog(start, dev, ns, url, scratch):
    ada, grace = start("blog", url, scratch / "ada", "ada"), start("blog", url, scratch / "grace", "grace")
    rest = dev.rest.at("", ns=ns)
    ada.shows("connected"), grace.shows("connected")
    ada.type("post On engines")
    key = ada.shows("saved ")[0].split()[1]
    grace.shows(f"new {key} ada: On engines")
    # The fan-out has written both.
    assert rest.get(f"posts/{key}").json() == rest.get(f"user-posts/ada/{key}").json() == {"author": "ada", "text": "On engines", "starCount": 0}

    for blog in (ada, grace):
        blog.type(f"star {key}")
    for blog in (ada, grace):
        blog.shows(f"starred {key}")
        blog.shows(rf"changed {key} .*\(2 stars\)")
    assert rest.get(f"posts/{key}/stars").json() == {"ada": True, "grace": True} and rest.get(f"posts/{key}/starCount").json() == 2

    before = ada.count("offline")
    ada.type("offline")
    ada.shows("offline", before + 1)
    ada.type("post Written on a train")
    other = ada.shows("new .*Written on a train")[0].split()[1]
    ada.type(f"star {other}")
    ada.shows(rf"changed {other} .*\(1 stars\)")
    assert rest.get(f"posts/{other}").json() is None
    ada.type("online")
    ada.shows(f"saved {other}"), ada.shows(f"starred {other}")
    grace.shows(rf"(new|changed) {other} ada: Written on a train \(1 stars\)")
    ada.type("list")
    ada.shows("listed")
    assert len(ada.shows("mine ")) == 2
    ada.end(), grace.end()


def test_presence_on_several_devices(start, dev, ns, url):
    phone, laptop, other = start("presence", url, "ada"), start("presence", url, "ada"), start("presence", url, "grace")
    for device in (phone, laptop, other):
        device.shows("here")
    other.shows("users: ada on 2, grace on 1")
    # The kill leaves no time for a close.
    phone.kill()
    other.shows("users: ada on 1, grace on 1")
    laptop.end()
    other.shows("users: ada gone, grace on 1")
    rest = dev.rest.at("", ns=ns)
    assert rest.get("users/ada/connections").json() is None and isinstance(rest.get("users/ada/lastOnline").json(), int)
    other.end()


def test_a_worker_signs_in_to_two_databases(start, dev, ns, scratch):
    nobody = json.dumps({"rules": {".read": False, ".write": False}}).encode()
    (scratch / "token").write_text("owner\n")
    owner = {"Authorization": "Bearer owner"}
    jobs, done = (dev.rest.at("", ns=name).with_headers(**owner) for name in (ns, f"{ns}-done"))
    for name in (ns, f"{ns}-done"):
        assert dev.rest.send("PUT", f"/.settings/rules.json?ns={name}", nobody, owner).status == 200
    urls = [f"http://127.0.0.1:{dev.port}?ns={name}" for name in (ns, f"{ns}-done")]
    jobs.put("jobs", {"a": 1})
    worker = start("worker", *urls, scratch / "token")
    wait_until(lambda: done.get("done/a/at").json(), "the first job to be done")
    key = jobs.post("jobs", "mow the lawn").json()["name"]
    wait_until(lambda: sorted(done.get("done").json()) == sorted(["a", key]), "the second job to be done")
    wait_until(lambda: jobs.get("jobs").json() is None, "the jobs to be gone")
    assert worker.child.poll() is None, worker.output


def test_everything(start, url, scratch):
    """Compiles in Swift 6 mode, so that the compiler checks the library's promises about actors and tasks."""
    start("everything", url, scratch / "everything").shows("connected true, all of it works")
