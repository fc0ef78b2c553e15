"""Figures: what was measured, in each round, beside its yardstick; and how they are written down.

A ratio is computed within a round, so that what disturbs the machine disturbs both; what is reported is the median of
these ratios, and the extremes.
"""
import dataclasses
import statistics

COLUMNS = ["section", "name", "unit", "median", "min", "max", "yardstick", "ratio", "ratio_min", "ratio_max"]


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


def short(number):
    """A number with three digits that count."""
    if number == 0:
        return "0"
    if abs(number) >= 100:
        return f"{number:.0f}"
    digits = 2 if abs(number) >= 1 else 3
    return f"{number:.{1 if abs(number) >= 10 else digits}f}" if abs(number) >= 0.1 else f"{number:.3g}"


def figure(section, name, unit, values, yardstick="", base=None):
    """A figure from its values, and those of its yardstick in the same rounds."""
    row = Figure(section, name, unit, short(statistics.median(values)), short(min(values)), short(max(values)))
    if base is not None:
        ratios = [value / against for value, against in zip(values, base)]
        row.yardstick = f"{yardstick}: {grouped(short(statistics.median(base)))} {unit}".strip()
        row.ratio, row.ratio_min, row.ratio_max = map(short, (statistics.median(ratios), min(ratios), max(ratios)))
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


def markdown(rows):
    """A Markdown table, which can be read on a terminal too; columns that nothing stands in are left out."""
    table = [["what", "median", "min – max", "yardstick", "ratio", "min – max"]]
    for row in rows:
        span = f"{row.ratio_min} – {row.ratio_max}" if row.ratio_min != row.ratio_max else ""
        table.append([row.name, f"{grouped(row.median)} {row.unit}".strip(),
                      f"{grouped(row.min)} – {grouped(row.max)}" if row.min != row.max else "",
                      row.yardstick, row.ratio, span])
    columns = [column for column in zip(*table) if any(column[1:])]
    lines = ["| " + " | ".join(line) + " |" for line in zip(*columns)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])
