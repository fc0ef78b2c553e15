"""Puts what table.sh has measured into docs/performance.md and its charts.

    python3 test/bench/page.py [FIGURES.tsv ...]

The sections of each file take the place of those in measured.tsv; then everything is written and drawn anew.  A table
of the page stands between <!-- begin SECTION --> and <!-- end -->.  Charts are drawn by matplotlib (Debian's
python3-matplotlib).
"""
import os
import re
import sys

import matplotlib

import figures

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "chash", "font.family": "sans-serif"})
from matplotlib import pyplot, ticker  # pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "..", "docs")
MEASURED = os.path.join(HERE, "measured.tsv")

# Chart: title, axes, numbers on the second one, and for each line its name, the figures' names with N for the number,
# and its style.
CHARTS = {
    "lookup": ("A lookup in a large query", "nodes, of 256 points each", "nanoseconds a row", (30, 100, 300, 1000, 3000, 10000), [
        ("btree of points", "btree of points, subquery, N nodes", "C4-o"),
        ("width_bucket, arrays", "width_bucket over constant arrays, N nodes", "C5-o"),
        ("names[1 + hash % n]", "names[1 + hash % n], N nodes", "C1-o"),
        ("chash_node", "chash_node(text), N nodes", "C0-o"),
        ("chash_node, partitions", "chash_node(text), N nodes, partitions", "C2-o"),
        ("the floor", "the floor, N nodes", "C7--")]),
    "balance": ("The busiest of 100 nodes", "points a node", "its share, of the mean", (1, 1.25, 1.5, 2, 3, 5), [
        ("vnodes, 95th percentile", "vnodes, N points a node, 95th percentile", "C1-o"),
        ("vnodes, median", "vnodes, N points a node, median", "C0-o")]),
    "plan": ("A plan for one more node", "nodes, of 256 points each", "milliseconds", (1, 10, 100), [
        ("chash_rebalance_plan", "plan, N nodes and one more", "C0-o")]),
}


def draw(name, rows):
    title, across, up, numbers, lines = CHARTS[name]
    canvas, axes = pyplot.subplots(figsize=(7.6, 4.2), layout="constrained")
    for label, pattern, style in lines:
        expression = re.escape(pattern).replace("N", r"([\d,]+)", 1)
        found = [(re.fullmatch(expression, row.name), float(row.median)) for row in rows if row.section != "about"
                 and re.fullmatch(expression, row.name)]
        points = sorted((int(match.group(1).replace(",", "")), value) for match, value in found)
        axes.plot(*zip(*points), style, label=label, markersize=4)
    axes.set(title=title, xlabel=across, ylabel=up, xscale="log", yscale="log")
    axes.set_yticks(numbers)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ticker.StrMethodFormatter("{x:,g}"))
        axis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    canvas.savefig(os.path.join(DOCS, "charts", name + ".svg"), metadata={"Date": None})


def about(rows):
    facts = {row.name: row.median for row in rows}
    preloaded = "preloaded" if "chash" in facts["preloaded"] else "not preloaded"
    return (f"PostgreSQL {facts['PostgreSQL']}, {facts['processor']}; chash {preloaded}; {facts['rows']} rows, "
            f"{facts['rounds']} rounds; load average {facts['load']} when it began.")


def write_page(rows):
    name = os.path.join(DOCS, "performance.md")
    with open(name, encoding="utf-8") as file:
        text = file.read()

    def block(match):
        found = [row for row in rows if row.section == match.group(1)]
        content = about(found) if match.group(1) == "about" else figures.markdown(found)
        return f"<!-- begin {match.group(1)} -->\n{content}\n<!-- end -->"

    text = re.sub(r"<!-- begin (\w+) -->\n.*?<!-- end -->", block, text, flags=re.S)
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    rows = figures.read_tsv(MEASURED)
    for name in sys.argv[1:]:
        new = figures.read_tsv(name)
        rows = new + [row for row in rows if row.section not in {one.section for one in new}]
    with open(MEASURED, "w", encoding="utf-8") as file:
        figures.write_tsv(rows, file)
    write_page(rows)
    for name in CHARTS:
        draw(name, rows)


if __name__ == "__main__":
    main()
