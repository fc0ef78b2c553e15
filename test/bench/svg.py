"""A line chart as SVG: two axes, either of them logarithmic, lines with their names beside their ends.

The chart has a background of its own, and takes dark colours where the reader's browser asks for them.
"""
import html
import math

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 78, 200, 54, 58

LIGHT = {"back": "#ffffff", "text": "#24292f", "soft": "#57606a", "grid": "#d8dee4", "axis": "#8c959f",
         "lines": ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#6e7781")}
DARK = {"back": "#0d1117", "text": "#e6edf3", "soft": "#9198a1", "grid": "#2a313a", "axis": "#6e7681",
        "lines": ("#58a6ff", "#f0883e", "#56d364", "#bc8cff", "#9198a1")}

SHAPES = """
  text { font-family: -apple-system, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif; font-size: 13px; }
  .title { font-size: 16px; font-weight: 600; }
  .grid, .axis { stroke-width: 1; } .line { fill: none; stroke-width: 2; } .dash { stroke-dasharray: 6 4; }"""


def colours(theme):
    """Rules for a theme; without variables, which not every program that shows SVG knows."""
    rules = [f".{name} {{ fill: {theme[name]}; }}" for name in ("back", "text", "soft")]
    rules += [f".{name} {{ stroke: {theme[name]}; }}" for name in ("grid", "axis")]
    for i, colour in enumerate(theme["lines"]):
        rules.append(f".c{i} .line {{ stroke: {colour}; }} .c{i} .dot, .c{i} .name {{ fill: {colour}; }}")
    return "\n  ".join(rules)


def style():
    return (f"<style>{SHAPES}\n  {colours(LIGHT)}\n"
            f"  @media (prefers-color-scheme: dark) {{\n  {colours(DARK)}\n  }}\n</style>")


class Axis:
    """Maps values to pixels from one end to the other, and says where the ticks are."""

    def __init__(self, title, ticks, start, end, log=True, label=None):
        self.title, self.ticks, self.start, self.end, self.log = title, ticks, start, end, log
        self.label = label or (lambda value: f"{value:,g}")

    def scale(self, value):
        return math.log(value) if self.log else value

    def __call__(self, value):
        low, high = self.scale(self.ticks[0]), self.scale(self.ticks[-1])
        return self.start + (self.end - self.start) * (self.scale(value) - low) / (high - low)


def x_axis(title, ticks, **how):
    return Axis(title, ticks, LEFT, WIDTH - RIGHT, **how)


def y_axis(title, ticks, **how):
    return Axis(title, ticks, HEIGHT - BOTTOM, TOP, **how)


def text(x, y, content, style="text", anchor="start", more=""):
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(content)}</text>'


def line(x1, y1, x2, y2, style):
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def spread(wanted, lowest, gap=16):
    """Heights for names, each as near as can be to where it is wanted, none over another, none below the lowest."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    heights = [wanted[i] for i in order]
    for _ in range(200):
        for i in range(1, len(heights)):
            lack = gap - (heights[i] - heights[i - 1])
            if lack > 0:
                heights[i - 1] -= lack / 2
                heights[i] += lack / 2
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], lowest - gap * (len(heights) - 1 - i))
    return dict(zip(order, heights))


def chart(title, x, y, lines):
    """The chart; each line is (name, colour 0 to 4, points, dashed)."""
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
             f'width="{WIDTH}" height="{HEIGHT}" aria-label="{html.escape(title)}">',
             style(), f'<rect class="back" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
             text(LEFT, 28, title, "text title")]
    for tick in x.ticks:
        parts.append(line(x(tick), y.start, x(tick), y.end, "grid"))
        parts.append(text(x(tick), y.start + 20, x.label(tick), "soft", "middle"))
    for tick in y.ticks:
        parts.append(line(x.start, y(tick), x.end, y(tick), "grid"))
        parts.append(text(x.start - 8, y(tick) + 4, y.label(tick), "soft", "end"))
    parts.append(line(x.start, y.start, x.end, y.start, "axis"))
    parts.append(line(x.start, y.start, x.start, y.end, "axis"))
    middle = (y.start + y.end) / 2
    parts.append(text((x.start + x.end) / 2, HEIGHT - 14, x.title, "text", "middle"))
    parts.append(text(20, middle, y.title, "text", "middle", f' transform="rotate(-90 20 {middle:.1f})"'))

    heights = spread([y(points[-1][1]) + 4 for _, _, points, _ in lines], y.start + 4)
    for i, (name, colour, points, dashed) in enumerate(lines):
        place = [(x(a), y(b)) for a, b in points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in place)
        parts.append(f'<g class="c{colour}"><polyline class="line{" dash" if dashed else ""}" points="{path}"/>')
        if not dashed:
            parts += [f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="3.2"/>' for a, b in place]
        parts.append(text(x.end + 12, heights[i], name, "name") + "</g>")
    return "\n".join(parts) + "\n</svg>\n"
