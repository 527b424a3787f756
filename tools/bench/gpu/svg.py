"""Draws the plot of growing cost as a self-contained SVG, without other libraries."""

import math
from xml.sax.saxutils import escape

COLORS = ("#0072b2", "#56b4e9", "#d55e00", "#7a7a7a", "#cc79a7", "#009e73", "#e69f00")  # distinguishable for the colour-blind, too
PANEL, HEIGHT, LEFT, TOP, GAP, BOTTOM, LINE = 300, 300, 60, 30, 40, 45, 18


def decades(numbers):
    """Returns the powers of ten around the numbers, at least one decade."""
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    return low, max(high, low + 1)


def power(exponent):
    return f"1e{exponent}" if not -3 <= exponent <= 3 else f"{10.0 ** exponent:g}"


class Axes:
    """One panel: both axes logarithmic."""

    def __init__(self, left, x_range, y_range):
        self.left, self.x_range, self.y_range = left, x_range, y_range

    def x(self, number):
        low, high = self.x_range
        return self.left + PANEL * (math.log10(number) - low) / (high - low)

    def y(self, number):
        low, high = self.y_range
        return TOP + HEIGHT * (high - math.log10(number)) / (high - low)

    def frame(self, title, with_labels):
        yield f'<rect x="{self.left}" y="{TOP}" width="{PANEL}" height="{HEIGHT}" fill="none" stroke="#444"/>'
        yield text(self.left + PANEL / 2, TOP - 10, title, "middle", "bold")
        for exponent in range(self.x_range[0], self.x_range[1] + 1):
            x = self.x(10.0**exponent)
            yield f'<path d="M{x:.1f} {TOP}v{HEIGHT}" stroke="#ddd"/>'
            yield text(x, TOP + HEIGHT + 16, power(exponent), "middle")
        for exponent in range(self.y_range[0], self.y_range[1] + 1):
            y = self.y(10.0**exponent)
            yield f'<path d="M{self.left} {y:.1f}h{PANEL}" stroke="#ddd"/>'
            if with_labels:
                yield text(self.left - 6, y + 4, power(exponent), "end")

    def line(self, points, color):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        for x, y in points:
            yield f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="3" fill="{color}"/>'


def text(x, y, content, anchor="start", weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(content)}</text>'


def plot(panels, x_label, y_label):
    """`panels`: by title, by name of a line, its points [(x, y), ...], all positive. A panel each, side by side."""
    points = [point for lines in panels.values() for line in lines.values() for point in line]
    if not points:
        raise ValueError("nothing to plot")
    x_range, y_range = decades([x for x, _ in points]), decades([y for _, y in points])
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    width = LEFT + len(panels) * (PANEL + GAP)
    height = TOP + HEIGHT + BOTTOM + LINE * len(names) + 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for number, (title, lines) in enumerate(panels.items()):
        axes = Axes(LEFT + number * (PANEL + GAP), x_range, y_range)
        out += axes.frame(title, number == 0)
        for name, line in lines.items():
            out += axes.line(sorted(line), COLORS[names.index(name) % len(COLORS)])
    out.append(text(LEFT + len(panels) * (PANEL + GAP) / 2, TOP + HEIGHT + 34, x_label, "middle"))
    out.append(f'<g transform="translate(16 {TOP + HEIGHT / 2:.0f}) rotate(-90)">{text(0, 0, y_label, "middle")}</g>')
    for number, name in enumerate(names):
        y = TOP + HEIGHT + BOTTOM + LINE * (number + 1) - 6
        out.append(f'<path d="M{LEFT} {y}h24" stroke="{COLORS[number % len(COLORS)]}" stroke-width="3"/>')
        out.append(text(LEFT + 32, y + 4, name))
    return "\n".join([*out, "</svg>"]) + "\n"
