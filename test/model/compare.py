"""Compares the extension with the model (chash_model.py) over psql, on random rings and keys.

Rings are built by random sequences of changes, in the model and in the extension alike; along the way and at
the end the two must agree on everything that can be asked.  Needs a database that can be had for this alone
(the extension is created if it is not there); the rings are dropped at the end.

    python3 compare.py [--seed N] [--rings N] [--keys N]

Prints a TAP line per group of checks and exits with 1 if any failed.
"""
import argparse
import functools
import itertools
import random
import statistics
import sys
import uuid
from collections import Counter

from chash_model import CIRCLE, HI, LO, Node, Ring, hash_tag, key_bytes, moves, plan, position, vnode_count
from server import Missing, Script, Tap, json_lit, lit, rows_of, sql_changes

WEIGHTS = [0, 1, 500, 1000, 1000, 2750]
NAMES = ["a", "a#", "a#1", "a#10", "a1", "a##", "#", "#0", "A", "b", "B", "z", "node", "Node", "node-1", "node-10", "node-2", " ", "  a",
         "a b", "O'Brien", 'say "x"', "back\\slash", "{tag}", "{}", "a,b", "NULL", "null", "%s", "$1", ":x", "ä", "a\u0308", "ß", "é", "ÿ",
         "节点", "节点#1", "ノード", "узел", "عقدة", "🐘", "🐘#0", "\ue000", "\uffee", "\u2028", "\u00a0", "x" * 255, "é" * 127, "0", "-1",
         "shard_a", "shard_b", "10.0.0.1:5432", "/tmp"] + [f"n{i}" for i in range(40)]
ZONES = ["z1", "z2", "z3", "Zürich", "az#1", "a b"]
LENGTHS = [0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 32, 36, 64, 65, 128, 129, 160, 240, 241, 256, 257, 600, 1025]
ALPHABETS = ["abcdefghijklmnopqrstuvwxyz0123456789-_:", "ab{}", "äöüßéñ", "аяжщ", "键值東京", "🐘🦣é#{}"]
MEMORABLE = ["", "{}", "{}a", "{}{a}", "{a}", "{a}{b}", "x{a}y", "{a", "a}b{c", "}{a}", "{{a}}", "{ }", "42", "-1", "NULL", "O'Brien", "\\", "\t\n"]
RANGE = "lo, hi, node, share"
MOVE = "lo, hi, from_node, to_node, share"
REPLICA_POINTS = 600        # plans with several replicas are compared on rings up to this size

known_plan = functools.lru_cache(maxsize=64)(plan)      # wanted for a forecast, and again for what then happened


def around(*rings):
    """Every position where something could change, with one to either side, wrapping; both ends of the circle."""
    near = {(p + d - LO) % CIRCLE + LO for ring in rings for p, _ in ring.points for d in (-1, 0, 1)}
    return sorted(near | {LO, HI})


def rows_at(rows, positions):
    """The rows (by lo) that cover each of the positions (ascending)."""
    active, i = [], 0
    for p in positions:
        while i < len(rows) and rows[i][0] <= p:
            active.append(rows[i])
            i += 1
        active = [row for row in active if row[1] >= p]
        yield p, active


def changes_json(changes):
    return json_lit(sql_changes(changes))


def arguments(fields):
    """Fields of one node as arguments of chash_add_node and chash_set_node."""
    return "".join(f", {key} => {lit(value / 1000 if key == 'weight' else value)}" for key, value in fields.items())


def check_shares(tap, group, rows, what):
    for row in rows:
        want = (row[1] - row[0] + 1) / CIRCLE
        tap.check(group, row[-1] is not None and abs(row[-1] - want) <= 1e-12 * want, lambda: f"{what}: share of {row}, expected {want}")


