"""How evenly keys are spread: what bench_balance.c finds over many random sets of nodes."""
import core
from figures import figure


def measure(_, options):
    values = core.rounds_of("bench_balance", 20 if options.quick else 200)
    rows = []
    for (placement, number), ratios in values.items():
        ratios.sort()
        middle = ratios[len(ratios) // 2]
        high = ratios[int(len(ratios) * 0.95)]
        if placement == "vnodes":
            rows.append(figure("balance", f"vnodes, {number} points a node, median", "", [middle]))
            rows.append(figure("balance", f"vnodes, {number} points a node, 95th percentile", "", [high]))
        else:
            rows.append(figure("balance", f"partitions, {number} in all", "", [middle]))
    return rows
