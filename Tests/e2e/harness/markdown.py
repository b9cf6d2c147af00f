"""Markdown pages without their code: headings, links, and the form of their prose."""

import re
from pathlib import Path

LONGEST = 160
# A sentence of up to this length has one line. A longer one may be broken.
SHORT = 120
LINK = re.compile(r"\]\(([^()\s]+(?:\([^()]*\))?)\)")
# The end of a sentence and the start of the next one. A bold text at the start of a line is a heading of that line.
NEXT_SENTENCE = re.compile(r"[\w)\]`\"'*…][.!?][\"')*_]* +(?=[\"'(*_\[]*[A-Z])")
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|St|U\.S)\. ")


def prose(page: str) -> list[tuple[int, str]]:
    """Returns the lines outside of code blocks with their numbers."""
    found, fence = [], False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence and not re.match(r"( {4}|\t)", line):
            found.append((number, line))
    return found


def without_code(line: str) -> str:
    return re.sub(r"(`+).+?\1", "`x`", line)


def anchors(page: str) -> set[str]:
    """Returns the anchors that GitHub gives to the headings of a page."""
    found: set[str] = set()
    for _, line in prose(page):
        if heading := re.match(r"#{1,6} +(.*?)\s*#*$", line):
            text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            number, name = 0, anchor
            while name in found:
                number += 1
                name = f"{anchor}-{number}"
            found.add(name)
    return found


def links(page: str) -> list[tuple[int, str]]:
    """Returns the relative links of a page, images included, with their lines."""
    return [(number, target) for number, line in prose(page) for target in LINK.findall(without_code(line))
            if not re.match(r"[a-z][a-z+.-]*:", target)]


def broken_links(file: Path) -> list[str]:
    """Returns a sentence for each relative link of a page whose file or heading does not exist."""
    found = []
    for number, target in links(file.read_text()):
        name, _, anchor = target.partition("#")
        there = file.parent / name if name else file
        if not there.exists():
            found.append(f"{file}:{number}: no file {target}")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
            found.append(f"{file}:{number}: no heading {target}")
    return found


def bad_lines(page: str) -> list[str]:
    """Returns a sentence for each line that is too long, has two sentences, or breaks a sentence that fits in one line. Tables are exempt."""
    found = []
    lines = prose(page)
    for index, (number, line) in enumerate(lines):
        if line.startswith("|"):
            continue
        if len(line) > LONGEST:
            found.append(f"line {number} has {len(line)} characters")
        plain = _plain(line)
        if NEXT_SENTENCE.search(plain):
            found.append(f"line {number} has two sentences: {line}")
        following = lines[index + 1] if index + 1 < len(lines) else (0, "")
        if following[0] == number + 1 and _goes_on(plain, following[1]) and len(line) + 1 + len(following[1].strip()) <= SHORT:
            found.append(f"line {number} breaks a sentence that fits in one line: {line}")
    return found


def _plain(line: str) -> str:
    line = re.sub(r"^\s*(#+ +\d+\.|[-*]|\d+\.) +", "", line)
    line = re.sub(r"^\*\*[^*]+[.:?!]\*\*[.:]? +", "", line)
    line = re.sub(r"(`+).+?\1", "`x`", line)
    return ABBREVIATIONS.sub(r"\1, ", re.sub(r"\]\([^)]*\)", "]", line))


def _goes_on(line: str, following: str) -> bool:
    """Whether a paragraph continues in the following line in the middle of a sentence."""
    if not line.strip() or not following.strip() or line.startswith(("#", ">")) or re.match(r"\s*([-*]|\d+\.) |#|\||>|```", following):
        return False
    return not re.search(r"[.!?:…][\"')*_`]*\\?\s*$", line)
