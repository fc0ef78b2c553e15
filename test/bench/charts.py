"""Draws the charts of the documentation from what table.sh has measured.

    python3 test/bench/charts.py FIGURES.tsv DIRECTORY
"""
import argparse
import os
import re

import figures
import svg

NODES = (10, 100, 1000, 10000)


def points_of(rows, pattern):
    """Pairs of the number in a figure's name, where the pattern has (N), and the figure; ascending."""
    expression = re.compile("^" + re.escape(pattern).replace(r"\(N\)", r"([\d,]+)") + "$")
    found = {}
    for row in rows:
        match = expression.match(row.name)
        if match:
            found[int(match.group(1).replace(",", ""))] = row.number()
    return sorted(found.items())


def lookup(rows):
    hash_cost = next(row.number() for row in rows if row.name == "hashtextextended(text, 0)")
    return svg.chart(
        "A lookup in a large query", svg.x_axis("nodes, of 256 points each", NODES),
        svg.y_axis("nanoseconds a row", (3, 10, 30, 100, 300, 1000, 3000, 10000, 30000)),
        [("btree of points, subquery", 3, points_of(rows, "btree of points, subquery, (N) nodes"), False),
         ("width_bucket, arrays", 4, points_of(rows, "width_bucket over constant arrays, (N) nodes"), False),
         ("names[1 + hash % n]", 1, points_of(rows, "names[1 + hash % n], (N) nodes"), False),
         ("chash_node", 0, points_of(rows, "chash_node(text), (N) nodes"), False),
         ("chash_node, partitions", 2, points_of(rows, "chash_node(text), (N) nodes, partitions"), False),
         ("the floor", 4, points_of(rows, "the floor, (N) nodes"), True),
         ("hashtextextended", 4, [(n, hash_cost) for n in NODES], True)])


def balance(rows):
    partitions = [(n / 100, ratio) for n, ratio in points_of(rows, "partitions, (N) in all") if n / 100 <= 1024]
    return svg.chart(
        "The busiest of 100 nodes",
        svg.x_axis("points a node (partitions a node)", (1, 4, 16, 64, 256, 1024)),
        svg.y_axis("its share, of the mean", (1, 1.25, 1.5, 2, 3, 5, 10)),
        [("vnodes, 95th percentile", 1, points_of(rows, "vnodes, (N) points a node, 95th percentile"), False),
         ("vnodes, median", 0, points_of(rows, "vnodes, (N) points a node, median"), False),
         ("partitions", 2, partitions, False)])


def plan(rows):
    times = points_of(rows, "plan, (N) nodes and one more")
    at_1000 = dict(times)[1000]
    return svg.chart(
        "A plan for one more node", svg.x_axis("nodes, of 256 points each", NODES),
        svg.y_axis("milliseconds", (0.1, 1, 10, 100, 1000)),
        [("chash_rebalance_plan", 0, times, False),
         ("in proportion to points", 4, [(n, at_1000 * n / 1000) for n in NODES], True)])


def moved(rows):
    numbers = (1, 2, 4, 8, 16, 32, 64, 128)
    series = {name: points_of(rows, name + ", one more node to (N)") for name in ("modulo", "vnodes", "partitions")}
    return svg.chart(
        "What moves when one node is added", svg.x_axis("nodes before", numbers),
        svg.y_axis("share of the keys", (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1), label=lambda v: f"{100 * v:g}%"),
        [("hash % n", 1, series["modulo"], False), ("chash, vnodes", 0, series["vnodes"], False),
         ("chash, partitions", 2, series["partitions"], False),
         ("the least there can be", 4, [(n, 1 / (n + 1)) for n in numbers], True)])


CHARTS = {"lookup": (lookup, ("lookups", "recipes")), "balance": (balance, ("balance",)), "plan": (plan, ("plans",)),
          "moved": (moved, ("moved",))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures")
    parser.add_argument("directory")
    arguments = parser.parse_args()
    rows = figures.read_tsv(arguments.figures)
    sections = {row.section for row in rows}
    os.makedirs(arguments.directory, exist_ok=True)
    for name, (draw, needs) in CHARTS.items():
        if sections.issuperset(needs):
            with open(os.path.join(arguments.directory, name + ".svg"), "w", encoding="utf-8") as file:
                file.write(draw([row for row in rows if row.section in needs]))


if __name__ == "__main__":
    main()