def check_plan(tap, group, got, old, new, n, what, brute_force=True):
    """Rows of a plan that the extension gave: against the model's plan, in form, and by brute force at every boundary."""
    if isinstance(got, Missing):
        return tap.equal(group, got, None, what)

    def canonical(rows):
        return sorted(([*row[:4]] for row in rows), key=lambda row: (row[0], row[1], row[2] or "", row[3] or ""))
    tap.equal(group, canonical(got), canonical(known_plan(old, new, n)), what)
    check_shares(tap, group, got, what)
    last = {}
    for before, row in zip([None, *got], got):
        lo, hi, pair = row[0], row[1], tuple(row[2:4])
        sound = lo <= hi and pair[0] != pair[1] and (not before or (before[1] < lo if n == 1 else before[0] <= lo))
        tap.check(group, sound and last.get(pair, LO - 2) + 1 != lo, lambda: f"{what}: row {row} after {before}")
        last[pair] = hi
    for p, rows in rows_at(got, around(old, new) if brute_force else []):
        want = moves(old.replicas(p, n, live=False), new.replicas(p, n, live=False))
        have = [tuple(row[2:4]) for row in rows]
        tap.check(group, len(have) == len(want) and set(have) == set(want), lambda: f"{what}: at {p} got {have}, expected {want}")


