"""Instructions of a call per row, by what they are for, counted by callgrind in a backend.

Counts do not depend on what else the machine does: they are the same in every run.  A server in single-user mode runs
each query under valgrind; what the executor does in it is collected into a dump of its own.  From each is subtracted
the query without the call.
"""
import collections
import functools
import glob
import os
import re
import subprocess

from figures import Figure, short

ROWS = 20_000

# name: (expression, column of the query without it)
CALLS = {
    "hashtextextended(text, 0)": ("hashtextextended(s, 0)", "s"),
    "the floor": ("bench_floor(s, 100)", "s"),
    "chash_hash(text)": ("chash_hash(s)", "s"),
    "chash_node(text)": ("chash_node(s, 'vnodes_100')", "s"),
    "chash_node(bigint)": ("chash_node(k, 'vnodes_100')", "k"),
    "chash_node(uuid)": ("chash_node(u, 'vnodes_100')", "u"),
    "chash_replicas(text, 3)": ("chash_replicas(s, 3, 'vnodes_100')", "s"),
}

# What code is for, by the name of the function, as in the source; the first that matches.
PARTS = [
    ("function itself", r"bench_floor"),
    ("hashing", r"xxh|hash_bytes|hashtext|chash_hash_tag"),
    ("key as text", r"(text|bytea|bigint|uuid)_(key|text)|chash_put_|_digits|lltoa|GetDatabaseEncoding|chash_to_utf8"),
    ("lookup", r"chash_ring|chash_point|chash_line|chash_walk|live_owner|settle"),
    ("is the ring current", r"chash_cache_current|snapshot|recall_ring|same_name"),
    ("result", r"name_array|chash_cache_name|alloc|mem(cpy|set|move)|pfree"),
    ("detoasting", r"detoast|get_varlena"),
    ("collation", r"collat"),
    ("function itself", r"chash_|KEY_FUNCTION|find_hash|key_position"),
]
REST = "executor"


def part_of(function):
    return next((part for part, pattern in PARTS if re.search(pattern, function, re.I)), REST)


@functools.lru_cache(maxsize=None)
def functions_of(file):
    """Where functions begin in a source file of chash: lines and names, ascending."""
    with open(file, encoding="utf-8") as source:
        found = [(number, re.match(r"(\w+)\(", line)) for number, line in enumerate(source, 1)]
    return [(number, match.group(1)) for number, match in found if match]


def function_at(file, line):
    """The function that a line of source is in, also where the compiler has put it into another."""
    return next((name for number, name in reversed(functions_of(file)) if number <= line), file)


class Costs:
    """What a dump of callgrind says: instructions by function, without those of the functions called."""

    def __init__(self, name):
        self.by_function = collections.Counter()
        self.names = {}
        self.callers = collections.defaultdict(set)
        with open(name, encoding="utf-8", errors="replace") as dump:
            self.read(dump)
        # What has no name, as in a server without debugging symbols, goes to who calls it.
        for function in [name for name in self.by_function if name.startswith("0x")]:
            named = sorted(name for name in self.callers[function] if not name.startswith("0x"))
            if named:
                self.by_function["|".join(named[:3]) + " >"] += self.by_function.pop(function)

    def resolve(self, kind, text):
        """Names are written out once, and later only their number."""
        number, _, full = text.partition(" ")
        if full:
            self.names[kind, number] = full
        return self.names.get((kind, number), text)

    def read(self, dump):
        function = file = ""
        called = None
        skip = False
        for line in dump:
            key, found, value = line.rstrip("\n").partition("=")
            if found and key in ("fl", "fi", "fe"):
                file = self.resolve("file", value)
            elif found and key in ("cfi", "cfl"):
                self.resolve("file", value)
            elif found and key == "fn":
                function = self.resolve("function", value)
            elif found and key == "cfn":
                called = self.resolve("function", value)
            elif found and key == "calls":
                self.callers[called].add(function)
                skip = True
            elif line[:1].isdigit():
                if not skip:
                    number, cost = map(int, line.split()[:2])
                    ours = "/source/src/" in file
                    self.by_function[function_at(file, number) if ours else function] += cost
                skip = False


def dumps_of(statements):
    """Runs statements in a single-user server under callgrind; gives what the executor cost in each."""
    data = os.path.join(os.environ["CHASH_TMP"], "data")
    base = os.path.join(os.environ["CHASH_TMP"], "callgrind")
    server = subprocess.run(["pg_config", "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={base}", "--collect-atstart=no",
         "--toggle-collect=standard_ExecutorRun", "--dump-after=standard_ExecutorRun", "--compress-pos=no",
         os.path.join(server, "postgres"), "--single", "-D", data, "-c", "shared_buffers=64MB", "postgres"],
        input="".join(f"{statement}\n" for statement in statements), text=True, check=True, capture_output=True)
    dumps = sorted(glob.glob(base + ".*"), key=lambda name: int(name.rsplit(".", 1)[1]))
    costs = [Costs(name) for name in dumps]
    for name in [base, *dumps]:
        if os.path.exists(name):
            os.remove(name)
    return costs


def stop_and_start(action):
    subprocess.run(["pg_ctl", "-D", os.path.join(os.environ["CHASH_TMP"], "data"), "-w",
                    "-l", os.path.join(os.environ["CHASH_TMP"], "log", "server.log"), action],
                   check=True, stdout=subprocess.DEVNULL)


def measure(session, options):
    try:
        subprocess.run(["valgrind", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return [Figure("instructions", "valgrind", "", "not installed", "", "")]
    session.answer(f"CREATE TABLE bench_counted AS SELECT * FROM bench_keys WHERE k <= {ROWS};"
                   "VACUUM (ANALYZE, FREEZE) bench_counted;")
    queries = {column: f"SELECT count({column}) FROM bench_counted" for column in "sku"}
    queries.update({name: f"SELECT count({call}) FROM bench_counted" for name, (call, _) in CALLS.items()})
    session.psql.stdin.close()
    session.psql.wait()
    stop_and_start("stop")
    # Each once before, so that the ring is built, pages are read and names are known.
    costs = dict(zip(queries, dumps_of([*queries.values(), *queries.values()])[len(queries):]))
    stop_and_start("start")

    rows = []
    for name, (_, column) in CALLS.items():
        functions = collections.Counter(costs[name].by_function)
        functions.subtract(costs[column].by_function)
        parts = collections.Counter()
        for function, cost in functions.items():
            parts[part_of(function)] += cost / ROWS
        rows.append(Figure("instructions", name, "", *[short(sum(parts.values()))] * 3))
        rows += [Figure("instructions", f"{name}: {part}", "", *[short(cost)] * 3)
                 for part, cost in parts.most_common() if abs(cost) >= 0.5]
        if options.functions:
            rows += [Figure("functions", f"{name}: {function}", "", *[short(cost / ROWS)] * 3)
                     for function, cost in functions.most_common() if abs(cost / ROWS) >= 0.5]
    return rows
