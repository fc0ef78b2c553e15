"""Reference model of chash's published rules: where keys and points lie, who owns them, what moves.

Written to be read, not to be fast: everything that another program must compute to agree with the
extension is here, by the most direct method.  Hash xxh3; placements vnodes, partitions and tokens.
Needs Python 3.9 and the xxhash package.

A Ring is never changed: `apply` returns the next version of it, so that keeping a ring's history means
keeping the versions.  Weights are integers, in thousandths.  Names are ordered by their UTF-8 bytes; that
is the order of their code points, in which Python compares str, so plain sorting and comparing are right.
"""
import bisect
import heapq
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple, Optional

import xxhash

LO, HI, CIRCLE = -2**63, 2**63 - 1, 2**64       # lowest and highest position, number of positions


def position(key):
    """Position of a key or point: XXH3_64bits of the bytes, without seed, read as signed."""
    h = xxhash.xxh3_64_intdigest(key)
    return h - CIRCLE if h > HI else h


def key_bytes(key):
    """What is hashed of a key: bytes as they are, anything else as its text in UTF-8."""
    return bytes(key) if isinstance(key, (bytes, bytearray)) else str(key).encode("utf-8")


def hash_tag(key):
    """What stands between the first { and the next }, if that is not empty; otherwise the whole key."""
    start = key.find(b"{")
    end = key.find(b"}", start + 1) if start >= 0 else -1
    return key[start + 1:end] if end > start + 1 else key


class Node(NamedTuple):
    name: str
    weight: int = 1000                  # thousandths; 0 holds nothing
    zone: Optional[str] = None
    up: bool = True
    tokens: tuple = ()                  # placement tokens: ascending
    held: tuple = ()                    # placement partitions: numbers of the partitions held, ascending


# ---- placement: from nodes to points -------------------------------------------------------------------