class Case:
    """One random ring: what the model knows of it, and the statements that make and examine it."""

    def __init__(self, rng, tap, placement, name):
        self.rng, self.tap, self.name, self.R = rng, tap, name, lit(name)
        self.group = lambda what: f"{placement}: {what}"
        heavy = rng.random() < 0.04                         # a few large rings, with very unequal nodes
        self.cap = 10000 if heavy else 500
        self.weights = WEIGHTS + ([1000000] if heavy or placement != "vnodes" else [])
        vnodes = rng.choice([1, 2, 3] if heavy else [1, 2, 3, 7, 16, 40, 64, 256])
        self.ring = Ring(placement, vnodes, 2 ** rng.choice([11, 12] if heavy else range(10)), rng.random() < 0.3)
        self.history = [self.ring]                          # [e - 1]: the ring at epoch e
        self.setting = rng.choice([1, 1, 2, 3])             # the ring's own number of replicas
        self.size = min(rng.randint(1, 50), rng.randint(1, 50)) if rng.random() < 0.8 else 50
        self.zoned = rng.choice([0, 0.5, 1])
        self.zones = rng.sample(ZONES, rng.randint(1, len(ZONES)))
        self.names = rng.sample(NAMES, min(len(NAMES), self.size + 8))
        self.clusters = [rng.choice([LO, HI - 6, rng.randint(LO, HI - 6)]) for _ in range(2)]

    def replica_counts(self, *rings):
        """For how many replicas a plan between the rings is compared: 1 and sometimes more."""
        several = max(len(ring.points) for ring in rings) < REPLICA_POINTS and self.rng.random() < 0.5
        return [1, self.rng.randint(2, 4)] if several else [1]

    # -- making random changes

    def fits(self, weights):
        """Whether the ring would stay in its bounds."""
        if self.ring.placement == "partitions":
            return sum(w > 0 for w in weights.values()) <= self.ring.partitions
        return self.ring.placement == "tokens" or sum(vnode_count(self.ring.vnodes, w) for w in weights.values()) <= self.cap

    def tokens(self):
        rng, taken = self.rng, [p for p, _ in self.ring.points] or [0]
        makers = [lambda: rng.choice([LO, HI, 0, -1, LO + 1, HI - 1]), lambda: rng.choice(taken),
                  lambda: rng.choice(self.clusters) + rng.randint(0, 6), lambda: rng.randint(LO, HI), lambda: rng.randint(LO, HI)]
        return list(dict.fromkeys(rng.choice(makers)() for _ in range(rng.choice([1, 1, 2, 3, 5, 8, 16, 40]))))

    def fields(self, weights, name, every):
        """Random fields of a node: every field for a new node, else some.  Notes its weight in weights."""
        rng, fields = self.rng, {}
        if every and rng.random() < 0.1 and self.fits({**weights, name: 1000}):
            weights[name] = 1000                            # not given
        elif every or rng.random() < 0.6:
            choices = rng.sample(self.weights, len(self.weights)) + [0]
            fields["weight"] = weights[name] = next(w for w in choices if w == 0 or self.fits({**weights, name: w}))
        if rng.random() < (self.zoned if every else self.zoned / 3):
            fields["zone"] = rng.choice(self.zones)
        if self.ring.placement == "tokens" and (every or rng.random() < 0.4):
            fields["tokens"] = self.tokens()
        return fields

    def change(self, size=None):
        """A random change: (kind, changes, expression that makes it).  With size: so many new nodes at once."""
        rng, ring, R = self.rng, self.ring, self.R
        weights = {name: node.weight for name, node in ring.nodes.items()}
        here, free = sorted(ring.nodes), [name for name in self.names if name not in ring.nodes]
        kind = rng.choice(["add", "remove", "set", "set", "apply", "apply", "down", "down", "up", "nothing"])
        if size or not here or (kind == "add" and not free):
            kind = "apply" if size or not free else "add"
        if kind == "add":
            name = rng.choice(free)
            fields = self.fields(weights, name, True)
            return kind, {name: fields}, f"chash_add_node({lit(name)}, ring => {R}{arguments(fields)})"
        if kind == "remove":
            name = rng.choice(here)
            return kind, {name: None}, f"chash_remove_node({lit(name)}, {R})"
        if kind == "set":
            name = rng.choice(here)
            fields = self.fields(weights, name, False)
            return kind, {name: fields}, f"chash_set_node({lit(name)}, ring => {R}{arguments(fields)})"
        if kind in ("down", "up"):
            name = rng.choice(here)
            return kind, {name: {"up": kind == "up"}}, f"chash_mark_{kind}({lit(name)}, {R})"
        changes = {}
        if kind == "nothing":
            for name in rng.sample(here, min(len(here), 3)):
                node = ring.nodes[name]
                changes[name] = rng.choice([{}, {"weight": node.weight}, {"up": node.up, "zone": node.zone}])
        else:
            for name in rng.sample(free, min(len(free), size or rng.randint(0, 3))):
                changes[name] = self.fields(weights, name, True)
            for name in rng.sample(here, 0 if size else rng.randint(0, min(4, len(here)))):
                if rng.random() < 0.4:
                    changes[name] = None
                    del weights[name]
            for name in rng.sample(here, 0 if size else rng.randint(0, min(4, len(here)))):
                if name not in changes:
                    changes[name] = self.fields(weights, name, False)
                    if rng.random() < 0.3:
                        changes[name]["up"] = rng.random() < 0.5
                    if rng.random() < 0.1:
                        changes[name]["zone"] = None
        return kind, changes, f"chash_apply({changes_json(changes)}, {R})"

    # -- the first session: the ring is made, and examined after each change

    def make(self, script):
        rng, ring = self.rng, self.ring
        given = {"vnodes": f", vnodes => {ring.vnodes}", "partitions": f", partitions => {ring.partitions}", "tokens": ""}[ring.placement]
        self.script, self.whole = script, rng.random() < 0.5
        if self.whole:                                      # all in one transaction
            script.do("BEGIN")
        script.ask(f"chash_create_ring({self.R}, {lit(ring.placement)}{given}, hash_tags => {str(ring.hash_tags).lower()}, "
                   f"replicas => {self.setting})", self.equal("epochs", 1, "create"))
        singles = min(self.size, rng.randint(1, 5))
        for size in [None] * singles + [self.size - singles] * (self.size > singles) + [None] * rng.randint(6, 10):
            if rng.random() < 0.1:
                self.undone()
            self.step(size)
        self.refused()
        if self.whole:
            script.do("COMMIT")

    def equal(self, group, want, what):
        what = f"ring {self.name!r} epoch {len(self.history)}: {what}"
        return lambda got: self.tap.equal(self.group(group), got, want, what)

    def undone(self):
        """A change that is rolled back leaves no trace."""
        _, _, expression = self.change()
        self.script.do("SAVEPOINT undone" if self.whole else "BEGIN")
        self.script.do(f"SELECT '' WHERE ({expression}) < 0")
        self.script.do(f"SELECT '' WHERE chash_fingerprint({self.R}) = ''")
        self.script.do("ROLLBACK TO undone" if self.whole else "ROLLBACK")
        self.now()

    def now(self):
        """What must be true of the ring as it is now, cheaply."""
        places = [self.rng.randint(LO, HI) for _ in range(8)] + [p for p, _ in self.rng.sample(self.ring.points, min(8, len(self.ring.points)))]
        self.script.ask(f"chash_fingerprint({self.R})", self.equal("fingerprint", self.ring.fingerprint(), "fingerprint"))
        self.script.ask(f"SELECT jsonb_build_array(epoch, fingerprint) FROM chash_rings WHERE ring = {self.R}",
                        self.equal("epochs", [len(self.history), self.ring.fingerprint()], "chash_rings"))
        self.ask_node_at(self.script, places)

    def ask_node_at(self, script, places):
        if self.ring.node_at(0) is None:
            script.ask_sqlstate(f"chash_node_at(0, {self.R})", self.equal("refusals", "55000", "lookup without live nodes"))
        else:
            want = [self.ring.node_at(p) for p in places]
            script.ask(f"SELECT jsonb_agg(chash_node_at(p, {self.R}) ORDER BY o) FROM unnest({lit(places)}) WITH ORDINALITY AS t(p, o)",
                       self.equal("chash_node_at", want, "chash_node_at"))

    def step(self, size):
        """Make one change and see what it did."""
        kind, changes, expression = self.change(size)
        old, new, R = self.ring, self.ring.apply(changes), self.R
        what = f"ring {self.name!r} epoch {len(self.history)}: {expression[:300]}"
        counts = self.replica_counts(old, new)
        if kind == "apply":
            for n in counts:
                asked = "NULL" if n == self.setting and self.rng.random() < 0.5 else n
                self.script.ask(rows_of(MOVE, f"chash_rebalance_plan({R}, {changes_json(changes)}, {asked})"),
                                lambda got, n=n: check_plan(self.tap, self.group("chash_rebalance_plan"), got, old, new, n, f"{what}, plan for {n}"))
            self.script.ask(rows_of("from_node, to_node, ranges, share, from_before, from_after, to_before, to_after",
                                    f"chash_rebalance_summary({R}, {changes_json(changes)}, 1)"),
                            lambda got: self.check_summary(got, old, new, what))
        if new is not old:
            self.history.append(new)
            self.ring = new
        self.script.ask(expression, self.equal("epochs", len(self.history), expression))
        self.now()
        if new is old:
            return
        at = len(self.history)
        for n in counts if kind == "apply" else [1]:
            def receive(got, n=n):
                check_plan(self.tap, self.group("chash_epoch_diff"), got, old, new, n, f"{what}, what moved of {n}", brute_force=False)
                if kind != "apply":
                    self.check_minimal(got, kind, changes, old, what)
            self.script.ask(rows_of(MOVE, f"chash_epoch_diff({R}, {at - 1}, {at}, {n})"), receive)
        if kind == "apply" and len(old.points) < 3000:
            self.ask_ranges(self.script)

    def check_summary(self, got, old, new, what):
        def held(rows):
            owned = Counter()
            for lo, hi, name in rows:
                owned[name] += hi - lo + 1
            return owned
        ranges, size, before, after = Counter(), Counter(), held(old.ranges()), held(new.ranges())
        for lo, hi, left, to in known_plan(old, new, 1):
            ranges[left, to] += 1
            size[left, to] += hi - lo + 1
        group = self.group("chash_rebalance_summary")
        self.tap.equal(group, got if isinstance(got, Missing) else {tuple(row[:2]): row[2] for row in got}, dict(ranges), what)
        for row in got:
            left, to = row[:2]
            want = [n / CIRCLE for n in (size[left, to], before[left], after[left], before[to], after[to])]
            self.tap.check(group, all(abs((g or 0) - w) < 1e-12 for g, w in zip(row[3:], want)), lambda: f"{what}: {row}, expected shares {want}")

    def check_minimal(self, got, kind, changes, old, what):
        """One node changed: nothing moves but to it or from it, in the direction of the change."""
        (name, fields), = changes.items()
        was = old.nodes[name].weight if name in old.nodes else 0
        if isinstance(got, Missing):
            return
        if kind in ("add", "remove"):
            good = all(row[3 if kind == "add" else 2] == name for row in got)
        elif old.placement == "tokens":
            good = all(name in row[2:4] for row in got)
        else:
            weight = fields.get("weight", was)
            good = all(row[3 if weight > was else 2] == name for row in got) and (weight != was or not got)
        self.tap.check(self.group("minimal movement"), good, lambda: f"{what}: moved {got[:5]}")

    def refused(self):
        """Changes that must be refused, and leave the ring as it was."""
        R, new, some = self.R, lit("new"), sorted(self.ring.nodes)
        tokens = ", tokens => '{1}'" if self.ring.placement == "tokens" else ""
        tries = [(f"chash_remove_node('nobody', {R})", "42704"), (f"chash_set_node('nobody', {R}, weight => 2)", "42704"),
                 (f"chash_mark_down('nobody', {R})", "42704"), (f"chash_create_ring({R})", "42710"),
                 (f"chash_add_node({new}, {R}, weight => -1{tokens})", "22023"), (f"chash_add_node({new}, {R}, weight => 0.0005{tokens})", "22023"),
                 (f"chash_add_node({new}, {R}, weight => 1000000{tokens})", "22023"), (f"chash_add_node('', {R}{tokens})", "22023"),
                 (f"chash_add_node(E'a\\tb', {R}{tokens})", "22023"), (f"chash_add_node({lit('x' * 256)}, {R}{tokens})", "22023"),
                 (f"chash_add_node({new}, {R}, zone => E'\\x7f'{tokens})", "22023"),
                 (f"chash_add_node({new}, {R}" + (")" if tokens else ", tokens => '{1}')"), "22023"),
                 (f"chash_rebalance_plan({R}, '{{}}', 0)", "22023"), (f"chash_epoch_diff({R}, 1, {len(self.history) + 1})", "22023")]
        if some:
            tries.append((f"chash_add_node({lit(some[0])}, {R}{tokens})", "42710"))
        if self.ring.placement == "partitions" and self.ring.partitions <= 64:
            too_many = changes_json({f"many{i}": {} for i in range(self.ring.partitions + 1)})
            tries += [(f"chash_apply({too_many}, {R})", "54000"), (f"chash_rebalance_plan({R}, {too_many})", "54000")] * 3
        for expression, state in self.rng.sample(tries, 3):
            self.script.ask_sqlstate(expression, self.equal("refusals", state, expression))
        self.now()

    # -- another session: everything about the ring as it has become

    def ask_ranges(self, script, node=None):
        want, what = [row for row in self.ring.ranges() if node in (None, row[2])], f"ring {self.name!r}: ranges of {node}"

        def receive(got):
            self.tap.equal(self.group("chash_ranges"), got if isinstance(got, Missing) else [tuple(row[:3]) for row in got], want, what)
            check_shares(self.tap, self.group("chash_ranges"), got, what)
        script.ask(rows_of(RANGE, f"chash_ranges({self.R}, {lit(node)})"), receive)

    def examine(self, script, keys, others):
        rng, ring, R = self.rng, self.ring, self.R
        script.ask(rows_of('"position", node', f"chash_points({R})"), self.equal("chash_points", list(map(list, ring.points)), "points"))
        self.ask_ranges(script)
        if ring.nodes:
            self.ask_ranges(script, rng.choice(sorted(ring.nodes)))
        script.ask(rows_of("node, weight * 1000, zone, points, share, expected, ratio", f"chash_balance({R})"), self.check_balance)
        script.ask(f"SELECT coalesce(jsonb_object_agg(node, held_partitions), '{{}}') FROM chash_nodes WHERE ring = {R}",
                   self.equal("fingerprint", {name: list(node.held) if ring.placement == "partitions" else None
                                              for name, node in ring.nodes.items()}, "held_partitions"))
        places = around(ring)
        self.ask_node_at(script, rng.sample(places, min(2000, len(places))) + [LO, HI] + [rng.randint(LO, HI) for _ in range(100)])
        self.ask_keys(script, keys)
        self.ask_past(script, keys)
        for other in others:
            if other.ring.hash_tags != ring.hash_tags:      # keys lie elsewhere: ranges would mean nothing
                script.ask_sqlstate(f"chash_ring_diff({other.R}, {R})", self.equal("refusals", "22023", f"difference to {other.name}"))
                continue
            for n in self.replica_counts(ring, other.ring):
                what = f"from ring {other.name!r} to {self.name!r}, {n} replicas"
                script.ask(rows_of(MOVE, f"chash_ring_diff({other.R}, {R}, {n})"), lambda got, n=n, other=other, what=what: check_plan(
                    self.tap, self.group("chash_ring_diff"), got, other.ring, ring, n, what))

    def check_balance(self, got):
        want, what = self.ring.balance(), f"ring {self.name!r}: balance"
        nodes = {name: (node.weight, node.zone, want[name][0]) for name, node in self.ring.nodes.items()}
        self.tap.equal(self.group("chash_balance"), got if isinstance(got, Missing) else {row[0]: (*row[1:4],) for row in got}, nodes, what)
        for name, _, _, _, *floats in got:
            good = all((g is None) == (w is None) and (w is None or abs(g - w) <= 1e-9 * w) for g, w in zip(floats, want.get(name, [0])[1:]))
            self.tap.check(self.group("chash_balance"), good, lambda: f"{what}: {name!r}: got {floats}, expected {want.get(name)}")

    def ask_keys(self, script, keys):
        """Lookups of keys of every type: {type: [key]}."""
        ring, R = self.ring, self.R
        as_text = {"text": str, "bigint": str, "uuid": lambda k: str(k).upper(), "bytea": bytes.hex}
        for kind, some in keys.items():
            key = "decode(x, 'hex')" if kind == "bytea" else f"x::{kind}"
            script.do("DROP TABLE IF EXISTS keys")
            script.do(f"CREATE TEMP TABLE keys AS SELECT o, {key} AS k FROM "
                      f"jsonb_array_elements_text({json_lit([as_text[kind](k) for k in some])}) WITH ORDINALITY AS e(x, o)")
            where = [ring.key_position(k) for k in some]

            def ask(group, what, expression, want, kind=kind, some=some):
                def receive(got):
                    if not isinstance(got, list) or len(got) != len(want):
                        return self.tap.equal(self.group(group), got, want, f"ring {self.name!r}: {what} of {kind}")
                    for g, w, k in zip(got, want, some):
                        self.tap.equal(self.group(group), g, w, f"ring {self.name!r}: {what} of {kind} {k!r:.200}")
                script.ask(f"SELECT jsonb_agg({expression} ORDER BY o) FROM keys", receive)
            ask("positions of keys", "position", f"jsonb_build_array(chash_position(k, {R}), chash_hash(k))",
                [[p, position(key_bytes(k))] for p, k in zip(where, some)])
            if kind == "text":
                ask("positions of keys", "tag", "chash_hash_tag(k)", [hash_tag(key_bytes(k)).decode() for k in some])
            if ring.node_at(0) is None:
                script.ask_sqlstate(f"max(chash_node(k, {R})) FROM keys", self.equal("refusals", "55000", "lookup"))
                continue
            ask("chash_node", "owner", f"chash_node(k, {R})", [ring.node_at(p) for p in where])
            ask("chash_replicas", "replicas", f"chash_replicas(k, (1 + o % 7)::int, {R})",
                [ring.replicas(p, 1 + o % 7) for o, p in enumerate(where, 1)])
            ask("chash_route", "route", f"CASE WHEN o < 4 THEN to_jsonb(chash_route(k, {R})) END",
                [{"node": ring.node_at(p), "position": p, "epoch": len(self.history), "next_node": None, "move_id": None} if o < 3 else None
                 for o, p in enumerate(where)])

    def ask_past(self, script, keys):
        """Owners in every epoch, and differences between any two."""
        rng, R = self.rng, self.R
        filled = [e for e, ring in enumerate(self.history, 1) if ring.points]
        for kind, count in (("text", 8), ("bigint", 4)):
            some = keys[kind][:count]
            want = [self.history[e - 1].owner(self.ring.key_position(k)) for e in filled for k in some]
            if want:
                script.ask(f"SELECT jsonb_agg(chash_node_as_of(k::{kind}, e, {R}) ORDER BY e, o) FROM unnest({lit(filled)}) AS e, "
                           f"jsonb_array_elements_text({json_lit(list(map(str, some)))}) WITH ORDINALITY AS t(k, o)",
                           self.equal("chash_node_as_of", want, f"owners of {some!r} at epochs {filled}"))
        for epoch, state in ((1, "55000"), (0, "22023"), (len(self.history) + 1, "22023")):
            script.ask_sqlstate(f"chash_node_as_of('x', {epoch}, {R})", self.equal("refusals", state, f"as of epoch {epoch}"))
        first, second = rng.randint(1, len(self.history)), rng.randint(1, len(self.history))
        old, new, what = self.history[first - 1], self.history[second - 1], f"ring {self.name!r}: epochs {first} to {second}"
        script.ask(rows_of(MOVE, f"chash_epoch_diff({R}, {first}, {second}, 1)"),
                   lambda got: check_plan(self.tap, self.group("chash_epoch_diff"), got, old, new, 1, what))


