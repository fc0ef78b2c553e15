"""Random statements that change rings, simple ones and nested ones, each with what it should do.

A statement's ops say what becomes of the rings, as a model: each takes a world, {ring: Content}, and changes
it, or raises Fails with the SQLSTATEs that the statement may end with.  Where parts of a statement get into each
other's way, its ops are None: it does something, and only the record of epochs says whether that was right.
"""
import json
from dataclasses import dataclass, field, replace
from typing import Optional

from record import ROUTED, Settings

RINGS = ["r1", "r2", "r3", "r4", "r5"]
NODES = ["a", "b", "c", "d", "e", "f"]
WEIGHTS = [0, 250, 500, 1000, 1000, 2000, 3125]
ZONES = [None, None, "x", "y"]
INFOS = [None, {"i": 1}, {"i": 2}]
PLACEMENTS = ["vnodes", "vnodes", "partitions", "partitions", "tokens"]
FILES = "SELECT " + ", ".join(f"pg_relation_filenode('public.{table}')" for table in ("chash_rings", "chash_nodes", "chash_node_history"))
TRIGGERS = ["a_before", "z_before", "a_after", "z_after"]


class Fails(Exception):
    pass


@dataclass
class Content:
    """What those who change a ring decide of it.  nodes: {name: (weight, zone, state, tokens, info)}"""
    settings: Settings
    replicas: int
    nodes: dict


def content_of(ring):
    return Content(ring.settings, ring.replicas, {name: row.given for name, row in ring.nodes.items()})


@dataclass
class Op:
    targets: set                # (ring, node) or (ring, "*")
    run: callable               # world -> number of rows


@dataclass
class Statement:
    sql: str
    kind: str
    ops: Optional[list] = field(default_factory=list)
    touches: dict = field(default_factory=dict)         # {ring: the most epochs that it may make of it}
    parts: list = field(default_factory=list)           # kinds of the statements in it
    nested: bool = False                                # looks in the middle
    completes: bool = False                             # may make epochs that nobody can see
    before: list = field(default_factory=list)          # settings to be made before it, and taken back after it
    after: list = field(default_factory=list)
    looks_up: list = field(default_factory=list)        # (number of a key, ring): what each of its rows has
    returns: Optional[str] = None                       # the ring whose epoch it returns
    on_nodes: bool = False                              # direct DML on chash_nodes
    exclusive: bool = False                             # takes ACCESS EXCLUSIVE
    alone: bool = False                                 # not in a transaction block
    control: bool = False
    past: Optional[tuple] = None                        # (ring, epoch) or (ring, epoch, epoch): asks for these
    looks_back: Optional[tuple] = None                  # (number of a key, epoch, ring): what each of its rows has
    prunes: Optional[tuple] = None                      # (ring, epochs to keep)
    isolation: Optional[str] = None                     # of the transaction that it begins
    savepoint: Optional[str] = None
    limit: int = 0                                      # for how long the transaction waits for locks


def lit(value):
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return "'{" + ",".join(map(str, value)) + "}'::bigint[]"
    if isinstance(value, dict):
        return "'" + json.dumps(value) + "'::jsonb"
    return str(value) if isinstance(value, int) else "'" + value + "'"


def quoted(sql):
    """A statement as a literal, however deep in others it is."""
    depth = 1
    while f"$q{depth}$" in sql:
        depth += 1
    return f"$q{depth}${sql}$q{depth}$"


def decimal(weight):
    return f"{weight / 1000:g}"


# ---- what statements do, in the model ------------------------------------------------------------------

def ring_in(world, ring):
    if ring not in world:
        raise Fails("42704")
    return world[ring].nodes


def node_in(world, ring, node):
    nodes = ring_in(world, ring)
    if node not in nodes:
        raise Fails("42704")
    return nodes[node]


def changed(content, row, fields):
    named = dict(zip(("weight", "zone", "state", "tokens", "info"), row))
    named.update(fields)
    if (named["tokens"] is not None) != (content.settings.placement == "tokens"):
        raise Fails("22023")
    return tuple(named.values())


def new_row(content, fields):
    return changed(content, (1000, None, "up", None, "null"), fields)


