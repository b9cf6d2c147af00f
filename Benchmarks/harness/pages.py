"""The report's pages: from a run's results (as `Report.json` writes them) to docs/explanation/benchmarks.md and its plots. Pure."""

import json
import re
import textwrap

from .plots import svg
from .report import figure

FOLDER = "benchmarks"
PAGE = "benchmarks.md"
# The documentation has lines of at most 160 characters.
LONGEST = 158


def pages(results: dict) -> dict[str, str]:
    """Returns the files below docs/explanation/, as text by file name. They include the results, so that readers can check the page."""
    made = {f"{FOLDER}/results.json": json.dumps(results, indent=1, ensure_ascii=False) + "\n"}
    names = {}
    for number, plot in enumerate(results["plots"]):
        name = f"{FOLDER}/{plot['suite']}-{slug(plot['title'])}.svg"
        if name in made:
            raise ValueError(f"two plots of {plot['suite']!r} are named {plot['title']!r}")
        names[number] = name
        made[name] = svg(plot["title"], plot["x"], plot["y"], plot["lines"], plot["logX"], plot["logY"])
    made[PAGE] = "\n".join([*_head(results), *_summary(results), *_races(results, names), *_machine(results["machine"])])
    return made


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].rstrip("-")


def _head(results: dict) -> list[str]:
    lines = [
        "# Benchmarks", "",
        "This page compares the speed of Pathmirror with that of PostgreSQL, etcd, Redis and PgQ, for operators and developers.",
        "`make bench ARGS=--report` writes the page from one run, and [results.json](benchmarks/results.json) contains every round of that run.",
        "[Benchmarks/README.md](../../Benchmarks/README.md) describes the methods, and [performance.md](performance.md) the limits and the experiments.", "",
        "- The sides of a race take turns on one machine, with the same guarantee: an answer means that the write is synced to the disk.",
        "- Each pair of neighbouring measurements gives one ratio, and the tables contain the median, the smallest and the largest of these.",
        "  Above 1 Pathmirror is faster, unless the line states otherwise.",
        "- The median must meet an aim of at least a number, and the largest ratio an aim of at most a number.",
        "- Figures under *this machine* are not comparable with those of another machine.",
        "- Latencies are those of a closed loop: each connection sends its next request after an answer, and so offers less to a slow server.",
        "  In *Writes and subscribers together* they count from the time at which a write was due.", "",
    ]
    if results.get("quick"):
        lines += ["**This is a quick run with few and short rounds and small data: it shows only that everything works.**", ""]
    others = results.get("othersShare", 0)
    if others > 0.05:
        lines += [f"**Other programs used {others:.0%} of the processors during this run.**", ""]
    for failure in results.get("failures", []):
        lines += [f"**Void:** {cell(failure.splitlines()[0])}", ""]
    return lines


def _summary(results: dict) -> list[str]:
    measures = results["measures"]
    aims = [measure for measure in measures if measure["met"] is not None]
    missed = [measure for measure in aims if not measure["met"]]
    lines = [f"{len(aims) - len(missed)} of {len(aims)} aims are met."]
    if missed:
        lines += ["", "| race | missed aim | median | aim |", "| --- | --- | --- | --- |"]
        lines += [f"| [{suite(results, measure)['title']}](#{anchor(suite(results, measure)['title'])}) | {cell(full_text(measures, measure))} | "
                  f"{amount(measure['median'], measure)} | {aim(measure)} |" for measure in missed]
    return [*lines, ""]


def _races(results: dict, names: dict[int, str]) -> list[str]:
    lines = []
    for name, told in results["suites"].items():
        measures = [measure for measure in results["measures"] if measure["suite"] == name]
        if not measures:
            continue
        lines += [f"## {told['title']}", "", told["text"], "", "| | median | smallest – largest | aim | this machine |",
                  "| --- | --- | --- | --- | --- |"]
        lines += [row(measure) for measure in measures] + [""]
        prefix = f"{name}: "
        notes = [item(note[len(prefix):]) for note in results["notes"] if note.startswith(prefix)]
        lines += [*notes, ""] if notes else []
        for number, plot in enumerate(results["plots"]):
            if plot["suite"] == name:
                lines += [f"![{cell(plot['title'])}]({names[number]})", ""]
    general = [note for note in results["notes"] if note.split(": ")[0] not in results["suites"]]
    return lines + [item(note) for note in general] + ([""] if general else [])


def _machine(machine: dict) -> list[str]:
    disk = machine["fdatasync"]
    lines = ["## The machine", "", "| | |", "| --- | --- |"]
    lines += [f"| {cell(name)} | {cell(value)} |" for name, value in machine["facts"].items()]
    lines += [f"| fdatasync of {disk['bytes']:,} bytes, {disk['count']:,} times | smallest {disk['min']:.2f} ms, p50 {disk['p50']:.2f} ms, "
              f"p90 {disk['p90']:.2f} ms, p99 {disk['p99']:.2f} ms, largest {disk['max']:.2f} ms |", ""]
    settings = ", ".join(f"`{name}` {value}" for name, value in machine.get("postgres", {}).items())
    lines += [wrapped(f"PostgreSQL's settings that differ from its defaults: {settings}."), ""] if settings else []
    return lines


def row(measure: dict) -> str:
    spread = f"{amount(measure['min'], measure)} – {amount(measure['max'], measure)}" if len(measure["rounds"]) > 1 else ""
    text = measure["measure"]
    text = ("… " + text.strip()) if text.startswith("  ") else text
    verdict = "" if measure["met"] is None else f"{aim(measure)}: {'met' if measure['met'] else '**missed**'}"
    return f"| {cell(text)} | {amount(measure['median'], measure)} | {spread} | {verdict} | {cell(measure['absolute'])} |"


def item(note: str) -> str:
    """Returns an item of a list, with each sentence on a line of its own."""
    sentences = re.split(r"(?<=\.) (?=[A-Z])", note)
    return "\n".join([wrapped(f"- {sentences[0]}", "  "), *(wrapped(f"  {sentence}", "  ") for sentence in sentences[1:])])


def wrapped(line: str, indent: str = "") -> str:
    return textwrap.fill(line, LONGEST, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def amount(number: float, measure: dict) -> str:
    return figure(number) + ("" if measure["unit"] == "ratio" else f" {measure['unit']}")


def aim(measure: dict) -> str:
    return f"at least {figure(measure['aim'])}" if measure["aim"] is not None else f"at most {figure(measure['atMost'])}"


def full_text(measures: list[dict], measure: dict) -> str:
    """A measure's text with the line that it continues."""
    text = measure["measure"]
    if not text.startswith("  "):
        return text
    before = [other["measure"] for other in measures[:measures.index(measure)]
              if other["suite"] == measure["suite"] and not other["measure"].startswith("  ")]
    return f"{before[-1]} … {text.strip()}" if before else text.strip()


def suite(results: dict, measure: dict) -> dict:
    return results["suites"][measure["suite"]]


def anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
