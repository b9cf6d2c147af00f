"""Results as ratios, for people and for programs."""

import json
import statistics
from dataclasses import dataclass, field


@dataclass
class Measure:
    """One line of the report: its rounds' figures, and the aim, if there is one."""

    suite: str
    text: str
    rounds: list[float]
    unit: str = ""
    aim: float | None = None
    # The aim is a bound above instead of one below, and the worst round counts.
    at_most: float | None = None
    # Absolute figures of this machine, for the brackets.
    absolute: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def met(self) -> bool | None:
        if self.at_most is not None:
            return max(self.rounds) <= self.at_most
        return None if self.aim is None else self.median >= self.aim

    def row(self) -> list[str]:
        low, high = min(self.rounds), max(self.rounds)
        spread = f"{figure(low)} – {figure(high)}" if len(self.rounds) > 1 else ""
        wanted = f">= {figure(self.aim)}" if self.aim is not None else f"<= {figure(self.at_most)}" if self.at_most is not None else ""
        aim = wanted and f"{wanted} {'met' if self.met else 'MISSED'}"
        return [self.text, figure(self.median) + self.unit, spread, aim, f"[{self.absolute}]" if self.absolute else ""]

    def object(self) -> dict:
        return {"suite": self.suite, "measure": self.text, "unit": self.unit.strip() or "ratio", "median": self.median,
                "min": min(self.rounds), "max": max(self.rounds), "rounds": self.rounds, "aim": self.aim,
                "atMost": self.at_most, "met": self.met, "absolute": self.absolute}


@dataclass
class Plot:
    """Lines through measured points, for the report's pages. `lines`: for each name, [x, y] in the order of x."""

    suite: str
    title: str
    x: str
    y: str
    lines: dict[str, list[list[float]]]
    log_x: bool = True
    log_y: bool = False

    def object(self) -> dict:
        return {"suite": self.suite, "title": self.title, "x": self.x, "y": self.y, "logX": self.log_x, "logY": self.log_y,
                "lines": self.lines}


@dataclass
class Report:
    measures: list[Measure] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    # The checks, and remarks for readers of the figures.
    notes: list[str] = field(default_factory=list)

    def withdraw(self, suite: str):
        self.measures = [measure for measure in self.measures if measure.suite != suite]
        self.plots = [plot for plot in self.plots if plot.suite != suite]
        self.notes = [note for note in self.notes if not note.startswith(f"{suite}: ")]

    def text(self) -> str:
        rows = [["", "median", "min – max", "aim", "[this machine]"]]
        rows += [measure.row() for measure in self.measures]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines, suite = [], None
        for index, row in enumerate(rows):
            if index and self.measures[index - 1].suite != suite:
                suite = self.measures[index - 1].suite
                lines.append(f"\n{suite}")
            cells = [row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2]), row[3].ljust(widths[3])]
            lines.append(("  " + "  ".join(cells) + "  " + row[4]).rstrip())
        return "\n".join(lines + [""] + [f"- {note}" for note in self.notes])

    def json(self, **facts) -> str:
        return json.dumps({**facts, "measures": [measure.object() for measure in self.measures],
                           "plots": [plot.object() for plot in self.plots], "notes": self.notes}, indent=1, ensure_ascii=False) + "\n"


def figure(number: float) -> str:
    """Three digits that matter, thousands with commas."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"


def typical(figures: list[float]) -> str:
    return figure(statistics.median(figures))
