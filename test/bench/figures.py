"""Figures: what was measured, in each round, beside its yardstick; and how they are written down.

A ratio is computed within a round, so that what disturbs the machine disturbs both; what is reported is the median of
these ratios, and the extremes.
"""
import dataclasses
import statistics

COLUMNS = ["section", "name", "unit", "median", "min", "max", "yardstick", "ratio", "ratio_min", "ratio_max", "aim",
           "met"]


@dataclasses.dataclass
class Figure:
    """A row of the table, all of it text."""
    section: str
    name: str
    unit: str
    median: str
    min: str
    max: str
    yardstick: str = ""
    ratio: str = ""
    ratio_min: str = ""
    ratio_max: str = ""
    aim: str = ""
    met: str = ""

    def number(self):
        return float(self.median)


def short(number):
    """A number with three digits that count."""
    if number == 0:
        return "0"
    if abs(number) >= 100:
        return f"{number:.0f}"
    digits = 2 if abs(number) >= 1 else 3
    return f"{number:.{1 if abs(number) >= 10 else digits}f}" if abs(number) >= 0.1 else f"{number:.3g}"


def figure(section, name, unit, values, yardstick="", base=None, under=None, at_most=None):
    """A figure from its values, and those of its yardstick in the same rounds.

    The aim, if there is one, is an upper bound: of the ratio (under), or of the figure itself (at_most).
    """
    row = Figure(section, name, unit, short(statistics.median(values)), short(min(values)), short(max(values)))
    if base is not None:
        ratios = [value / against for value, against in zip(values, base)]
        row.yardstick = f"{yardstick}: {grouped(short(statistics.median(base)))} {unit}".strip()
        row.ratio, row.ratio_min, row.ratio_max = map(short, (statistics.median(ratios), min(ratios), max(ratios)))
        if under is not None:
            row.aim = f"{under:g} x"
            row.met = "yes" if statistics.median(ratios) <= under else "no"
    if at_most is not None:
        row.aim = f"{at_most:g} {unit}"
        row.met = "yes" if statistics.median(values) <= at_most else "no"
    return row


def write_tsv(rows, file):
    print(*COLUMNS, sep="\t", file=file)
    for row in rows:
        print(*dataclasses.astuple(row), sep="\t", file=file)


def read_tsv(name):
    with open(name, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return [Figure(*line) for line in lines[1:]]


def grouped(number):
    """Thousands set apart, as in 1,234,567."""
    return f"{float(number):,.0f}" if number.lstrip("-").isdigit() and len(number) > 3 else number


def cells(row):
    """The cells of a row for people."""
    span = f"{row.ratio_min} – {row.ratio_max}" if row.ratio_min != row.ratio_max else ""
    return [row.name, f"{grouped(row.median)} {row.unit}".strip(),
            f"{grouped(row.min)} – {grouped(row.max)}" if row.min != row.max else "",
            row.yardstick, row.ratio, span, row.aim + {"yes": ", met", "no": ", **not met**", "": ""}[row.met]]


HEADINGS = ["what", "median", "min – max", "yardstick", "ratio", "min – max", "aim"]


def markdown(rows):
    """A Markdown table; columns that nothing stands in are left out."""
    table = [cells(row) for row in rows]
    used = [i for i in range(len(HEADINGS)) if any(line[i] for line in table)]
    lines = ["| " + " | ".join(HEADINGS[i] for i in used) + " |", "|" + "---|" * len(used)]
    lines += ["| " + " | ".join(line[i] for i in used) + " |" for line in table]
    return "\n".join(lines)


def plain(rows):
    """The same for a terminal."""
    table = [HEADINGS] + [cells(row) for row in rows]
    used = [i for i in range(len(HEADINGS)) if any(line[i] for line in table[1:])]
    widths = {i: max(len(line[i]) for line in table) for i in used}
    left = (0, 3, 6)
    return "\n".join("  " + "  ".join(line[i].ljust(widths[i]) if i in left else line[i].rjust(widths[i])
                                      for i in used).replace("**", "").rstrip() for line in table)
