"""Making an index on hash positions, beside ones on PostgreSQL's own hashes."""
from figures import figure

INDEXES = {
    "chash_hash(id)": "chash_hash(id)",
    "hashtextextended(id::text, 0)": "hashtextextended(id::text, 0)",
    "hashint8extended(id, 0)": "hashint8extended(id, 0)",
}


def measure(session, options):
    rows = options.index_rows
    session.answer(f"""
        CREATE UNLOGGED TABLE bench_index AS SELECT g::bigint AS id FROM generate_series(1, {rows}) AS g;
        VACUUM (ANALYZE, FREEZE) bench_index;""")
    values = {name: [] for name in INDEXES}
    for _ in range(options.rounds):
        for name, expression in INDEXES.items():
            values[name].append(session.cpu(f"CREATE INDEX bench_made ON bench_index (({expression}));"))
            session.answer("DROP INDEX bench_made;")
    session.answer("DROP TABLE bench_index;")
    return [figure("indexes", f"index on chash_hash(id), {rows:,} rows", "s", values["chash_hash(id)"],
                   f"index on {name}", values[name]) for name in INDEXES if name != "chash_hash(id)"]
