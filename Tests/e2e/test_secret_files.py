"""Files of secrets: other users that can read them, and files that the gateway cannot read."""

import os
import re
import secrets
import signal
import stat

import pytest
from harness import cli
from harness.binary import pathmirror
from harness.gateway import SECRET
from harness.process import Process
from harness.tls import Authority, Pair
from harness.waiting import wait_until

WARNING = "other users can read or change a file of secrets"
ROOT = os.geteuid() == 0


@pytest.fixture
def secret_file(scratch):
    """A namespace's secret, unreadable for others."""
    file = scratch / "database-secret"
    file.write_text(secrets.token_urlsafe(30) + "\n")
    file.chmod(0o600)
    return file


def warnings(gateway) -> list[str]:
    return [line for line in gateway.process.stderr().splitlines() if WARNING in line]


def test_files_for_the_gateway_alone_are_nothing_to_warn_of(serve, secret_file):
    gateway = serve("--database-secret-file", f"default={secret_file}", "--strict-secrets")
    assert warnings(gateway) == []
    assert gateway.rest.get("x", auth=secret_file.read_text().strip()).status == 200


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_files_that_others_can_read_are_warned_of(serve, secret_file, mode):
    secret_file.chmod(mode)
    gateway = serve("--database-secret-file", f"default={secret_file}")
    line, = warnings(gateway)
    assert f"file={secret_file}" in line and f"mode=0{mode:o}" in line and f'fix="chmod 600 {secret_file}"' in line
    assert secret_file.read_text().strip() not in gateway.process.stderr()
    # The command that the message prints:
    secret_file.chmod(0o600)
    gateway.process.send(signal.SIGHUP)
    wait_until(lambda: "secrets read" in gateway.process.stderr(), "the files to be read again")
    assert len(warnings(gateway)) == 1


@pytest.mark.parametrize("option, value", [
    ("--admin-secret-file", "{}"), ("--database-secret-file", "default={}"), ("--database-secret-file", "{}"), ("--tls-key", "{}")])
def test_strict_secrets_refuses_them(database_url, scratch, option, value):
    file = scratch / "shared"
    file.write_text('{"default": "%s"}' % secrets.token_urlsafe(30))
    file.chmod(0o640)
    words = [option, value.format(file)] + (["--tls-certificate", file] if option == "--tls-key" else [])
    refused = cli.command("serve", "--database-url", database_url, "--strict-secrets", *words)
    assert refused.returncode == 1
    assert str(file) in refused.stderr and "0640" in refused.stderr and f"chmod 600 {file}" in refused.stderr and "--strict-secrets" in refused.stderr


def test_a_file_that_is_opened_to_others_later(serve, secret_file):
    gateway = serve("--database-secret-file", f"default={secret_file}", "--strict-secrets")
    secret = secret_file.read_text().strip()
    secret_file.chmod(0o644)
    wait_until(lambda: "the previous ones stay in use" in gateway.process.stderr(), "the refusal in the log")
    assert gateway.rest.get("x", auth=secret).status == 200


def test_the_key_of_the_certificate(serve, scratch):
    pair = Pair(Authority(scratch), scratch)
    pair.key.chmod(0o644)
    gateway = serve(*pair.options, "--tls-listen", "127.0.0.1:0")
    line, = warnings(gateway)
    assert str(pair.key) in line and str(pair.certificate) not in line


def test_what_systemd_shows_to_the_service_alone(serve, secret_file):
    """systemd's credentials show the mask of access lists as the rights of a group."""
    secret_file.chmod(0o440)
    gateway = serve("--database-secret-file", f"default={secret_file}", "--strict-secrets", env={"CREDENTIALS_DIRECTORY": str(secret_file.parent)})
    assert warnings(gateway) == []


def start_as_nobody(database_url, logs, *words) -> str:
    """The error of a program that cannot start."""
    process = Process([pathmirror(), "serve", "--database-url", database_url, *words], "as-nobody", logs, user="nobody")
    assert process.wait(20) == 1, process.tail()
    return process.stderr()


@pytest.mark.skipif(not ROOT, reason="only root can run a program as another user")
@pytest.mark.parametrize("option", ["--admin-secret-file", "--tls-key"])
def test_a_file_that_the_gateway_cannot_read(database_url, scratch, logs, option):
    import pwd
    uid = pwd.getpwnam("nobody").pw_uid
    scratch.chmod(0o755)
    file = scratch / "closed"
    file.write_text(SECRET)
    file.chmod(0o600)
    words = [option, file] + (["--tls-certificate", file] if option == "--tls-key" else [])
    said = start_as_nobody(database_url, logs, *words)
    assert f"{file} can't be read: it has mode 0600 and owner uid 0, but this program runs as uid {uid}. Change the owner: chown {uid} {file}." in said
    folder = scratch / "folder"
    folder.mkdir(mode=0o700)
    file = file.rename(folder / "closed")
    words = [option, file] + (["--tls-certificate", file] if option == "--tls-key" else [])
    said = start_as_nobody(database_url, logs, *words)
    assert re.search(rf"{file} can't be read: uid {uid}, as which this program runs, has no access to a folder above it", said)


@pytest.mark.skipif(not ROOT, reason="only root can give a file away")
def test_a_file_of_somebody_elses_is_to_be_the_gateways_own(database_url, scratch, logs):
    import pwd
    uid = pwd.getpwnam("nobody").pw_uid
    scratch.chmod(0o755)
    file = scratch / "shared"
    file.write_text(SECRET)
    file.chmod(0o644)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    said = start_as_nobody(database_url, logs, "--admin-secret-file", file, "--strict-secrets")
    assert f"chown {uid} {file} && chmod 600 {file}." in said


def test_a_file_that_is_not_there(database_url, scratch):
    missing = cli.command("serve", "--database-url", database_url, "--admin-secret-file", scratch / "none")
    assert missing.returncode == 1 and f"{scratch / 'none'} can't be read: No such file or directory" in missing.stderr
