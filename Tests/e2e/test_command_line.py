"""The command line's help in real shells: completions of bash, zsh and fish, and the manual's pages in `man`."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from harness import cli
from harness.binary import pathmirror

COMMANDS = re.findall(r"^  ([a-z-]+(?: [a-z]+)*)  ", cli.succeeds("help"), re.MULTILINE)


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing: scripts/install-dependencies test"
    return found


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The three scripts, as `make install` writes them."""
    folder = tmp_path_factory.mktemp("completions")
    for shell, name in (("bash", "pathmirror"), ("zsh", "_pathmirror"), ("fish", "pathmirror.fish")):
        cli.succeeds("completions", shell, "--output", folder / name)
    (folder / "files").mkdir()
    (folder / "files/export one.json").touch()
    (folder / "files/export2.json").touch()
    (folder / "files/folder").mkdir()
    return folder


def bash(scripts, *words: str) -> list[str]:
    """The completions that bash offers for the last word; words are split as readline splits them."""
    text = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pathmirror; ((${#COMPREPLY[@]} == 0)) || printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run([program("bash"), "--norc", "-c", text, "bash", scripts / "pathmirror", "pathmirror", *words],
                          cwd=scripts / "files", capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    # Outside of a completion `compopt` has nothing to change, and prints an error.
    assert not done.stderr
    return done.stdout.splitlines()


def fish(scripts, line: str) -> list[str]:
    done = subprocess.run([program("fish"), "--no-config", "-c", f"source {scripts}/pathmirror.fish; complete -C '{line}'"],
                          cwd=scripts / "files", capture_output=True, text=True, timeout=30, env={**os.environ, "HOME": str(scripts)})
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [offer.split("\t")[0] for offer in done.stdout.splitlines()]


OFFERS = [
    ([""], {"dev", "log", "version"}, {"ls", "--ns"}),
    (["l"], {"log"}, {"dev"}),
    (["log", ""], {"ls", "show", "tail"}, {"log", "apply"}),
    (["feed", "dead", ""], {"ls", "retry", "drop"}, {"apply"}),
    (["log", "ls", "--f"], {"--from"}, {"--path", "--feeds-url"}),
    (["log", "ls", "--"], {"--from", "--json", "--help"}, {"--chunked"}),
    (["log", "ls", "--json", "--t"], {"--to"}, {"--json"}),
    (["serve", "--log-format", ""], {"text", "json"}, {"serve"}),
    (["serve", "--ns", ""], set(), {"dev", "export2.json"}),
    (["import", ""], {"export2.json", "export one.json"}, {"dev"}),
    (["import", "export2"], {"export2.json"}, {"export one.json"}),
    (["export", "-o", "exp"], {"export2.json", "export one.json"}, set()),
    (["help", ""], {"log", "dev"}, {"ls"}),
    (["help", "log", ""], {"ls", "show"}, {"log", "dev"}),
    (["completions", ""], {"bash", "zsh", "fish"}, {"export2.json"}),
    (["log", "verify", ""], set(), {"log", "export2.json"}),
]


@pytest.mark.parametrize("words, offered, others", OFFERS, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_bash_offers_what_fits(scripts, words, offered, others):
    offers = set(bash(scripts, *words))
    assert offered <= offers and not others & offers


def test_bash_takes_an_equals_sign_apart(scripts):
    assert set(bash(scripts, "serve", "--log-format", "=")) == {"text", "json"}
    assert bash(scripts, "serve", "--log-format", "=", "j") == ["json"]
    assert set(bash(scripts, "log", "ls", "--ns", "=", "x", "--fr")) == {"--from"}


def test_bash_offers_folders_for_folders(scripts):
    assert bash(scripts, "man", "--folder", "f") == ["folder"]
    assert bash(scripts, "man", "--folder", "export") == []


@pytest.mark.parametrize("words, offered, others", [case for case in OFFERS if "-o" not in case[0]],
                         ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_fish_offers_what_fits(scripts, words, offered, others):
    offers = {offer.replace("\\ ", " ") for offer in fish(scripts, " ".join(["pathmirror", *words]))}
    assert offered <= offers and not others & offers


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_offered(scripts, name):
    words = name.split(" ")
    assert words[-1] in bash(scripts, *words[:-1], words[-1])
    wanted = set(re.findall(r"^  (--[a-z-]+)", cli.succeeds(*words, "--help", "all"), re.MULTILINE)) | {"--help"}
    assert set(bash(scripts, *words, "--")) == wanted
    assert set(fish(scripts, f"pathmirror {name} --")) == wanted


class Terminal:
    """A shell on a terminal of its own, with a `pathmirror` that only prints its arguments."""

    def __init__(self, *command: str, folder, setup: str):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder / "files")
            os.execve(program(command[0]), list(command), {"TERM": "dumb", "HOME": str(folder), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"})
        self.say(setup + "\n")
        self.say("pathmirror ready\n")
        self.wait_for("called:ready;")

    def say(self, text: str):
        os.write(self.descriptor, text.encode())

    def wait_for(self, text: str) -> str:
        seen, deadline = "", time.monotonic() + 60
        while text not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([self.descriptor], [], [], 1)[0]:
                seen += os.read(self.descriptor, 65536).decode(errors="replace")
        return seen

    def close(self):
        os.close(self.descriptor)
        os.waitpid(self.pid, 0)


CALLED = "pathmirror() { printf 'called:'; printf '%s;' \"$@\"; echo; }"


@pytest.fixture(params=["bash", "zsh"])
def terminal(request, scripts):
    if request.param == "bash":
        shell = Terminal("bash", "--norc", "--noprofile", folder=scripts, setup=f"source {scripts}/pathmirror; {CALLED}")
    else:
        shell = Terminal("zsh", "-f", folder=scripts,
                         setup=f"unsetopt zle_bracketed_paste; fpath=({scripts} $fpath); autoload -U compinit; compinit -u -D; {CALLED}")
    yield shell
    shell.close()


@pytest.mark.parametrize("typed, called", [
    ("lo\tsh\t7", "log;show;7;"), ("fe\tde\tr\tx", "feed;dead;retry;x;"), ("log ls --fr\t", "log;ls;--from"),
    ("serve --log-f\t", "serve;--log-format"), ("import export2\t", "import;export2.json;"), ("import export\\ \t", "import;export one.json;"),
    ("help mirror inf\t", "help;mirror;infer;")])
def test_the_tabulator_key_completes(terminal, typed, called):
    terminal.say(f"pathmirror {typed}\n")
    assert f"called:{called}" in terminal.wait_for(f"called:{called}")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man") / "man1"
    cli.succeeds("man", "--folder", folder)
    return folder


def test_there_is_a_page_for_each_command(pages):
    assert {page.name for page in pages.iterdir()} == {"pathmirror.1"} | {f"pathmirror-{name.replace(' ', '-')}.1" for name in COMMANDS}


def read(page) -> str:
    # troff prints all defects of a page to standard error.
    done = subprocess.run([program("man"), "--warnings=w", "-E", "UTF-8", "-l", page], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "MANWIDTH": "1000", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"})
    assert done.returncode == 0 and not done.stderr, done.stderr
    return re.sub(r"\s+", " ", done.stdout)


def test_pages_are_read_without_a_warning(pages):
    shown = read(pages / "pathmirror.1")
    for name in COMMANDS:
        assert f"pathmirror-{name.replace(' ', '-')}(1)" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_says_what_help_says(pages, name):
    shown = read(pages / f"pathmirror-{name.replace(' ', '-')}.1")
    text = cli.succeeds(*name.split(" "), "--help", "all")
    for line in text.splitlines()[2:]:
        assert re.sub(r"\s+", " ", line.strip()) in shown


def test_a_page_of_one_command_is_the_file(pages):
    assert cli.succeeds("man", "log", "ls") == (pages / "pathmirror-log-ls.1").read_text()
    assert cli.succeeds("man") == (pages / "pathmirror.1").read_text()
    failed = cli.command("man", "log", "sl")
    assert failed.returncode == 2 and 'Did you mean "log ls"?' in failed.stderr
