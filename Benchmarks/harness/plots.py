"""Plots as SVG, by hand: lines through points, readable on light and on dark pages. A pure function of its arguments."""

import math
from html import escape

_WIDTH, _HEIGHT = 720, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 24, 44, 56
# Colours that differ for readers with colour blindness, too; each line also has its own mark.
_COLOURS = ["#3987e5", "#d9822b", "#2e9e6b", "#b563c9", "#c8524d", "#7a8793"]
_STYLE = """text{font:13px system-ui,sans-serif;fill:#333}.t{font-size:15px;font-weight:600}.g{stroke:#8884;stroke-width:1}
.a{stroke:#888;stroke-width:1}.l{fill:none;stroke-width:2}@media(prefers-color-scheme:dark){text{fill:#ddd}}"""


def svg(title: str, x: str, y: str, lines: dict[str, list[list[float]]], log_x: bool = True, log_y: bool = False) -> str:
    """The whole file. Axes of logarithms omit points at or below zero."""
    kept = {name: [(a, b) for a, b in points if (a > 0 or not log_x) and (b > 0 or not log_y)] for name, points in lines.items()}
    points = [point for of_line in kept.values() for point in of_line]
    if not points:
        raise ValueError(f"nothing to plot in {title!r}")
    across = Axis([a for a, _ in points], log_x, _LEFT, _WIDTH - _RIGHT)
    up = Axis([b for _, b in points] + ([] if log_y else [0]), log_y, _HEIGHT - _BOTTOM, _TOP + 18 * len(kept) / 2)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"><title>{escape(title)}</title>'
             f"<style>{_STYLE}</style>", f'<text class="t" x="{_LEFT}" y="20">{escape(title)}</text>']
    for value in up.ticks():
        at = up.place(value)
        parts.append(f'<path class="g" d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}"/>'
                     f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{label(value)}</text>')
    for value in across.ticks():
        at = across.place(value)
        parts.append(f'<path class="a" d="M{at:.1f} {_HEIGHT - _BOTTOM}v5"/>'
                     f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{label(value)}</text>')
    parts.append(f'<path class="a" d="M{_LEFT} {_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"/>')
    parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x)}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="20" text-anchor="end">{escape(y)}</text>')
    for number, (name, of_line) in enumerate(kept.items()):
        parts.append(_line(number, name, [(across.place(a), up.place(b)) for a, b in of_line]))
    return "\n".join(parts) + "\n</svg>\n"


def _line(number: int, name: str, places: list[tuple[float, float]]) -> str:
    colour, round_mark = _COLOURS[number % len(_COLOURS)], number % 2 == 0
    legend = _LEFT + 12 + (number % 2) * 320, _TOP - 2 + number // 2 * 18

    def mark(a: float, b: float) -> str:
        if round_mark:
            return f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{colour}"/>'
        return f'<rect x="{a - 3.5:.1f}" y="{b - 3.5:.1f}" width="7" height="7" fill="{colour}"/>'

    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
    drawn = f'<path class="l" stroke="{colour}" d="M{path}"/>' if places else ""
    return (drawn + "".join(mark(a, b) for a, b in places)
            + mark(legend[0], legend[1] - 4) + f'<text x="{legend[0] + 10}" y="{legend[1]}">{escape(name)}</text>')


class Axis:
    """The positions of numbers between two ends, in steps that are round numbers."""

    def __init__(self, values: list[float], is_log: bool, begin: float, end: float):
        self.is_log, self.begin, self.end = is_log, begin, end
        low, high = min(values), max(values)
        if is_log:
            self.low, self.high = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
            self.step = 1
            # Less than a decade would leave only margins.
            self.high = max(self.high, self.low + 1)
        else:
            rough = (high - low or abs(high) or 1) / 5
            power = 10 ** math.floor(math.log10(rough))
            self.step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
            self.low, self.high = math.floor(low / self.step + 1e-9) * self.step, math.ceil(high / self.step - 1e-9) * self.step
            self.high = max(self.high, self.low + self.step)

    def place(self, value: float) -> float:
        number = math.log10(value) if self.is_log else value
        return self.begin + (number - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        if self.is_log:
            return [10.0 ** power for power in range(self.low, self.high + 1)]
        return [self.low + number * self.step for number in range(round((self.high - self.low) / self.step) + 1)]


def label(value: float) -> str:
    """Short: 10k, 2.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.6g}"
