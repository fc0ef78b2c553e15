"""What a plan takes, warm: a ring of 256 points a node, and one node more."""
from figures import figure

NODES = (10, 100, 1000, 10000)


def measure(session, options):
    plan = "SELECT count(*) FROM chash_rebalance_plan('vnodes_{}', '{{\"new\": {{}}}}'{});"
    queries = {nodes: plan.format(nodes, "") for nodes in NODES}
    queries["replicas"] = plan.format(1000, ", 3")
    for query in queries.values():
        session.answer(query)
    values = {name: [] for name in queries}
    for _ in range(options.rounds):
        for name, query in queries.items():
            values[name].append(session.cpu(query) * 1000)

    per_point = {nodes: [1e6 * time / (256 * nodes) for time in values[nodes]] for nodes in NODES}
    rows = [figure("plans", f"plan, {nodes:,} nodes and one more", "ms", values[nodes])
            for nodes in NODES]
    rows += [figure("plans", f"plan by point, {nodes:,} nodes", "ns", per_point[nodes],
                    "100 nodes", per_point[100]) for nodes in NODES if nodes != 100]
    rows.append(figure("plans", "plan for 3 replicas, 1,000 nodes", "ms", values["replicas"],
                       "without replicas", values[1000]))
    return rows
