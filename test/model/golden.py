"""Golden vectors: routes computed by the model and kept in golden/*.tsv, so that routing can never change silently.

    python3 golden.py              write the files
    python3 golden.py --check      recompute, and compare with the files
    python3 golden.py --extension  compare the extension with the files, over psql

The files are for other programs too.  UTF-8, a header line, fields separated by a tab; text that may hold
anything (names, keys, lists) is JSON in ASCII, NULL is null.  In all of them epoch 1 is the ring without nodes.

    hashes.tsv      type of key (text, or bytea in hexadecimal), key, position, position under hash tags
    rings.tsv       ring, epoch, what made it: settings at epoch 1, then changes as chash_apply takes them; fingerprint
    points.tsv      ring, epoch, position, node                      (every point, in the order of the circle)
    owners.tsv      ring, epoch, key, position, owner, replicas      (as lookups give them: live nodes; all replicas)
    partitions.tsv  ring, epoch, node, partitions held
    plans.tsv       ring, from_epoch, to_epoch, replicas, lo, hi, from_node, to_node

golden/ is only ever added to: a line that changes means that data of users would be looked for in the wrong place.
"""
import argparse
import json
import sys
from pathlib import Path

from chash_model import HI, LO, Ring, hash_tag, plan, position
from server import Script, Tap, json_lit, lit, rows_of, sql_changes

DIRECTORY = Path(__file__).resolve().parent / "golden"
HEADERS = {"hashes": "type key position tagged", "rings": "ring epoch change fingerprint", "points": "ring epoch position node",
           "owners": "ring epoch key position owner replicas", "partitions": "ring epoch node partitions",
           "plans": "ring from_epoch to_epoch replicas lo hi from_node to_node"}
TEXTS = (["", "a", "42", "-1", "0", "9223372036854775807", "-9223372036854775808", "tenant-42", "O'Brien", "back\\slash", "tab\there", "two\nlines",
          "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "{}", "{}a", "{}{a}", "{a}", "user:{42}:cart", "{42}", "{a}{b}", "{a", "a}b{c", "}{a}", "{{a}}",
          "ä", "a\u0308", "ß", "é", "ключ", "键值", "🐘", "{🐘}x", "\u00a0", "\ufeff"]
         + ["x" * n for n in (3, 4, 8, 9, 16, 17, 32, 33, 64, 65, 96, 97, 128, 129, 160, 240, 241, 256, 257, 512, 1023, 1024, 1025, 3000)]
         + [("0123456789abcdef" * 20)[:n] for n in (2, 5, 7, 12, 15, 20, 100, 200, 300)] + [f"key-{i}" for i in range(50)])
BLOBS = [b"", b"\x00", b"\xff\xfe", bytes(range(256)), b"{\x00}\xff", b"x" * 300]
KEYS = ["", "42", "tenant-42", "user:{42}:cart", "ключ", "🐘"] + [f"key-{i}" for i in range(34)]
# Rings: settings, and changes one epoch each; weights in thousandths here, in rings.tsv as SQL has them.
RINGS = {
    "golden one": (dict(vnodes=8), [{"only": {}}]),
    "golden vnodes": (dict(vnodes=16), [{"a": {}}, {"b": {}, "c": {"weight": 2500}}, {"a#1": {"weight": 1}, "a1": {"weight": 94}, "d": {"weight": 0}},
                                        {"b": {"up": False}}, {"a": {"weight": 500}, "b": None}]),
    "golden zones": (dict(vnodes=12, hash_tags=True), [
        {f"node-{i}": {"zone": zone, "weight": 1000 + 250 * i} for i, zone in enumerate(["east", "east", "east", "east", "west", "süd", None, None])},
        {"node-4": {"up": False}, "node-1": {"up": False}}, {"neu-ß": {"zone": "süd"}, "节点": {"zone": "west"}, "node-0": None}]),
    "golden tokens": (dict(placement="tokens"), [
        {"a": {"tokens": [LO, -5, 10]}, "b": {"tokens": [10, 11, HI], "zone": "z"}, "B": {"tokens": [10, -4]}},
        {"é": {"tokens": [LO, 0, HI], "zone": "y"}, "z": {"tokens": [12, 2**62, -2**62], "zone": "z"}, "w": {"weight": 0, "tokens": [13]}},
        {"a": {"up": False}}, {"B": {"tokens": [11, 1]}, "a": None}]),
    "golden partitions": (dict(placement="partitions", partitions=64), [
        {"a": {}}, {"b": {}}, {"c": {"weight": 2750}, "d": {}}, {"e": {"weight": 0}, "ф": {"weight": 500, "zone": "z"}}, {"b": None},
        {"a": {"up": False}}, {"c": {"weight": 1000}}, {"b": {}, "d": None}, {f"n{i}": {} for i in range(10)}]),
    "golden 16384": (dict(placement="partitions", partitions=16384), [{f"node-{i}": {"weight": 1000 + i} for i in range(10)}, {"node-10": {}},
                                                                     {"node-3": None}, {"node-4": {"weight": 9000}}]),
    "golden 256": (dict(vnodes=256), [{f"node-{i}": {} for i in range(10)}, {"node-10": {}}, {"node-3": None}]),
}
BRIEF = ("golden 16384", "golden 256")          # too large to list points, partitions and plans


def text(value):
    return json.dumps(value)


