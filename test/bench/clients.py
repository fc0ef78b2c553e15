"""Lookups by several clients at once, with pgbench."""
import os
import re
import subprocess

from figures import figure

CLIENTS = (1, 2, 4)
BULK = 10_000
SCRIPTS = {
    "single": "\\set k random(1, 1000000000)\nSELECT {call};\n",
    "bulk": "\\set a random(1, {top})\nSELECT count({call}) FROM bench_keys WHERE k BETWEEN :a AND :a + {last};\n",
}
CALLS = {
    ("single", "chash_node"): "chash_node(:k::bigint, 'vnodes_100')",
    ("single", "hashtextextended"): "hashtextextended((:k::bigint)::text, 0)",
    ("bulk", "chash_node"): "chash_node(s, 'vnodes_100')",
    ("bulk", "hashtextextended"): "hashtextextended(s, 0)",
}


def script_file(kind, function, rows):
    name = os.path.join(os.environ["CHASH_TMP"], f"{kind}_{function}.pgbench")
    with open(name, "w", encoding="utf-8") as file:
        file.write(SCRIPTS[kind].format(call=CALLS[kind, function], top=rows - BULK, last=BULK - 1))
    return name


def pgbench(script, clients, seconds, *options):
    """Transactions per second."""
    output = subprocess.run(["pgbench", "-n", "-M", "prepared", "-f", script, "-c", str(clients), "-j", str(clients),
                             "-T", str(seconds), *options], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"^tps = ([0-9.]+)", output, re.M).group(1))


def measure(_, options):
    files = {key: script_file(*key, options.rows) for key in CALLS}
    values = {(*key, clients): [] for key in CALLS for clients in CLIENTS}
    for _ in range(options.rounds):
        for kind, function, clients in values:
            rate = pgbench(files[kind, function], clients, 1) * (BULK if kind == "bulk" else 1)
            values[kind, function, clients].append(rate)
    rows = []
    for kind, title in (("bulk", f"{BULK:,} lookups a transaction"), ("single", "a lookup a transaction, prepared")):
        for clients in CLIENTS:
            rows.append(figure("clients", f"{title}, {clients} client{'s' if clients > 1 else ''}", "lookups/s",
                               values[kind, "chash_node", clients],
                               "hashtextextended", values[kind, "hashtextextended", clients]))
        for clients in CLIENTS[1:]:
            rows.append(figure("clients", f"{title}, {clients} clients", "lookups/s",
                               values[kind, "chash_node", clients], "1 client", values[kind, "chash_node", 1]))
    return rows