def vnode_count(vnodes, weight):
    """Points of a node: vnodes * weight, halves rounded up, at least one; none for weight 0."""
    return max(1, (vnodes * weight + 500) // 1000) if weight > 0 else 0


@lru_cache(maxsize=4096)
def vnode_positions(name, count):
    return [position(f"{name}#{i}".encode("utf-8")) for i in range(count)]


def quotas(partitions, weights):
    """How many partitions each node should hold, from {name: weight}: Webster's divisor method.

    Each node of weight > 0 starts with one seat; each further seat goes to the node with the largest
    weight / (2 * seats + 1), the smaller name if equal.  The quotients are compared as integers:
    weight * 2**64 // (2 * seats + 1).  That is exact, since quotients that differ at all differ by more
    than 2**-44 (no divisor exceeds 2**21 + 1) and so, times 2**64, by more than the rounding.
    """
    seats = {name: 1 if weight > 0 else 0 for name, weight in weights.items()}
    free = partitions - sum(seats.values())
    if free < 0:
        raise ValueError("more nodes than partitions")
    heap = [(-((weights[name] << 64) // 3), name) for name in seats if seats[name]]
    heapq.heapify(heap)
    while free > 0 and heap:
        name = heap[0][1]
        seats[name] += 1
        free -= 1
        heapq.heapreplace(heap, (-((weights[name] << 64) // (2 * seats[name] + 1)), name))
    return seats


@lru_cache(maxsize=None)
def scatter_rank(partitions):
    """rank[k]: place of partition k in scatter order, which is by (unsigned XXH3 of its decimal number, number)."""
    rank = [0] * partitions
    order = sorted(range(partitions), key=lambda k: (xxhash.xxh3_64_intdigest(str(k).encode()), k))
    for place, k in enumerate(order):
        rank[k] = place
    return rank


def deal_partitions(partitions, nodes):
    """{name: sorted partitions held} after a change, from {name: Node} with what each held before it."""
    rank = scatter_rank(partitions)
    quota = quotas(partitions, {name: node.weight for name, node in nodes.items()})
    held = {}
    for name, node in nodes.items():
        surplus = max(0, len(node.held) - quota[name])
        held[name] = sorted(node.held, key=rank.__getitem__)[surplus:]
    kept = set().union(*held.values())
    free = sorted((k for k in range(partitions) if k not in kept), key=rank.__getitem__)
    for name in sorted(nodes):
        deficit = quota[name] - len(held[name])
        held[name] += free[:deficit]
        free = free[deficit:]
    return {name: tuple(sorted(ks)) for name, ks in held.items()}


# ---- rings ---------------------------------------------------------------------------------------------

class Ring:
    def __init__(self, placement="vnodes", vnodes=256, partitions=16384, hash_tags=False, nodes=None):
        self.placement, self.vnodes, self.partitions, self.hash_tags = placement, vnodes, partitions, hash_tags
        self.nodes = nodes or {}                        # {name: Node}

    def apply(self, changes):
        """The next version of the ring: {name: None} removes a node, {name: {field: value}} adds or changes
        one.  The ring itself if nothing differs (no new epoch).  ValueError: more nodes than partitions."""
        nodes = dict(self.nodes)
        for name, fields in changes.items():
            if fields is None:
                del nodes[name]
            else:
                node = nodes.get(name, Node(name))._replace(**fields)
                nodes[name] = node._replace(tokens=tuple(sorted(node.tokens)))
        if nodes == self.nodes:
            return self
        if self.placement == "partitions":
            held = deal_partitions(self.partitions, nodes)
            nodes = {name: node._replace(held=held[name]) for name, node in nodes.items()}
        return Ring(self.placement, self.vnodes, self.partitions, self.hash_tags, nodes)

    @cached_property
    def points(self):
        """Every point as (position, node name), in the order of the circle, at one position by name."""
        points = []
        for name, node in self.nodes.items():
            if node.weight == 0:
                continue
            if self.placement == "vnodes":
                where = vnode_positions(name, vnode_count(self.vnodes, node.weight))
            elif self.placement == "tokens":
                where = node.tokens
            else:                                       # the last position of each partition held
                where = [LO + (k + 1) * CIRCLE // self.partitions - 1 for k in node.held]
            points += [(p, name) for p in where]
        return sorted(points)

    @cached_property
    def _positions(self):
        return [p for p, _ in self.points]

    @cached_property
    def _names(self):
        return [name for _, name in self.points]

    @cached_property
    def _met(self):
        return {}                                       # memory of met()

    def key_position(self, key):
        key = key_bytes(key)
        return position(hash_tag(key) if self.hash_tags else key)

    def point_at(self, p):
        """Index of the first point at or after position p, wrapping to the lowest."""
        i = bisect.bisect_left(self._positions, p)
        return i if i < len(self.points) else 0

    def owner(self, p):
        """Owner of a position whether up or down; None if the ring has no points."""
        return self._names[self.point_at(p)] if self.points else None

    def met(self, i):
        """The distinct nodes in the order met when walking clockwise from point i."""
        if i not in self._met:
            wanted = sum(node.weight > 0 for node in self.nodes.values())
            order = {}
            for name in chain(self._names[i:], self._names[:i]):
                order[name] = None
                if len(order) == wanted:
                    break
            self._met[i] = list(order)
        return self._met[i]

    def replicas(self, p, n, live=True):
        """The first n nodes from position p: first the first-met node of each zone, then the second-met of
        each, and so on.  Nodes without a zone are one zone together.  With live, nodes marked down are passed over."""
        if not self.points:
            return []
        if n == 1 and not live:
            return [self.owner(p)]
        met = [name for name in self.met(self.point_at(p)) if self.nodes[name].up or not live]
        rounds, taken = [], {}
        for name in met:
            zone = self.nodes[name].zone
            rounds.append(taken.get(zone, 0))           # how many of its zone were met before it
            taken[zone] = rounds[-1] + 1
        return [met[i] for i in sorted(range(len(met)), key=lambda i: (rounds[i], i))][:n]

    def node_at(self, p):
        """What a lookup gives: the owner, or the next live node clockwise.  None: there is none."""
        return next(iter(self.replicas(p, 1)), None)

    def ranges(self):
        """[(lo, hi, node)]: what each node owns, neighbours of one owner merged, from LO to HI."""
        rows = []
        for lo, hi in segments(self):
            owner = self.owner(lo)
            if owner is None:
                continue
            if rows and rows[-1][2] == owner:
                rows[-1] = (rows[-1][0], hi, owner)
            else:
                rows.append((lo, hi, owner))
        return rows

    def balance(self):
        """{name: (points, share, expected, ratio)}; ratio None where nothing is expected."""
        total = sum(node.weight for node in self.nodes.values())
        points = dict.fromkeys(self.nodes, 0)
        owned = dict.fromkeys(self.nodes, 0)
        for name in self._names:
            points[name] += 1
        for lo, hi, name in self.ranges():
            owned[name] += hi - lo + 1
        rows = {}
        for name, node in self.nodes.items():
            share, expected = owned[name] / CIRCLE, node.weight / total if total else 0.0
            rows[name] = (points[name], share, expected, share / expected if expected else None)
        return rows

    def fingerprint(self):
        """XXH3_128bits, in hexadecimal, of the text that says everything that decides ownership."""
        lines = [["chash", "1", self.placement, "xxh3",
                  str(self.vnodes) if self.placement == "vnodes" else "-",
                  str(self.partitions) if self.placement == "partitions" else "-",
                  "1" if self.hash_tags else "0"]]
        for name in sorted(self.nodes):
            node = self.nodes[name]
            lines.append(["node", name, str(node.weight), node.zone or ""])
            if self.placement == "tokens":
                lines.append(["tokens", *map(str, node.tokens)])
            elif self.placement == "partitions":
                lines.append(["partitions", *map(str, node.held)])
        text = "".join("\t".join(line) + "\n" for line in lines)
        return xxhash.xxh3_128_hexdigest(text.encode("utf-8"))


# ---- plans: the difference of two rings ----------------------------------------------------------------

def segments(*rings):
    """The circle cut after every point of the rings: [(lo, hi)], within each of which nothing changes."""
    ends = sorted({p for ring in rings for p in ring._positions} | {HI})
    return zip([LO] + [end + 1 for end in ends[:-1]], ends)


def moves(before, after):
    """[(from, to)] that turn one list of replicas into another: those who join are paired with those who
    leave, in order; a joiner left over copies from the first holder, a leaver left over has to None."""
    join = [name for name in after if name not in before]
    leave = [name for name in before if name not in after]
    pairs = [(leave[i] if i < len(leave) else before[0] if before else None, name) for i, name in enumerate(join)]
    return pairs + [(name, None) for name in leave[len(join):]]


def plan(old, new, n=1):
    """[(lo, hi, from, to)] by lo: what moves between two rings that keep n replicas, up or down alike."""
    rows, last = [], {}                                 # last: (from, to) -> index of its latest row
    for lo, hi in segments(old, new):
        for pair in moves(old.replicas(lo, n, live=False), new.replicas(lo, n, live=False)):
            i = last.get(pair)
            if i is not None and rows[i][1] == lo - 1:
                rows[i] = (rows[i][0], hi, *pair)
            else:
                last[pair] = len(rows)
                rows.append((lo, hi, *pair))
    return rows
