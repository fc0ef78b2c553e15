"""Puts what table.sh has measured into docs/performance.md.

    python3 test/bench/report.py merge NEW.tsv ALL.tsv    the sections of NEW in place of those in ALL
    python3 test/bench/report.py page ALL.tsv PAGE.md     writes what stands between markers in PAGE

A marker is a line <!-- begin NAME -->, up to <!-- end -->; NAME is a section's, or one of those below.
"""
import argparse
import os
import re

import figures


def merge(new, everything):
    rows = figures.read_tsv(new)
    measured = {row.section for row in rows}
    if os.path.exists(everything):
        rows += [row for row in figures.read_tsv(everything) if row.section not in measured]
    with open(everything, "w", encoding="utf-8") as file:
        figures.write_tsv(rows, file)


def about(rows):
    facts = {row.name: row.median for row in rows if row.section == "about"}
    preloaded = "preloaded" if "chash" in facts["preloaded"] else "not preloaded"
    return (f"PostgreSQL {facts['PostgreSQL']}, {facts['processor']}; chash {preloaded}; {facts['rows']} rows, "
            f"{facts['rounds']} rounds; load average {facts['load']} when it began.")


def aims(rows):
    """All figures that have an aim."""
    return figures.markdown([row for row in rows if row.aim])


def instructions(rows):
    """A column for each call, a row for each part."""
    found = {row.name: row.median for row in rows if row.section == "instructions"}
    calls = [name for name in found if ": " not in name]
    parts = dict.fromkeys(name.split(": ")[1] for name in found if ": " in name)
    lines = ["| instructions | " + " | ".join(calls) + " |", "|---|" + "---|" * len(calls)]
    for part in [*parts, "all"]:
        cells = [found.get(name if part == "all" else f"{name}: {part}", "") for name in calls]
        lines.append(f"| {part} | " + " | ".join(f"{float(cell):.0f}" if cell else "" for cell in cells) + " |")
    return "\n".join(lines)


SPECIAL = {"about": about, "aims": aims, "instructions": instructions}


def page(name, rows):
    with open(name, encoding="utf-8") as file:
        text = file.read()

    def block(match):
        section = match.group(1)
        found = [row for row in rows if row.section == section]
        if not found and section != "aims":
            return match.group(0)
        content = SPECIAL[section](rows) if section in SPECIAL else figures.markdown(found)
        return f"<!-- begin {section} -->\n{content}\n<!-- end -->"

    text = re.sub(r"<!-- begin (\w+) -->\n.*?<!-- end -->", block, text, flags=re.S)
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("merge")
    one.add_argument("new")
    one.add_argument("everything")
    one = commands.add_parser("page")
    one.add_argument("measured")
    one.add_argument("page")
    arguments = parser.parse_args()
    if arguments.command == "merge":
        merge(arguments.new, arguments.everything)
    else:
        page(arguments.page, figures.read_tsv(arguments.measured))


if __name__ == "__main__":
    main()
