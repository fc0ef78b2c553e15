"""src/ring by itself: what bench_ring.c measures."""
import os
import subprocess

from figures import figure


def rounds_of(program, *arguments):
    """What a program prints: lines of a name, a number that it goes with, and a value for each round."""
    output = subprocess.run([os.path.join(os.environ["CHASH_TMP"], program), *map(str, arguments)],
                            check=True, capture_output=True, text=True).stdout
    values = {}
    for line in output.splitlines():
        name, number, value = line.split("\t")
        values.setdefault((name, int(number)), []).append(float(value))
    return values


def measure(_, options):
    values = rounds_of("bench_ring", options.rounds)
    rows = []
    for points in sorted({points for _, points in values}):
        size = f"{points:,} points"

        def over_hash(name):
            return [value - base for value, base in zip(values[name, points], values["hash", points])]

        medium = [value - base for value, base in zip(values["lookup", 25600], values["hash", 25600])]
        rows.append(figure("core", f"lookup over the hash, {size}", "ns", over_hash("lookup"),
                           "plain bucket index", over_hash("plain"), 1.5 if points == 25600 else None))
        if points == 256000:
            rows.append(figure("core", f"lookup over the hash, {size}", "ns", over_hash("lookup"),
                               "the same, 25,600 points", medium, 2))
        rows.append(figure("core", f"hash and 3 replicas, {size}", "ns", values["replicas", points],
                           "hash and lookup", values["lookup", points]))
        rows.append(figure("core", f"building {size}", "ms", [v / 1e6 for v in values["build", points]],
                           "qsort of as many uint64", [v / 1e6 for v in values["sort", points]],
                           2 if points == 256000 else None))
        rows.append(figure("core", f"memory, {size}", "bytes a point", values["bytes", points], at_most=16))
    return rows
