"""The arguments of gateways: options, and the constants that a test changes (PATHMIRROR_TUNE, see CONTRIBUTING.md).

Comparisons and updates also start programs that are older than the units of options. They get the same values under the names of their
version."""

import functools
import re
import subprocess

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000,
          "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1000, "MB": 10**6, "": 1}
# The former option, and the divisor for its value.
_OPTIONS = {
    "--clock-skew": ("--clock-skew-s", 1000), "--hsts-max-age": ("--hsts-max-age-s", 1000), "--max-body": ("--max-body-bytes", 1),
    "--max-user-body": ("--max-user-body-bytes", 1), "--request-memory": ("--memory-bytes", 1), "--stream-buffer": ("--sse-buffer-bytes", 1),
    "--session-timeout": ("--session-timeout-ms", 1), "--dead-after": ("--dead-after-ms", 1), "--commit-deadline": ("--commit-deadline-ms", 1),
    "--retention-interval": ("--retention-interval-ms", 1), "--shutdown-timeout": ("--shutdown-ms", 1),
}
_CONSTANTS = {
    "answer-cache": "--answer-cache-bytes", "long-stretch": "--long-stretch-ms", "workers": "--workers", "max-streams": "--max-streams",
    "max-sessions": "--max-sessions", "max-log-readers": "--max-log-readers", "max-feed-waits": "--max-feed-waits",
    "log-poll": "--log-poll-ms", "header-timeout": "--header-timeout-ms", "body-timeout": "--body-timeout-ms",
    "idle-timeout": "--idle-timeout-ms", "write-stall": "--write-stall-timeout-ms", "stream-keep-alive": "--sse-keepalive-ms",
    "keep-alive-timeout": "--keepalive-timeout-ms", "transaction-slot": "--transaction-turn-ms", "poll-interval": "--poll-ms",
    "heartbeat": "--heartbeat-ms", "feed-takeover": "--feed-takeover-ms",
}


@functools.cache
def _has_no_units(program: str) -> bool:
    return "--dead-after-ms" in subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True).stdout


def _number(text: str, divisor: int = 1) -> str:
    number, unit = re.fullmatch(r"(\d+)([A-Za-z]*)", text).groups()
    return str(int(number) * _UNITS[unit] // divisor)


def _then(option: str, value: str) -> list[str]:
    if option in _OPTIONS:
        name, divisor = _OPTIONS[option]
        return [name, _number(value, divisor)]
    if option == "--write-limit":
        return ["--write-bytes-per-minute", _number(value.removesuffix("/m"))]
    if option == "--database-secret-file" and "=" not in value:
        return ["--database-secrets-file", value]
    return [option, value]


def spoken(program: str, options, tune: str = "") -> tuple[list[str], dict[str, str]]:
    """The words of a program's command line, and variables of its environment. `tune` is `NAME=VALUE,…`."""
    words = [str(word) for word in options]
    if not _has_no_units(str(program)):
        return words, {"PATHMIRROR_TUNE": tune} if tune else {}
    found = []
    while words:
        word = words.pop(0)
        found += _then(word, words.pop(0)) if word.startswith("--") and words and not words[0].startswith("--") else [word]
    for pair in filter(None, tune.split(",")):
        name, value = pair.split("=")
        found += [_CONSTANTS[name], _number(value)]
    # This follows from it now. The takeover of feeds stays as it was: 5 s.
    if "heartbeat" not in tune and "--dead-after-ms" in found:
        found += ["--heartbeat-ms", str(min(3000, int(found[found.index("--dead-after-ms") + 1]) // 5))]
    return found, {}
