"""Latency of single lookups while another session changes the ring ten times a second, and while none does."""
import glob
import os
import threading
import time

import clients
from figures import figure
from session import Session

PERCENTILES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("worst", 1))


def latencies(script, seconds):
    """Milliseconds of every transaction of one client, ascending."""
    prefix = os.path.join(os.environ["CHASH_TMP"], "latency")
    clients.pgbench(script, 1, seconds, "--log", f"--log-prefix={prefix}")
    values = []
    for name in glob.glob(prefix + ".*"):
        with open(name, encoding="utf-8") as file:
            values += [float(line.split()[2]) / 1000 for line in file]
        os.remove(name)
    return sorted(values)


class Changer(threading.Thread):
    """Gives a node another weight ten times a second, until told to stop."""

    def __init__(self):
        super().__init__()
        self.stop = threading.Event()
        self.count = 0

    def run(self):
        start = time.monotonic()
        with Session() as session:
            while not self.stop.wait(max(0.0, start + self.count / 10 - time.monotonic())):
                self.count += 1
                session.answer(f"SELECT chash_set_node('node-1', 'vnodes_100', weight => {1 + self.count % 2 / 10});")


def measure(_, options):
    script = clients.script_file("single", "chash_node", options.rows)
    seconds = 1 if options.quick else 3
    values = {(name, changing): [] for name, _ in PERCENTILES for changing in (False, True)}
    for _ in range(options.rounds):
        for changing in (False, True):
            changer = Changer()
            if changing:
                changer.start()
            found = latencies(script, seconds)
            if changing:
                changer.stop.set()
                changer.join()
            for name, part in PERCENTILES:
                values[name, changing].append(found[min(int(part * len(found)), len(found) - 1)])
    return [figure("changes", f"a lookup during ten changes a second, {name}", "ms", values[name, True],
                   "without changes", values[name, False]) for name, _ in PERCENTILES]
