"""The Debian package's life in a Debian that has nothing else: installed, used, updated, removed and purged, in this order."""

import json
import os
import re
import shutil
import stat
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from harness.ports import free_port
from harness.process import Process
from harness.waiting import wait_until

SETTINGS = "/etc/pathmirror/pathmirror.env"
SECRET = "/etc/pathmirror/admin-secret"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_package_has_no_faults(package):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", package], text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(clean_root, package):
    """The clean root with the package; each test continues with the state of the test before."""
    before = set(clean_root.run("dpkg-query", "-W", "-f", "${Package}\n").split())
    assert "pathmirror" not in before and "libpq5" not in before
    said = clean_root.install(package)
    assert "name the database in /etc/pathmirror/pathmirror.env" in said
    return clean_root


def test_the_program_runs_without_a_toolchain(installed):
    assert installed.run("pathmirror", "version").startswith("0.2.0-dev")
    assert "libswift" not in installed.run("ldd", "/usr/bin/pathmirror")


def test_it_has_a_user_and_a_secret_of_its_own(installed):
    assert re.match(r"pathmirror:x:\d+:\d+:[^:]*:/nonexistent:/usr/sbin/nologin$", installed.run("getent", "passwd", "pathmirror").strip())
    secret = installed.path(SECRET)
    assert re.fullmatch("[0-9a-f]{64}", secret.read_text()) and mode(secret) == 0o600 and secret.owner() == "root"
    assert mode(installed.path(SETTINGS)) == 0o600


def test_manual_and_completions_are_there(installed):
    for name in ("share/man/man1/pathmirror.1.gz", "share/man/man1/pathmirror-log-ls.1.gz", "share/bash-completion/completions/pathmirror",
                 "share/zsh/vendor-completions/_pathmirror", "share/fish/vendor_completions.d/pathmirror.fish", "share/doc/pathmirror/copyright"):
        # A minimal Debian may omit manual pages by its settings; this one does not.
        assert installed.path("usr/" + name).stat().st_size > 100, name


def test_systemd_understands_the_unit(installed, tmp_path):
    unit = installed.path("/lib/systemd/system/pathmirror.service")
    lines = unit.read_text().splitlines()
    assert "User=pathmirror" in lines and "ExecStart=/usr/bin/pathmirror serve" in lines and "DynamicUser=yes" not in lines
    assert lines[0] == "[Unit]" and "Documentation=file:///usr/share/doc/pathmirror" in lines
    # systemd-analyze looks for the program on this machine.
    copy = tmp_path / "pathmirror.service"
    copy.write_text(unit.read_text().replace("/usr/bin/pathmirror", shutil.which("true")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], text=True, capture_output=True)
    assert "pathmirror" not in done.stderr, done.stderr


def test_it_serves_as_its_user_with_its_settings(installed, database_url, tmp_path):
    """Does the work of the unit by hand: settings from the file, the secret as a credential, the user without rights."""
    port = free_port()
    settings = installed.path(SETTINGS)
    text = settings.read_text()
    text = re.sub(r"(?m)^PATHMIRROR_DATABASE_URL=.*$", f"PATHMIRROR_DATABASE_URL={database_url}", text)
    text = re.sub(r"(?m)^PATHMIRROR_LISTEN=.*$", f"PATHMIRROR_LISTEN=127.0.0.1:{port}", text)
    settings.write_text(text)
    credential = installed.path("/run/admin-secret")
    shutil.copy(installed.path(SECRET), credential)
    user = installed.run("id", "-u", "pathmirror").strip()
    os.chown(credential, int(user), -1)
    credential.chmod(0o400)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    identity = ["setpriv", "--reuid=pathmirror", "--regid=pathmirror", "--clear-groups", "--no-new-privs"]
    serve = Process(["chroot", installed.folder, "env", "-i", "PATH=/usr/bin:/bin", *lines, "PATHMIRROR_ADMIN_SECRET_FILE=/run/admin-secret",
                     *identity, "/usr/bin/pathmirror", "serve"], "serve", tmp_path)
    base = f"http://127.0.0.1:{port}"
    authorization = {"Authorization": "Bearer " + installed.path(SECRET).read_text()}

    def is_ready():
        try:
            return urllib.request.urlopen(base + "/.health/ready", timeout=5).status == 200
        except OSError:
            assert serve.running, serve.tail()
            return False

    try:
        wait_until(is_ready, "the gateway")
        assert Path(f"/proc/{serve.pid}/status").read_text().split("Uid:")[1].split()[0] == user
        put = urllib.request.Request(base + "/users/ada.json", b'{"born":1815}', authorization, method="PUT")
        assert json.load(urllib.request.urlopen(put, timeout=30)) == {"born": 1815}
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(base + "/users.json", timeout=30)
    finally:
        assert serve.stop() == 0
        credential.unlink()
    # The administration commands, as root.
    assert '"born":1815' in installed.run("pathmirror", "export", "--database-url", database_url).replace(" ", "")


def later(package: Path, folder: Path) -> Path:
    """The same package with a higher version."""
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: (.*)$", r"Version: \g<1>.later", control.read_text()))
    made = folder / package.name.replace("_amd64", ".later_amd64")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, made], check=True, capture_output=True)
    return made


def test_an_update_leaves_settings_and_secret_alone(installed, package, tmp_path):
    settings, secret = (installed.path(name).read_text() for name in (SETTINGS, SECRET))
    said = installed.install(later(package, tmp_path))
    assert "name the database" not in said
    assert installed.run("dpkg-query", "-W", "-f", "${Version}", "pathmirror").endswith(".later")
    assert [installed.path(name).read_text() for name in (SETTINGS, SECRET)] == [settings, secret]
    assert mode(installed.path(SETTINGS)) == 0o600


def test_removing_leaves_the_settings_and_purging_nothing(installed):
    secret = installed.path(SECRET).read_text()
    installed.run("apt-get", "remove", "--yes", "pathmirror")
    assert not installed.path("/usr/bin/pathmirror").exists()
    assert installed.path(SETTINGS).exists() and installed.path(SECRET).read_text() == secret
    installed.run("apt-get", "purge", "--yes", "pathmirror")
    assert not installed.path("/etc/pathmirror").exists()
    left = installed.run("find", "/usr", "/etc", "/lib/systemd", "/var/lib", "-name", "*pathmirror*", "-not", "-path", "/var/lib/apt/*").split()
    # Debian keeps a list of enabled units, which was empty.
    assert left == [], left
