"""Tests of the model itself, without a server: known values, and properties that must hold by the rules."""
import random
import unittest
from fractions import Fraction

from chash_model import (CIRCLE, HI, LO, Node, Ring, hash_tag, moves, plan, position, quotas, scatter_rank, vnode_count)


def grow(rng, placement, nodes, **settings):
    ring = Ring(placement, **settings)
    for i in range(nodes):
        tokens = [rng.randint(LO, HI) for _ in range(5)] if placement == "tokens" else ()
        ring = ring.apply({f"n{i}": dict(weight=rng.choice([0, 1, 500, 1000, 2750]), tokens=tokens,
                                         zone=rng.choice([None, "a", "b"]))})
    return ring


class Rules(unittest.TestCase):
    def test_hash(self):
        # XXH3_64bits of nothing, and of "a", as xxHash's own documentation and tools give them.
        self.assertEqual(position(b"") % CIRCLE, 0x2D06800538D394C2)
        self.assertEqual(position(b"a") % CIRCLE, 0xE6C632B61E964E1F)
        self.assertTrue(position(b"a") < 0)

    def test_hash_tag(self):
        for key, tag in ((b"{a}b", b"a"), (b"x{a}{b}", b"a"), (b"{}a", b"{}a"), (b"{}{a}", b"{}{a}"), (b"a{b", b"a{b"),
                         (b"}{a}", b"a"), (b"{{a}}", b"{a"), (b"", b""), (b"a}b{", b"a}b{")):
            self.assertEqual(hash_tag(key), tag)

    def test_vnode_count(self):
        for vnodes, weight, count in ((256, 1000, 256), (256, 0, 0), (256, 1, 1), (3, 500, 2), (2, 2750, 6), (1, 1499, 1)):
            self.assertEqual(vnode_count(vnodes, weight), count)

    def test_order_is_by_bytes(self):
        names = ["a", "a#1", "z", "é", "\uffee", "\U0001F418", "A", "节点"]
        self.assertEqual(sorted(names), sorted(names, key=lambda name: name.encode()))

    def test_owner_and_ties(self):
        ring = Ring("tokens", nodes={"b": Node("b", tokens=(0, 10)), "a": Node("a", tokens=(10, HI)), "c": Node("c", tokens=(LO,))})
        self.assertEqual([ring.owner(p) for p in (LO, LO + 1, 0, 1, 10, 11, HI)], list("cbbaaaa"))
        self.assertEqual(ring.replicas(5, 9), ["a", "b", "c"])
        self.assertEqual(ring.apply({"a": None}).owner(10), "b")
        self.assertEqual(ring.apply({"a": {"up": False}}).node_at(10), "b")
        self.assertEqual(ring.ranges(), [(LO, LO, "c"), (LO + 1, 0, "b"), (1, HI, "a")])

    def test_zones_in_rounds(self):
        zones = {"a": "x", "b": "x", "c": "x", "d": "y", "e": None, "f": None, "g": "y"}
        ring = Ring("tokens", nodes={name: Node(name, tokens=(i,), zone=zones[name]) for i, name in enumerate("abcdefg")})
        self.assertEqual(ring.replicas(0, 7), list("adebfgc"))
        self.assertEqual(ring.replicas(5, 4), list("fgab"))

    def test_moves(self):
        self.assertEqual(moves(["a", "b"], ["b", "c"]), [("a", "c")])
        self.assertEqual(moves(["a"], ["b", "c"]), [("a", "b"), ("a", "c")])
        self.assertEqual(moves([], ["b"]), [(None, "b")])
        self.assertEqual(moves(["a", "b"], ["b"]), [("a", None)])
        self.assertEqual(moves(["a", "b"], ["b", "a"]), [])

    def test_quotas_by_fractions(self):
        rng = random.Random(1)
        for _ in range(50):
            weights = {f"n{i}": rng.choice([0, 1, 500, 1000, 2750, 10**6]) for i in range(rng.randint(1, 9))}
            seats = {name: int(w > 0) for name, w in weights.items()}
            if not sum(seats.values()):
                continue
            while sum(seats.values()) < 64:
                name = min(seats, key=lambda k: (-Fraction(weights[k], 2 * seats[k] + 1), k))
                seats[name] += 1
            self.assertEqual(quotas(64, weights), seats)
        with self.assertRaises(ValueError):
            quotas(1, {"a": 1, "b": 1})

    def test_partitions(self):
        rng = random.Random(2)
        ring = grow(rng, "partitions", 12, partitions=256)
        held = sorted(k for node in ring.nodes.values() for k in node.held)
        self.assertEqual(held, list(range(256)))
        self.assertEqual(sorted(scatter_rank(256)), list(range(256)))
        for k in range(256):
            owner = next(name for name, node in ring.nodes.items() if k in node.held)
            lo = LO + k * CIRCLE // 256
            self.assertEqual({ring.owner(lo), ring.owner(lo + CIRCLE // 256 - 1)}, {owner})

    def test_minimal_movement(self):
        rng = random.Random(3)
        for placement in ("vnodes", "partitions", "tokens"):
            ring = grow(rng, placement, 10, vnodes=20, partitions=128)
            for change in ({"new": dict(tokens=(5, 6))}, {"n3": None}, {"n4": dict(weight=7)}, {"n5": dict(weight=9000)}):
                (name,), new = change, ring.apply(change)
                self.assertTrue(all(name in row[2:] for row in plan(ring, new)))

    def test_plan_is_the_difference(self):
        rng = random.Random(4)
        for n in (1, 2, 3):
            old = grow(rng, "tokens", 6)
            new = grow(rng, "tokens", 6)
            rows = plan(old, new, n)
            for p in {(q + d - LO) % CIRCLE + LO for ring in (old, new) for q in ring._positions for d in (-1, 0, 1)} | {LO, HI}:
                here = sorted(str(row[2:]) for row in rows if row[0] <= p <= row[1])
                want = moves(old.replicas(p, n, live=False), new.replicas(p, n, live=False))
                self.assertEqual(here, sorted(map(str, want)))

    def test_history_matters_only_for_partitions(self):
        one, other = {"a": {"tokens": (1,)}, "b": {"tokens": (2,)}}, {"b": {"tokens": (2,)}, "a": {"tokens": (1,)}}
        for placement in ("vnodes", "tokens"):
            first, second = Ring(placement), Ring(placement)
            for name in one:
                first = first.apply({name: one[name]})
            for name in other:
                second = second.apply({name: other[name]})
            self.assertEqual(first.fingerprint(), second.fingerprint())
            self.assertIs(first.apply({"a": {"tokens": (1,)}}), first)


if __name__ == "__main__":
    unittest.main()
