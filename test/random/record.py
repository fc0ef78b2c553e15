"""What a ring was seen to be like, whether that is right by the published rules, and the record of all its epochs."""
import json
import os
import sys
from typing import NamedTuple, Optional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))
from chash_model import Node, Ring, deal_partitions, plan  # noqa: E402, F401

ROUTED = ["key 1", "key 2", "key 3", "{tag}4", "{tag}5", "6"]
COPIED = [("key 7", 2), ("8", 3)]


class Difference(Exception):
    """The extension and the model do not agree."""


class Row(NamedTuple):
    """A row of chash_nodes without its name."""
    weight: int                     # thousandths
    zone: Optional[str]
    state: str
    tokens: Optional[tuple]         # ascending
    held: Optional[tuple]
    info: str                       # as JSON text
    epoch: int

    @property
    def content(self):
        return self[:-1]

    @property
    def given(self):
        """What is given by whoever changes the ring: without what chash maintains."""
        return self[:4] + (self.info,)


class Settings(NamedTuple):
    placement: str
    vnodes: Optional[int]
    partitions: Optional[int]
    hash_tags: bool


class Seen:
    """One ring, as a statement has seen it.  incarnation: which of the rings that had its name, if the line does not say."""

    def __init__(self, line, incarnation):
        rows, routes = json.loads(line)
        self.line = line
        self.ring, self.incarnation = rows[0], rows[1] or incarnation
        self.settings = Settings(*rows[2:6])
        self.replicas, self.epoch, self.history_from, self.fingerprint = rows[6:10]
        self.nodes = {}
        for name, weight, zone, state, tokens, held, info, epoch in rows[10] or []:
            self.nodes[name] = Row(round(weight), zone, state, None if tokens is None else tuple(sorted(tokens)),
                                   None if held is None else tuple(held), json.dumps(info), epoch)
        self.routes = routes
        self.model = model_of(self.settings, self.nodes)
        self.misrouted = self._misrouted()
        # What an epoch of the ring is: all but what has epochs of its own, or none.
        self.map = (self.fingerprint, self.nodes, self.routes)
        self.unsettled = self._unsettled()

    def whole(self):
        """Has every partition one owner?"""
        if self.settings.placement != "partitions":
            return True
        if any(row.held and not row.weight for row in self.nodes.values()):
            return False
        held = [k for row in self.nodes.values() for k in row.held or ()]
        wanted = self.settings.partitions if any(row.weight for row in self.nodes.values()) else 0
        return len(held) == len(set(held)) == wanted

    def _misrouted(self):
        """What is wrong with the answers of lookups, given the rows that were seen with them."""
        live = [name for name, row in self.nodes.items() if row.weight > 0 and row.state == "up"]
        if not live:
            return None if self.routes is None else "routes without a live node"
        if not self.whole():
            return None
        ring = self.model
        expected = [ring.node_at(ring.key_position(key)) for key in ROUTED]
        if isinstance(self.routes, str):
            return f"lookups raised {self.routes}" if any(expected) or self.routes[:5] != "55000" else None
        expected += [" ".join(ring.replicas(ring.key_position(key), n)) for key, n in COPIED]
        return None if expected == self.routes else f"lookups gave {self.routes}, by the rows it is {expected}"

    def _unsettled(self):
        """What is not as it must be when no statement is under way."""
        if self.fingerprint != self.model.fingerprint():
            return f"fingerprint {self.fingerprint}, by the rows it is {self.model.fingerprint()}"
        late = [name for name, row in self.nodes.items() if row.epoch > self.epoch]
        if late:
            return f"nodes {late} are of a later epoch than the ring"
        if not 1 <= self.history_from <= self.epoch:
            return f"history from {self.history_from} in epoch {self.epoch}"
        if self.settings.placement == "partitions" and self.whole():
            dealt = deal_partitions(self.settings.partitions, self.model.nodes)
            if any((row.held or ()) != dealt[name] for name, row in self.nodes.items()):
                return "partitions are not held by quota"
        return None if self.whole() else "partitions without one owner each"


def model_of(settings, nodes):
    return Ring(settings.placement, settings.vnodes or 0, settings.partitions or 0, settings.hash_tags,
                {name: Node(name, row.weight, row.zone, row.state == "up", row.tokens or (), row.held or ())
                 for name, row in nodes.items()})


SEEN_KEPT = 20000
_seen = {}


def seen(line, incarnation=None):
    """The same object for the same line: most rings are as they were when last seen."""
    key = (line, incarnation)
    if key not in _seen:
        if len(_seen) >= SEEN_KEPT:
            _seen.clear()
        _seen[key] = Seen(line, incarnation)
    return _seen[key]


class Record:
    """The committed epochs of one ring, an incarnation of it, from the first that was seen."""

    def __init__(self):
        self.epochs, self.first, self.last, self.has_gap = {}, None, None, False
        self.ended = []             # rows of history: (node, from, to, weight, zone, tokens, held)

    def add(self, ring, plain, unseen=False):
        """Takes in what an epoch was like.  Epochs come in order; to see one again is to see the same.
        plain: it was made by one simple change, so that the model can tell who gets which partitions.  unseen: epochs
        before it may have been made that nobody could see; then the record begins anew."""
        epoch = ring.epoch
        known = self.epochs.get(epoch)
        if known is not None:
            if known.map != ring.map:
                raise Difference(f"epoch {epoch} of ring {ring.ring} is no longer what it was:\n  was {known.map}\n  now {ring.map}")
            return
        if self.last is not None and epoch < self.last:
            raise Difference(f"ring {ring.ring} is in epoch {epoch}, after {self.last}")
        if self.last is not None and epoch != self.last + 1 and unseen:
            self.epochs, self.ended, self.last, self.has_gap = {}, [], None, True
        if self.last is not None and epoch != self.last + 1:
            raise Difference(f"epochs {self.last + 1} to {epoch - 1} of ring {ring.ring} were made where none should be")
        if self.last is not None:
            self.follow(self.epochs[self.last], ring, plain)
        else:
            self.first = epoch
        self.epochs[epoch], self.last = ring, epoch

    def follow(self, before, after, plain):
        """Checks that an epoch follows from the one before it, and what that leaves in the history."""
        where = f"ring {after.ring}, epoch {after.epoch}"
        for name, row in after.nodes.items():
            old = before.nodes.get(name)
            same = old is not None and old.content == row.content
            if row.epoch != after.epoch and not (same and row.epoch == old.epoch):
                raise Difference(f"{where}: node {name} says epoch {row.epoch}: {old} became {row}")
        for name, old in before.nodes.items():
            if after.nodes.get(name) != old:
                self.ended.append((name, old.epoch, after.epoch, old.weight, old.zone, old.tokens, old.held))
        if after.settings.placement == "partitions" and plain:
            model = model_of(after.settings, {name: row._replace(held=before.nodes[name].held if name in before.nodes else ())
                                              for name, row in after.nodes.items()})
            dealt = deal_partitions(after.settings.partitions, model.nodes)
            wrong = [name for name, row in after.nodes.items() if (row.held or ()) != dealt[name]]
            if wrong:
                raise Difference(f"{where}: partitions of {wrong} are not those that the model deals:\n  before {before.nodes}\n  after {after.nodes}\n  model {dealt}")

    def history(self, history_from):
        """The rows that chash_node_history must have, of those that ended after this epoch."""
        return sorted(row for row in self.ended if row[2] > history_from)

    def known_from(self, history_from):
        """From where on the record can tell what must be there."""
        return max(history_from, self.first) if self.has_gap else history_from