def compute():
    """{file: [line as list of str]} from the model."""
    out = {name: [] for name in HEADERS}
    for key in TEXTS:
        out["hashes"].append(["text", text(key), position(key.encode()), position(hash_tag(key.encode()))])
    for key in BLOBS:
        out["hashes"].append(["bytea", text(key.hex()), position(key), position(hash_tag(key))])
    for name, (settings, changes) in RINGS.items():
        ring = Ring(**settings)
        out["rings"].append([text(name), 1, text({"placement": ring.placement, **settings}), ring.fingerprint()])
        for epoch, change in enumerate(changes, 2):
            old, ring = ring, ring.apply(change)
            out["rings"].append([text(name), epoch, text(sql_changes(change)), ring.fingerprint()])
            if name in BRIEF:
                continue
            if ring.placement == "partitions":
                out["partitions"] += [[text(name), epoch, text(node.name), text(node.held)] for _, node in sorted(ring.nodes.items())]
            for n in (1, 2):
                out["plans"] += [[text(name), epoch - 1, epoch, n, lo, hi, text(left), text(to)] for lo, hi, left, to in plan(old, ring, n)]
        if name not in BRIEF:
            out["points"] += [[text(name), epoch, p, text(node)] for p, node in ring.points]
        # Lookups look at the ring as it is: only its last epoch.
        for key in KEYS:
            p = ring.key_position(key)
            out["owners"].append([text(name), epoch, text(key), p, text(ring.node_at(p)), text(ring.replicas(p, 99))])
    return {name: [list(map(str, line)) for line in lines] for name, lines in out.items()}


def content(name, lines):
    return "\n".join(["\t".join(HEADERS[name].split()), *("\t".join(line) for line in lines)]) + "\n"


def read(name):
    lines = (DIRECTORY / f"{name}.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
    return [line.split("\t") for line in lines]


def check_files(tap):
    for name, lines in compute().items():
        path = DIRECTORY / f"{name}.tsv"
        tap.equal(name, path.read_text(encoding="utf-8").split("\n") if path.exists() else None, content(name, lines).split("\n"), str(path))
    tap.report(HEADERS)


def check_extension(tap):
    """The extension against the files alone; the model takes no part."""
    script = Script()
    script.do("CREATE EXTENSION IF NOT EXISTS chash")
    hashes, rings = read("hashes"), read("rings")
    script.do("BEGIN")                                          # nothing stays
    script.do("SELECT '' WHERE chash_create_ring('golden tags', hash_tags => true) < 0")
    for kind, key, p, tagged in hashes:
        key = lit(json.loads(key)) if kind == "text" else f"decode({lit(json.loads(key))}, 'hex')"
        script.ask(f"jsonb_build_array(chash_hash({key}), chash_position({key}, 'golden tags'))",
                   lambda got, key=key, p=p, tagged=tagged: tap.equal("hashes", got, [int(p), int(tagged)], key))
    for name, epoch, change, fingerprint in rings:
        R, change = lit(json.loads(name)), json.loads(change)
        what = f"{name} epoch {epoch}"
        if epoch == "1":
            settings = ", ".join(f"{key} => {lit(value) if isinstance(value, str) else str(value).lower()}" for key, value in change.items())
            script.do(f"SELECT '' WHERE chash_create_ring({R}, {settings}) < 0")
        else:
            script.do(f"SELECT '' WHERE chash_apply({json_lit(change)}, {R}) < 0")
        script.ask(f"SELECT jsonb_build_array(epoch, fingerprint, chash_fingerprint({R})) FROM chash_rings WHERE ring = {R}",
                   lambda got, want=[int(epoch), fingerprint, fingerprint], what=what: tap.equal("rings", got, want, what))
        for _, _, node, held in [line for line in read("partitions") if line[:2] == [name, epoch]]:
            script.ask(f"SELECT to_jsonb(held_partitions) FROM chash_nodes WHERE ring = {R} AND node = {lit(json.loads(node))}",
                       lambda got, held=json.loads(held), what=f"{what} {node}": tap.equal("partitions", got, held, what))
    points, plans = {}, {}
    for name, epoch, p, node in read("points"):
        points.setdefault(name, []).append([int(p), json.loads(node)])
    for name, want in points.items():
        script.ask(rows_of('"position", node', f"chash_points({lit(json.loads(name))})"),
                   lambda got, name=name, want=want: tap.equal("points", got, want, name))
    for name, epoch, key, p, owner, replicas in read("owners"):
        K, R = lit(json.loads(key)), lit(json.loads(name))
        script.ask(f"jsonb_build_array(chash_position({K}, {R}), chash_node({K}, {R}), chash_node_at({p}::bigint, {R}), chash_replicas({K}, 99, {R}))",
                   lambda got, want=[int(p), json.loads(owner), json.loads(owner), json.loads(replicas)], what=f"{name} {key}":
                   tap.equal("owners", got, want, what))
    for name, first, second, n, *row in read("plans"):
        plans.setdefault((name, first, second, n), []).append([int(row[0]), int(row[1]), json.loads(row[2]), json.loads(row[3])])
    for (name, first, second, n), want in plans.items():
        def receive(got, want=want, what=f"{name} {first} to {second}, {n} replicas"):
            order = {str(row): i for i, row in enumerate(want)}         # rows of one lo have no order among them
            if isinstance(got, list):
                got.sort(key=lambda row: (row[0], order.get(str(row), 0)))
            tap.equal("plans", got, want, what)
        script.ask(rows_of("lo, hi, from_node, to_node", f"chash_epoch_diff({lit(json.loads(name))}, {first}, {second}, {n})"), receive)
    script.do("ROLLBACK")
    script.run()
    tap.report(HEADERS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the model with the files")
    parser.add_argument("--extension", action="store_true", help="compare the extension with the files")
    args = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if not (args.check or args.extension):
        DIRECTORY.mkdir(exist_ok=True)
        for name, lines in compute().items():
            (DIRECTORY / f"{name}.tsv").write_text(content(name, lines), encoding="utf-8")
        return
    tap = Tap()
    if args.check:
        check_files(tap)
    if args.extension:
        check_extension(tap)
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