def random_keys(rng, count):
    """{type: keys}, count in all."""
    def text():
        return rng.choice(MEMORABLE) if rng.random() < 0.1 else "".join(rng.choices(rng.choice(ALPHABETS), k=rng.choice(LENGTHS[:18] * 4 + LENGTHS)))
    def blob():
        return text().encode() if rng.random() < 0.3 else bytes(rng.choices(b"{}ab\x00\xff\x80", k=rng.choice(LENGTHS)))
    def number():
        return rng.choice([0, 1, -1, 42, LO, HI, 10**18]) if rng.random() < 0.1 else rng.randint(*rng.choice([(LO, HI), (-999, 999), (0, 10**9)]))
    makers = {"bigint": number, "uuid": lambda: uuid.UUID(int=rng.getrandbits(128)), "bytea": blob}
    keys = {kind: [make() for _ in range(max(4, count // 6))] for kind, make in makers.items()}
    return {"text": [text() for _ in range(max(8, count - sum(map(len, keys.values()))))], **keys}


def random_rings(args, tap):
    """The bulk of the work: random rings of every placement."""
    recent, groups = [], ["epochs", "fingerprint", "refusals", "chash_node_at", "positions of keys", "chash_node", "chash_replicas", "chash_route",
                          "chash_points", "chash_ranges", "chash_balance", "chash_rebalance_plan", "chash_rebalance_summary",
                          "chash_epoch_diff", "chash_ring_diff", "chash_node_as_of", "minimal movement"]
    for placement in ("vnodes", "partitions", "tokens"):
        rng = random.Random(f"{args.seed}/{placement}")
        cases = [Case(rng, tap, placement, f"model {placement} {i}") for i in range(args.rings)]
        for start in range(0, len(cases), 10):
            batch, script = cases[start:start + 10], Script()
            for case in batch:
                case.make(script)
            script.run()
            script = Script()
            for case in batch:
                case.examine(script, random_keys(rng, -(-args.keys // args.rings)), rng.sample(recent, min(2, len(recent))))
                recent = recent[-20:] + [case]
            script.run()
            for i, case in enumerate(batch):
                cases[start + i] = None
                case.history = case.script = None
        tap.report([f"{placement}: {group}" for group in groups], f"seed {args.seed}")


def equal_partitions(args, tap):
    """Placement partitions at its usual size, 1 to 100 equal nodes and back: balance, and exactly the quota moves."""
    Q, rng, script = 16384, random.Random(args.seed), Script()
    arrive, group = [f"node-{i}" for i in range(100)], "16384 partitions, up to 100 equal nodes"
    rng.shuffle(arrive)
    script.do(f"SELECT '' WHERE chash_create_ring('model equal', 'partitions', partitions => {Q}) < 0")
    ring, epoch = Ring("partitions", partitions=Q), 1
    leave = rng.sample(arrive, 100)
    for name, add in [(name, True) for name in arrive] + [(name, False) for name in leave[:-1]]:
        old, ring, epoch = ring, ring.apply({name: {} if add else None}), epoch + 1
        script.ask(f"chash_{'add' if add else 'remove'}_node({lit(name)}, 'model equal')", lambda got, want=epoch: tap.equal(group, got, want, "epoch"))
        script.ask("chash_fingerprint('model equal')",
                   lambda got, want=ring.fingerprint(), what=f"fingerprint at {epoch}": tap.equal(group, got, want, what))

        def balance(got, n=len(ring.nodes), what=f"{len(ring.nodes)} nodes"):
            tap.check(group, len(list(got)) == n, f"{what}: {got}")
            for node, points in got:
                tap.check(group, abs(points - Q / n) <= max(1, 0.01 * Q / n), lambda: f"{what}: {node} has {points} of {Q}")
        script.ask(rows_of("node, points", "chash_balance('model equal')"), balance)

        def moved(got, old=old, ring=ring, name=name, add=add, what=f"epoch {epoch}, {'add' if add else 'remove'} {name}"):
            count = Counter()
            for lo, hi, left, to, _ in got:
                count[left, to] += (hi - lo + 1) * Q // CIRCLE
            was, now = ({node: len(r.nodes[node].held) for node in r.nodes} for r in (old, ring))
            if add:
                want = {(node, name): was[node] - now[node] for node in was} if was else {(None, name): Q}
            else:
                want = {(name, node): now[node] - was[node] for node in now}
            tap.equal(group, dict(count), {pair: n for pair, n in want.items() if n}, what)
            if not add:
                fair = was[name] / len(now)
                tap.check(group, len(count) == len(now) and max(count.values()) <= 1.5 * fair, lambda: f"{what}: {count}")
        script.ask(rows_of(MOVE, f"chash_epoch_diff('model equal', {epoch - 1}, {epoch}, 1)"), moved)
    script.run()
    tap.report([group], f"seed {args.seed}")


def vnodes_statistics(args, tap):
    """How unequal the shares of 10 nodes are: median of the busiest node's share over the mean share."""
    rng = random.Random(args.seed)
    sets = [rng.sample(range(10**6), 10) for _ in range(1000)]
    for vnodes, low, high in ((1, 2.6, 3.0), (256, 1.0, 1.15)):
        group, worst, script = f"{vnodes} vnodes: the busiest of 10 nodes", [], Script()
        for i, numbers in enumerate(sets):
            ring = Ring("vnodes", vnodes=vnodes, nodes={f"host{k}": Node(f"host{k}") for k in numbers})
            worst.append(10 * max(row[1] for row in ring.balance().values()))
            if i % 50 == 0:
                R = lit(f"model {vnodes} vnodes {i}")
                script.do(f"SELECT '' WHERE chash_create_ring({R}, vnodes => {vnodes}) + chash_apply({changes_json({k: {} for k in ring.nodes})}, {R}) < 0")
                script.ask(f"SELECT 10 * max(share) FROM chash_balance({R})", lambda got, want=worst[-1]: tap.check(
                    group, not isinstance(got, Missing) and abs(got - want) < 1e-9, f"got {got}, expected {want}"))
        median = statistics.median(worst)
        tap.check(group, low < median < high, f"median {median}")
        script.run()
        tap.report([group], f"seed {args.seed}")


def insertion_order(args, tap):
    """Neither the order nor the manner in which nodes were added shows."""
    nodes = {"a": dict(weight=1000, tokens=[1, 5]), "a#1": dict(weight=2750, tokens=[5, HI]), "é": dict(weight=500, zone="z", tokens=[LO]),
             "z": dict(weight=0, tokens=[9]), "節": dict(weight=1, zone="y", tokens=[5, 9, -9])}
    for placement in ("vnodes", "tokens"):
        group, script, ring = f"{placement}: order of insertion", Script(), Ring(placement)
        given = {name: {k: v for k, v in node.items() if k != "tokens" or placement == "tokens"} for name, node in nodes.items()}
        want = ring.apply(given)
        for order in itertools.permutations(nodes):
            script.do("BEGIN")
            script.do(f"SELECT '' WHERE chash_create_ring('model order', {lit(placement)}) < 0")
            for name in order:
                script.do(f"SELECT '' WHERE chash_add_node({lit(name)}, ring => 'model order'{arguments(given[name])}) < 0")
            script.ask("chash_fingerprint('model order')", lambda got, order=order: tap.equal(group, got, want.fingerprint(), str(order)))
            script.ask(rows_of('"position", node', "chash_points('model order')"),
                       lambda got, order=order: tap.equal(group, got, list(map(list, want.points)), str(order)))
            script.do("ROLLBACK")
        script.run()
    tap.report(["vnodes: order of insertion", "tokens: order of insertion"], f"seed {args.seed}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rings", type=int, default=200, help="random rings per placement")
    parser.add_argument("--keys", type=int, default=110000, help="keys per placement, over all rings")
    args = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    tap, script = Tap(), Script()
    script.do("CREATE EXTENSION IF NOT EXISTS chash")
    script.ask("SELECT count(*) FROM pg_extension WHERE extname = 'chash'", lambda got: got == 1 or sys.exit(f"no extension chash: {got}"))
    script.ask("SELECT count(*) FROM chash_rings WHERE ring LIKE 'model %'", lambda got: got == 0 or sys.exit("the database has rings already"))
    script.run()
    random_rings(args, tap)
    equal_partitions(args, tap)
    vnodes_statistics(args, tap)
    insertion_order(args, tap)
    script = Script()
    for table in ("chash_rings", "chash_nodes", "chash_node_history"):
        script.do("SELECT '' FROM (SELECT ring FROM chash_rings WHERE ring LIKE 'model %' OFFSET 0) AS r WHERE chash_drop_ring(ring) IS NULL")
        script.ask(f"SELECT count(*) FROM {table} WHERE ring LIKE 'model %'", lambda got, table=table: tap.equal("rings dropped", got, 0, table))
    script.run()
    tap.report(["rings dropped"])
    sys.exit(tap.finish())


if __name__ == "__main__":
    main()