def add_op(ring, node, fields, duplicate):
    def run(world):
        nodes = ring_in(world, ring)
        if node in nodes:
            raise Fails(*duplicate)
        nodes[node] = new_row(world[ring], fields)
        return 1
    return Op({(ring, node)}, run)


def upsert_op(ring, node, fields, or_else):
    """INSERT of a node, or what is done if it exists: or_else, which may be nothing."""
    def run(world):
        nodes = ring_in(world, ring)
        if node not in nodes:
            nodes[node] = new_row(world[ring], fields)
        elif or_else is None:
            return 0
        else:
            nodes[node] = changed(world[ring], nodes[node], or_else)
        return 1
    return Op({(ring, node)}, run)


def set_op(ring, node, fields):
    def run(world):
        row = node_in(world, ring, node)
        world[ring].nodes[node] = changed(world[ring], row, fields)
        return 1
    return Op({(ring, node)}, run)


def remove_op(ring, node):
    def run(world):
        node_in(world, ring, node)
        del world[ring].nodes[node]
        return 1
    return Op({(ring, node)}, run)


def update_op(ring, names, fields):
    """Direct UPDATE of some nodes of a ring; of all, without names."""
    def run(world):
        nodes = world[ring].nodes if ring in world else {}
        found = [name for name in nodes if names is None or name in names]
        for name in found:
            nodes[name] = changed(world[ring], nodes[name], fields)
        return len(found)
    return Op({(ring, name) for name in names or ["*"]}, run)


def delete_op(ring, names):
    def run(world):
        nodes = world[ring].nodes if ring in world else {}
        found = [name for name in nodes if names is None or name in names]
        for name in found:
            del nodes[name]
        return len(found)
    return Op({(ring, name) for name in names or ["*"]}, run)


def merge_op(ring, node, fields, gone):
    def run(world):
        nodes = world[ring].nodes if ring in world else {}
        if node in nodes and gone:
            del nodes[node]
            return 1
        return upsert_op(ring, node, fields, {"weight": fields["weight"]}).run(world)
    return Op({(ring, node)}, run)


def replicas_op(ring, number):
    def run(world):
        if ring not in world:
            return 0
        world[ring].replicas = number
        return 1
    return Op({(ring, "replicas")}, run)


def create_op(ring, settings, replicas, duplicate):
    def run(world):
        if ring in world:
            raise Fails(*duplicate)
        world[ring] = Content(settings, replicas, {})
        return 1
    return Op({(ring, "*")}, run)


def drop_op(ring, must_exist):
    def run(world):
        if ring in world:
            del world[ring]
            return 1
        if must_exist:
            raise Fails("42704")
        return 0
    return Op({(ring, "*")}, run)


def copy_op(source, target):
    def run(world):
        ring_in(world, source)
        if target in world:
            raise Fails("42710")
        world[target] = replace(world[source], nodes=dict(world[source].nodes))
        return 1
    return Op({(source, "*"), (target, "*")}, run)


def prune_op(ring):
    def run(world):
        ring_in(world, ring)
        return 1
    return Op(set(), run)


def nested_op(outer, inner):
    """The inner ops happen if the outer ones concern any row."""
    def run(world):
        rows = sum([op.run(world) for op in outer])
        if rows > 0:
            for op in inner:
                op.run(world)
        return rows
    return Op(targets(outer) | targets(inner), run)


def attempt_op(inner):
    """The inner ops happen together, or not at all."""
    def run(world):
        saved = {ring: replace(content, nodes=dict(content.nodes)) for ring, content in world.items()}
        try:
            for op in inner:
                op.run(world)
        except Fails:
            world.clear()
            world.update(saved)
        return 1
    return Op(targets(inner), run)


def targets(ops):
    return set().union(*(op.targets for op in ops))


def in_the_way(one, other):
    """Do two sets of ops concern the same rows, or one the ring that holds those of the other?"""
    return any(a[0] == b[0] and (a[1] == b[1] or "*" in (a[1], b[1])) for a in targets(one) for b in targets(other))


# ---- the statements ------------------------------------------------------------------------------------

