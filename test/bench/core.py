"""src/ring by itself: what bench_ring.c measures."""
import os
import subprocess

from figures import figure

SIZES = (25600, 256000, 2560000)


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
    for points in SIZES:
        size = f"{points:,} points"

        def over_hash(name):
            return [value - base for value, base in zip(values[name, points], values["hash", points])]

        rows += [
            figure("core", f"lookup over the hash, {size}", "ns", over_hash("lookup"),
                   "plain bucket index", over_hash("plain")),
            figure("core", f"hash and 3 replicas, {size}", "ns", values["replicas", points],
                   "hash and lookup", values["lookup", points]),
            figure("core", f"building {size}", "ms", [v / 1e6 for v in values["build", points]],
                   "qsort of as many uint64", [v / 1e6 for v in values["sort", points]])]
    return rows + [figure("core", "memory, 25,600 points", "bytes a point", values["bytes", 25600])]
