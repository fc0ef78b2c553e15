"""The share of the keys that move when a node is added to n nodes."""
from figures import figure

NODES = (1, 2, 4, 8, 16, 32, 64, 128)

MODULO = """SELECT avg((hashtextextended(s, 0) & 9223372036854775807) % {n}
                       <> (hashtextextended(s, 0) & 9223372036854775807) % {more})::int::float8)
              FROM bench_few;""".replace("avg((", "avg(((")


def measure(session, options):
    rows = []
    for n in NODES:
        ideal = [1 / (n + 1)]
        shares = {"modulo": session.value(MODULO.format(n=n, more=n + 1))}
        for placement in ("vnodes", "partitions"):
            ring = f"{placement}_{n}"
            if session.value(f"SELECT count(*) FROM chash_rings WHERE ring = '{ring}';") == "0":
                session.answer(f"SELECT bench_ring({n}, '{placement}');")
            shares[placement] = session.value(
                f"SELECT sum(share) FROM chash_rebalance_plan('{ring}', '{{\"new\": {{}}}}');")
        for name in ("vnodes", "partitions", "modulo"):
            rows.append(figure("moved", f"{name}, one more node to {n}", "", [float(shares[name])],
                               "1 / (n + 1)", ideal))
    return rows