class Grammar:
    def __init__(self, rng, triggers, without=()):
        self.rng, self.triggers, self.without, self.serial = rng, triggers, without, 0

    # What a statement is about.  Sometimes it is about a ring or a node that is not there.

    def ring(self, view):
        present = sorted(view)
        return self.rng.choice(present) if present and self.rng.random() < 0.97 else self.rng.choice(RINGS)

    def node(self, view, ring):
        present = sorted(view[ring].nodes) if ring in view else []
        return self.rng.choice(present) if present and self.rng.random() < 0.93 else self.rng.choice(NODES)

    def new_node(self, view, ring):
        absent = [name for name in NODES if ring not in view or name not in view[ring].nodes]
        return self.rng.choice(absent) if absent and self.rng.random() < 0.93 else self.rng.choice(NODES)

    def some(self, names):
        return sorted(self.rng.sample(names, self.rng.randint(1, min(3, len(names)))))

    def fields(self, view, ring, whole=False):
        """Random values of some columns of a node; of all that it must have."""
        rng, fields = self.rng, {}
        given = ring in view and view[ring].settings.placement == "tokens"
        if whole or rng.random() < 0.6:
            fields["weight"] = rng.choice(WEIGHTS)
        if rng.random() < 0.25:
            fields["zone"] = rng.choice(ZONES)
        if given and (whole or rng.random() < 0.3):
            fields["tokens"] = tuple(sorted(rng.randint(-2**63, 2**63 - 1) for _ in range(rng.randint(1, 3))))
        if rng.random() < 0.2:
            fields["state"] = rng.choice(["up", "down"])
        if not fields or rng.random() < 0.1:
            fields["info"] = json.dumps(rng.choice(INFOS[1:]))
        return fields

    @staticmethod
    def column(name, value):
        if name == "weight":
            return decimal(value)
        if name == "info":
            return lit(json.loads(value))
        return lit(value)

    def assignments(self, fields):
        return ", ".join(f"{name} = {self.column(name, value)}" for name, value in fields.items())

    # Functions of chash

    def add(self, view):
        ring = self.ring(view)
        node, fields = self.new_node(view, ring), self.fields(view, ring, True)
        fields.pop("state", None)
        arguments = "".join(f", {name} => {self.column(name, value)}" for name, value in fields.items())
        return Statement(f"SELECT public.chash_add_node('{node}', '{ring}'{arguments})", "chash_add_node",
                         [add_op(ring, node, fields, ["42710"])], {ring: 1}, returns=ring)

    def set(self, view):
        ring = self.ring(view)
        node, fields = self.node(view, ring), self.fields(view, ring)
        fields.pop("state", None)
        fields = {name: value for name, value in fields.items() if value is not None}
        arguments = "".join(f", {name} => {self.column(name, value)}" for name, value in fields.items())
        return Statement(f"SELECT public.chash_set_node('{node}', '{ring}'{arguments})", "chash_set_node",
                         [set_op(ring, node, fields)], {ring: 1}, returns=ring)

    def remove(self, view):
        ring = self.ring(view)
        node = self.node(view, ring)
        return Statement(f"SELECT public.chash_remove_node('{node}', '{ring}')", "chash_remove_node",
                         [remove_op(ring, node)], {ring: 1}, returns=ring)

    def mark(self, view):
        ring, state = self.ring(view), self.rng.choice(["up", "down"])
        node = self.node(view, ring)
        return Statement(f"SELECT public.chash_mark_{state}('{node}', '{ring}')", f"chash_mark_{state}",
                         [set_op(ring, node, {"state": state})], {ring: 1}, returns=ring)

    def apply(self, view):
        ring = self.ring(view)
        changes, ops = {}, []
        for node in self.some(NODES):
            exists = ring in view and node in view[ring].nodes
            if exists and self.rng.random() < 0.3:
                changes[node] = None
                ops.append(remove_op(ring, node))
            else:
                fields = self.fields(view, ring, not exists)
                changes[node] = {name: json.loads(value) if name == "info" else value / 1000 if name == "weight" else value
                                 for name, value in fields.items()}
                ops.append(upsert_op(ring, node, fields, fields))
        return Statement(f"SELECT public.chash_apply({lit(changes)}, '{ring}')", "chash_apply", ops, {ring: 1}, returns=ring)

    def settings(self):
        placement = self.rng.choice(PLACEMENTS)
        return Settings(placement, 8 if placement == "vnodes" else None, 16 if placement == "partitions" else None, self.rng.random() < 0.3)

    def absent_ring(self, view):
        absent = [ring for ring in RINGS if ring not in view]
        return self.rng.choice(absent) if absent and self.rng.random() < 0.95 else self.rng.choice(RINGS)

    def create(self, view):
        ring, settings, replicas = self.absent_ring(view), self.settings(), self.rng.randint(1, 3)
        return Statement(f"SELECT public.chash_create_ring('{ring}', '{settings.placement}', vnodes => {lit(settings.vnodes)}, "
                         f"partitions => {lit(settings.partitions)}, hash_tags => {settings.hash_tags}, replicas => {replicas})",
                         "chash_create_ring", [create_op(ring, settings, replicas, ["42710"])], {ring: 1}, returns=ring)

    def drop(self, view):
        ring = self.ring(view)
        return Statement(f"SELECT public.chash_drop_ring('{ring}')", "chash_drop_ring", [drop_op(ring, True)], {ring: 0})

    def copy(self, view):
        source, target = self.ring(view), self.absent_ring(view)
        if self.rng.random() < 0.5:
            return Statement(f"SELECT public.chash_copy_ring('{source}', '{target}')", "chash_copy_ring",
                             [copy_op(source, target)], {target: 1}, returns=target)
        return Statement(f"SELECT public.chash_import(public.chash_export('{source}'), '{target}')", "chash_import",
                         [copy_op(source, target)], {target: 1}, returns=target)

    def prune(self, view):
        ring, keep = self.ring(view), self.rng.randint(0, 12)
        return Statement(f"SELECT public.chash_prune_history('{ring}', {keep})", "chash_prune_history", [prune_op(ring)], {ring: 0}, prunes=(ring, keep))

    # Direct changes

    def values(self, view, ring, names):
        """Rows for an INSERT into chash_nodes: their text, and their fields by node."""
        rows, fields = [], {}
        for node in names:
            fields[node] = row = self.fields(view, ring, True)
            row.pop("info", None)
            rows.append(f"('{ring}', '{node}', {decimal(row['weight'])}, {lit(row.get('zone'))}, {lit(row.get('state', 'up'))}, {lit(row.get('tokens'))})")
        return rows, fields

    def new_names(self, view, ring):
        absent = [name for name in NODES if ring not in view or name not in view[ring].nodes]
        return self.some(absent if absent and self.rng.random() < 0.95 else NODES)

    COLUMNS = "ring, node, weight, zone, state, tokens"

    def insert(self, view):
        rings = {self.ring(view), self.ring(view)} if self.rng.random() < 0.3 else {self.ring(view)}
        rows, ops = [], []
        for ring in sorted(rings):
            more, fields = self.values(view, ring, self.new_names(view, ring))
            rows += more
            ops += [add_op(ring, node, fields[node], ["23505"]) for node in fields]
        self.rng.shuffle(rows)
        return Statement(f"INSERT INTO public.chash_nodes ({self.COLUMNS}) VALUES {', '.join(rows)}", "INSERT",
                         ops, dict.fromkeys(rings, 1), on_nodes=True)

    def upsert(self, view):
        ring = self.ring(view)
        rows, fields = self.values(view, ring, self.some(NODES))
        sql = f"INSERT INTO public.chash_nodes ({self.COLUMNS}) VALUES {', '.join(rows)} ON CONFLICT (ring, node) DO "
        if self.rng.random() < 0.3:
            return Statement(sql + "NOTHING", "INSERT ON CONFLICT DO NOTHING", [upsert_op(ring, node, fields[node], None) for node in fields],
                             {ring: 1})
        return Statement(sql + "UPDATE SET weight = excluded.weight", "INSERT ON CONFLICT DO UPDATE",
                         [upsert_op(ring, node, fields[node], {"weight": fields[node]["weight"]}) for node in fields], {ring: 1})

    def update(self, view):
        ring = self.ring(view)
        fields = self.fields(view, ring)
        if self.rng.random() < 0.15:
            fields.pop("tokens", None)
            fields["weight"] = self.rng.choice(WEIGHTS)
            node = self.rng.choice(NODES)
            return Statement(f"UPDATE public.chash_nodes SET {self.assignments(fields)} WHERE node = '{node}'", "UPDATE of several rings",
                             [update_op(some, [node], fields) for some in view], dict.fromkeys(RINGS, 1), on_nodes=True)
        if self.rng.random() < 0.4:
            return Statement(f"UPDATE public.chash_nodes SET {self.assignments(fields)} WHERE ring = '{ring}'", "UPDATE of all nodes",
                             [update_op(ring, None, fields)], {ring: 1}, on_nodes=True)
        names = [self.node(view, ring)] if self.rng.random() < 0.6 else self.some(NODES)
        return Statement(f"UPDATE public.chash_nodes SET {self.assignments(fields)} WHERE ring = '{ring}' AND node IN ({', '.join(map(lit, names))})",
                         "UPDATE", [update_op(ring, names, fields)], {ring: 1}, on_nodes=True)

    def update_nothing(self, view):
        ring = self.ring(view)
        return Statement(f"UPDATE public.chash_nodes SET weight = weight, state = state WHERE ring = '{ring}'", "UPDATE of nothing",
                         [update_op(ring, None, {})], {ring: 0}, on_nodes=True)

    def delete(self, view):
        ring = self.ring(view)
        if self.rng.random() < 0.1:
            return Statement(f"DELETE FROM public.chash_nodes WHERE ring = '{ring}'", "DELETE of all nodes",
                             [delete_op(ring, None)], {ring: 1}, on_nodes=True)
        names = [self.node(view, ring)] if self.rng.random() < 0.7 else self.some(NODES)
        return Statement(f"DELETE FROM public.chash_nodes WHERE ring = '{ring}' AND node IN ({', '.join(map(lit, names))})", "DELETE",
                         [delete_op(ring, names)], {ring: 1}, on_nodes=True)

    def merge(self, view):
        """Existing nodes of the source are deleted or updated, the others inserted."""
        ring = self.ring(view)
        rows, ops = [], []
        for node in self.some(NODES):
            fields = self.fields(view, ring, True)
            fields = {name: value for name, value in fields.items() if name in ("weight", "tokens")}
            gone = self.rng.random() < 0.3
            rows.append(f"('{node}', {decimal(fields['weight'])}, {lit(fields.get('tokens'))}, {gone})")
            ops.append(merge_op(ring, node, fields, gone))
        return Statement(f"MERGE INTO public.chash_nodes AS n USING (VALUES {', '.join(rows)}) AS s (node, weight, tokens, gone) "
                         f"ON n.ring = '{ring}' AND n.node = s.node WHEN MATCHED AND gone THEN DELETE WHEN MATCHED THEN UPDATE SET weight = s.weight "
                         f"WHEN NOT MATCHED THEN INSERT (ring, node, weight, tokens) VALUES ('{ring}', s.node, s.weight, s.tokens::bigint[])",
                         "MERGE", ops, {ring: 1})

    def replicas(self, view):
        ring, number = self.ring(view), self.rng.randint(1, 3)
        return Statement(f"UPDATE public.chash_rings SET replicas = {number} WHERE ring = '{ring}'", "UPDATE of chash_rings",
                         [replicas_op(ring, number)], {ring: 1})

    def create_row(self, view):
        ring, settings, replicas = self.absent_ring(view), self.settings(), self.rng.randint(1, 3)
        return Statement(f"INSERT INTO public.chash_rings (ring, placement, vnodes, partitions, hash_tags, replicas) VALUES ('{ring}', "
                         f"'{settings.placement}', {lit(settings.vnodes)}, {lit(settings.partitions)}, {settings.hash_tags}, {replicas})",
                         "INSERT into chash_rings", [create_op(ring, settings, replicas, ["23505"])], {ring: 1})

    def drop_row(self, view):
        ring = self.ring(view)
        return Statement(f"DELETE FROM public.chash_rings WHERE ring = '{ring}'", "DELETE from chash_rings", [drop_op(ring, False)], {ring: 0})

    # Statements within statements

    def pick(self, ways):
        """One of several (weight, method)."""
        ways = [(weight, way) for weight, way in ways if way.__name__ not in self.without]
        return self.rng.choices([way for _, way in ways], [weight for weight, _ in ways])[0]

    def returnable(self, view):
        return self.pick([(6, self.update), (2, self.update_nothing), (4, self.insert), (2, self.upsert), (4, self.delete), (2, self.replicas),
                          (0.4, self.create_row_within), (0.3, self.drop_row_within)])(view)

    def create_row_within(self, view):
        return self.create_row(view)

    def drop_row_within(self, view):
        return self.drop_row(view)

    def part(self, view, depth):
        """What is run within another statement."""
        if depth < 2 and self.rng.random() < 0.25:
            return self.pick([(2, self.cte), (2, self.in_returning), (2, self.attempt), (1, self.in_where)])(view, depth + 1)
        return self.pick([(3, self.add), (3, self.set), (2, self.remove), (2, self.mark), (3, self.apply), (2, self.insert), (2, self.upsert),
                          (4, self.update), (1, self.update_nothing), (3, self.delete), (1, self.merge), (2, self.replicas), (0.4, self.prune),
                          (0.8, self.create_within), (0.7, self.drop_within), (0.4, self.copy_within)])(view)

    def create_within(self, view):
        return self.pick([(5, self.create), (3, self.create_row)])(view)

    def drop_within(self, view):
        return self.pick([(4, self.drop), (3, self.drop_row)])(view)

    def copy_within(self, view):
        return self.copy(view)

    def number(self):
        self.serial += 1
        return self.serial

    @staticmethod
    def together(*statements):
        """The most epochs that statements make which settle for themselves."""
        touches = {}
        for statement in statements:
            for ring, epochs in statement.touches.items():
                have = touches.get(ring, 0)
                touches[ring] = None if epochs is None or have is None else have + epochs
        return touches

    def call(self, inner):
        """An expression that runs statements once, and gives true."""
        return f"proof.run_once({self.number()}, {', '.join(quoted(statement.sql) for statement in inner)})"

    def inner_statements(self, view, depth):
        return [self.part(view, depth) for _ in range(1 if self.rng.random() < 0.7 else 2)]

    @staticmethod
    def ops_of(statements):
        ops = []
        for i, statement in enumerate(statements):
            if statement.ops is None or any(in_the_way(statement.ops, other.ops) for other in statements[:i] if other.ops):
                return None
            ops += statement.ops
        return ops

    def compound(self, kind, sql, outer, inner, settles_with):
        """A statement with others in it.  settles_with: whether those are run after it has touched its ring."""
        ops = self.ops_of(inner)
        if ops is not None and outer.ops is not None and not in_the_way(outer.ops, ops):
            ops = [nested_op(outer.ops, ops)]
        else:
            ops = None
        touches = self.together(outer, *inner)
        if settles_with and len(outer.touches) == 1:
            touches.update(outer.touches)
            if outer.touches and list(outer.touches.values())[0] == 0 and any(ring in statement.touches for statement in inner for ring in outer.touches):
                touches[list(outer.touches)[0]] = 1
        return Statement(sql, kind, ops, touches, nested=True, parts=[outer, *inner])

    def cte(self, view, depth=0):
        """Several changes in one statement, all of which see what was before it."""
        parts = [self.returnable(view) for _ in range(self.rng.randint(2, 3))]
        calls, inner = [], []
        for i, part in enumerate(parts):
            if self.rng.random() < 0.2:
                more = self.inner_statements(view, depth + 1)
                inner += more
                calls.append(self.call(more))
            else:
                calls.append("true")
        names = [f"w{i}" for i in range(len(parts))]
        ctes = ", ".join(f"{name} AS ({part.sql} RETURNING {call})" for name, part, call in zip(names, parts, calls))
        end = self.rng.random()
        if end < 0.4:
            sql = f"WITH {ctes} SELECT count(*) FROM " + ", ".join(self.rng.sample(names, self.rng.randint(1, len(names))))
        elif end < 0.6:
            sql = f"WITH {ctes} SELECT 1"
        else:
            last = self.returnable(view)
            parts.append(last)
            sql = f"WITH {ctes} {last.sql}"
        ops = None if inner else self.ops_of(parts)
        touches = {ring: 1 for part in parts for ring in part.touches}
        if inner:
            touches = self.together(Statement("", "", touches=touches), *inner)
        # (A ring that goes and comes in one statement has had its first epoch when it gets others.)
        for part in parts:
            if part.kind in ("INSERT into chash_rings", "DELETE from chash_rings"):
                touches.update(dict.fromkeys(part.touches))
        return Statement(sql, "WITH", ops, touches, nested=bool(inner), parts=parts + inner)

    def in_returning(self, view, depth=0):
        outer, inner = self.returnable(view), self.inner_statements(view, depth)
        return self.compound("RETURNING", f"{outer.sql} RETURNING {self.call(inner)}", outer, inner, outer.kind != "INSERT into chash_rings")

    def in_where(self, view, depth=0):
        outer = self.update(view)
        inner = self.inner_statements(view, depth)
        return self.compound("WHERE", f"{outer.sql} AND {self.call(inner)}", outer, inner, False)

    def in_select(self, view, depth=0):
        inner = self.inner_statements(view, depth)
        return Statement(f"SELECT proof.run({', '.join(quoted(statement.sql) for statement in inner)})", "SELECT", self.in_order(inner),
                         self.together(*inner), nested=True, parts=inner)

    @staticmethod
    def in_order(statements):
        """Ops of statements that run one after another."""
        return None if any(statement.ops is None for statement in statements) else [op for statement in statements for op in statement.ops]

    def attempt(self, view, depth=0):
        """In an exception block, at the end of which an error may be raised."""
        inner, fail = self.inner_statements(view, depth), self.rng.random() < 0.6
        ops = self.in_order(inner)
        return Statement(f"SELECT proof.attempt({fail}, {', '.join(quoted(statement.sql) for statement in inner)})", "exception block",
                         [] if fail else None if ops is None else [attempt_op(ops)],
                         {ring: 0 for ring in self.together(*inner)} if fail else self.together(*inner), nested=True, parts=inner)

    def in_trigger(self, view, depth=0):
        """The owner's trigger does something more, when the first row is changed."""
        outer = self.pick([(3, self.update), (2, self.insert), (2, self.delete), (1, self.upsert), (1, self.merge), (2, self.apply), (1, self.add),
                           (1, self.remove), (1, self.set)])(view)
        inner, trigger = self.part(view, depth), self.rng.choice(TRIGGERS)
        statement = self.compound("trigger " + trigger, outer.sql, outer, [inner], trigger != "a_before")
        rows = self.rng.choice([0, 0, 0, 1, 2])
        if not outer.on_nodes or rows:
            statement.ops = None
        if rows:
            # It may be a row that chash writes, when it completes the change.
            statement.touches, statement.completes = self.together(outer, inner), True
        statement.before = [f"SELECT set_config('proof.{trigger}', {quoted(f'{rows} {inner.sql}')}, false)"]
        statement.after = [f"SELECT set_config('proof.{trigger}', '', false)"]
        return statement

    # Lookups that see what was before the statement

    def look_up(self, view, depth=0):
        ring, key = self.ring(view), self.rng.randrange(len(ROUTED))
        call = f"public.chash_node('{ROUTED[key]}', '{ring}')"
        if self.rng.random() < 0.3:
            change = self.pick([(1, self.add), (1, self.remove), (1, self.set), (1, self.apply)])(view)
            return replace(change, sql=f"{change.sql}, {call}", kind="lookup beside a change", looks_up=[(key, ring)],
                           returns=None, parts=[change])
        outer = self.returnable(view)
        if self.rng.random() < 0.3:
            epoch = self.rng.randint(view[ring].history_from, view[ring].epoch) if ring in view else 1
            return replace(outer, sql=f"{outer.sql} RETURNING public.chash_node_as_of('{ROUTED[key]}', {epoch}, '{ring}')",
                           kind="past epoch in RETURNING", looks_back=(key, epoch, ring), parts=[outer])
        return replace(outer, sql=f"{outer.sql} RETURNING {call}", kind="lookup in RETURNING", looks_up=[(key, ring)], parts=[outer])

    # Past epochs

    def past(self, view, depth=0):
        ring = self.ring(view)
        if ring not in view:
            return self.past_of(ring, 1, 1)
        first, last = view[ring].history_from, view[ring].epoch
        return self.past_of(ring, self.rng.randint(first, last), self.rng.randint(first, last))

    def past_of(self, ring, epoch, other):
        if self.rng.random() < 0.5:
            return Statement(f"SELECT lo, hi, from_node, to_node FROM public.chash_epoch_diff('{ring}', {epoch}, {other}, 1)", "chash_epoch_diff",
                             past=(ring, epoch, other))
        calls = ", ".join(f"public.chash_node_as_of('{key}', {epoch}, '{ring}')" for key in ROUTED)
        return Statement(f"SELECT {calls}", "chash_node_as_of", past=(ring, epoch))

    # What concerns all rings, or none

    def truncate(self, view, depth=0):
        """TRUNCATE, after which the transaction usually makes rings and nodes again."""
        if self.rng.random() < 0.7:
            return Statement("TRUNCATE public.chash_nodes", "TRUNCATE chash_nodes", [delete_op(ring, None) for ring in view], dict.fromkeys(RINGS, 1),
                             exclusive=True, before=[FILES], after=[FILES])
        tables = self.rng.choice(["public.chash_rings", "public.chash_rings, public.chash_nodes",
                                  "public.chash_rings, public.chash_nodes, public.chash_node_history"])
        return Statement(f"TRUNCATE {tables}", "TRUNCATE chash_rings", [drop_op(ring, False) for ring in view], dict.fromkeys(RINGS, 0), exclusive=True,
                         before=[FILES], after=[FILES])

    def rewrite(self, view, depth=0):
        table = self.rng.choice(["chash_nodes", "chash_nodes", "chash_rings", "chash_node_history"])
        return Statement(f"ALTER TABLE public.{table} SET {self.rng.choice(['UNLOGGED', 'LOGGED'])}", "ALTER TABLE", exclusive=True,
                         before=[FILES], after=[FILES])

    def vacuum(self, view, depth=0):
        tables = "public.chash_rings, public.chash_nodes, public.chash_node_history"
        how = self.rng.choice(["VACUUM", "VACUUM", "VACUUM FULL", "CLUSTER"])
        if how == "CLUSTER":
            return Statement("CLUSTER public.chash_nodes USING chash_nodes_pkey", how, alone=True)
        return Statement(f"{how} {tables}", how, alone=True)

    def nothing(self, view, depth=0):
        return Statement(self.rng.choice(["SELECT 1", "SELECT 1", "DISCARD PLANS"]), "nothing")

    def plain(self, view, depth=0):
        return self.pick([(3, self.add), (3, self.set), (2, self.remove), (2, self.mark), (3, self.apply), (3, self.insert), (2, self.upsert),
                          (4, self.update), (1, self.update_nothing), (3, self.delete), (2, self.merge), (2, self.replicas), (2, self.prune),
                          (0.6, self.drop), (0.6, self.drop_row)])(view)

    def statement(self, view, alone):
        """The next statement of a session that sees these rings; alone: outside of a transaction block."""
        rng = self.rng
        if len(view) < len(RINGS) - 1 and rng.random() < 0.5 or len(view) < len(RINGS) and rng.random() < 0.1:
            return self.pick([(3, self.create), (2, self.create_row), (2 if view else 0, self.copy)])(view)
        poor = [ring for ring in sorted(view) if len(view[ring].nodes) < 2]
        if poor and rng.random() < 0.4:
            ring = rng.choice(poor)
            rows, fields = self.values(view, ring, self.new_names(view, ring))
            return Statement(f"INSERT INTO public.chash_nodes ({self.COLUMNS}) VALUES {', '.join(rows)}", "INSERT",
                             [add_op(ring, node, fields[node], ["23505"]) for node in fields], {ring: 1}, on_nodes=True)
        return self.pick([(10, self.plain), (7, self.cte), (6, self.in_returning), (2, self.in_where), (2, self.in_select), (4, self.attempt),
                          (6 if self.triggers else 0, self.in_trigger), (3, self.look_up), (2, self.past), (0.5, self.nothing),
                          (0.3, self.truncate), (0.3, self.rewrite), (0.5 if alone else 0, self.vacuum)])(view, 0)
