"""Sessions change rings by random statements, nested in each other, and all that is seen is compared with a model.

    python3 nested_changes.py [--seed N] [--seconds N] [--transactions N] [--log FILE]

A world is a database with a few rings and some sessions, whose statements are mixed one by one; it lasts for
some hundred transactions.  The model knows which rings each session must see: those that it has changed itself,
and those that were committed when its snapshot was taken.  After each statement

- the session sees just these rings, and those that the statement is about as it should have changed them;
- what lookups say follows from the rows that are seen with them, by the published rules;
- the epochs that were made are as many as they may be, and each follows from the one before it.

What a transaction's epochs were like goes into a record when it commits.  Then another session must see these
rings, their history must be what the record says, and so must what chash_node_as_of and chash_epoch_diff say.

Needs a database of its own.  At the first difference, it prints what the sessions have done and makes the
shortest run of statements of it that shows a difference.  Exit status: 0 no difference, 1 a difference.
"""
import argparse
import random
import re
import sys
import time
from collections import Counter

from grammar import Grammar, Statement
from record import Difference
from sessions import Hangs, Session
from world import COMMIT, ROLLBACK, World

WORLD = 250                                 # transactions in a world
# Methods of Grammar that make or drop rings in the middle of a statement.
REMAKES = {"create_within", "drop_within", "copy_within", "create_row_within", "drop_row_within"}
LEVELS = ["READ COMMITTED"] * 9 + ["REPEATABLE READ"] * 7 + ["SERIALIZABLE"] * 4


# ---- choosing what to do -------------------------------------------------------------------------------

def begin(isolation, limit):
    return Statement(f"BEGIN ISOLATION LEVEL {isolation};\nSET LOCAL lock_timeout = {limit}", "BEGIN", control=True, isolation=isolation, limit=limit)


def next_statement(world, grammar, rng, i):
    transaction = world.transactions[i]
    if transaction is None:
        # Tables with new files are worth most where a snapshot is older, and nobody holds the tables.
        if any(other is not None and other.snapshot is not None and not other.looked for other in world.transactions) and \
                not world.locked() and rng.random() < 0.1:
            return rng.choice([grammar.truncate, grammar.rewrite])(world.view(None))
        if rng.random() < 0.3 and not world.locked():
            # (VACUUM waits, for as long as it takes, for who waits in the middle of a scan.)
            return grammar.statement(world.view(None), not world.waiting)
        return begin(rng.choice(LEVELS), 10 if rng.random() < 0.1 else 0)
    if transaction.aborted:
        if transaction.savepoints and rng.random() < 0.6:
            return savepoint("ROLLBACK TO", rng.choice(transaction.savepoints)[0])
        return ROLLBACK if rng.random() < 0.8 else COMMIT
    if transaction.blurred and transaction.exclusive:
        return ROLLBACK
    if transaction.left <= 0:
        return COMMIT if rng.random() < 0.8 else ROLLBACK
    transaction.left -= 1
    draw = rng.random()
    if draw < 0.12 and len(transaction.savepoints) < 3:
        return savepoint("SAVEPOINT", rng.choice(["s", "t", "u"]))
    if draw < 0.22 and transaction.savepoints:
        return savepoint("ROLLBACK TO" if rng.random() < 0.6 else "RELEASE", rng.choice(transaction.savepoints)[0])
    if draw < 0.35 and transaction.snapshot is None and transaction.isolation != "READ COMMITTED":
        return grammar.nothing(None)
    return grammar.statement(world.view(transaction) if not transaction.blurred else world.committed, False)


def fits(statement, transaction):
    """Can a statement come now, when others before it have been left out?"""
    if statement.kind in ("ROLLBACK TO", "RELEASE"):
        return transaction is not None and any(name == statement.savepoint for name, *_ in transaction.savepoints) and \
            (statement.kind == "ROLLBACK TO" or not transaction.aborted)
    if statement.kind in ("COMMIT", "ROLLBACK"):
        return transaction is not None
    if statement.kind == "BEGIN" or statement.alone:
        return transaction is None
    return transaction is None and statement.kind != "SAVEPOINT" or transaction is not None and not transaction.aborted


def kind_of(difference):
    """What a difference is about, whatever the ring and the epoch."""
    return re.sub(r"r[0-9]|[0-9]+", "", re.split("[:,\n]", str(difference))[0])


def savepoint(how, name):
    return Statement(f"{how} {name}", how, control=True, savepoint=name)


class Run:
    def __init__(self, seed, trace, without):
        self.rng, self.counts, self.trace, self.without = random.Random(seed), Counter(), trace, without
        self.observer, self.fresh, self.admin = (Session(name) for name in ("observer", "newcomer", "admin"))
        self.sessions = []

    def sessions_for(self, number):
        for session in self.sessions:
            session.close()
        self.sessions = [Session(f"s{k}") for k in range(1, number + 1)]
        for session in self.sessions:
            session.last_seen = session.swept = 0
            session.need("SET lock_timeout = '5ms'", "SET client_min_messages = warning",
                         "CREATE TEMP TABLE seen (seq bigserial, lines text[], problem text)")

    def world(self, number, triggers):
        self.sessions_for(number)
        world = World(self.sessions, self.observer, self.fresh, self.admin, triggers, self.counts, self.trace)
        world.rng = random.Random(self.rng.random())
        return world

    def go(self, seconds, transactions):
        """Runs world after world.  Returns the number of transactions."""
        deadline, done, worlds = time.monotonic() + seconds, 0, 0
        while done < transactions and time.monotonic() < deadline:
            self.number, self.triggers = self.rng.randint(2, 4), self.rng.random() < 0.5
            self.current = world = self.world(self.number, self.triggers)
            grammar = Grammar(self.rng, self.triggers, self.without | (set() if self.triggers else REMAKES))
            while world.ended < min(WORLD, transactions - done) and time.monotonic() < deadline:
                self.step(world, grammar)
            world.end()
            done, worlds = done + world.ended, worlds + 1
        self.counts["worlds"] = worlds
        return done

    def step(self, world, grammar):
        free = [i for i in range(len(self.sessions)) if i not in world.waiting]
        if not free:
            time.sleep(0.001)
            world.settle()
            return
        i = self.rng.choice(free)
        statement = next_statement(world, grammar, self.rng, i)
        world.start(i, statement)
        if statement.kind == "BEGIN":
            world.transactions[i].left = self.rng.choice([1, 2, 2, 3, 3, 4, 5, 7])
        if self.rng.random() < 0.02 and not world.locked():
            world.ask_about_the_past(False)

    # ---- the shortest run that shows a difference ----

    def shows(self, log):
        """The difference that a run of statements shows, or None."""
        self.observer.close()
        self.observer = Session("observer")
        world = self.world(self.number, self.triggers)
        try:
            for i, statement in log:
                if i in world.waiting or not fits(statement, world.transactions[i]):
                    continue
                if world.transactions[i] is None and not statement.control and (world.locked() or statement.alone and world.waiting):
                    continue
                world.start(i, statement)
            world.end()
        except Difference as difference:
            return difference
        return None

    def shorten(self, log, seconds, kind):
        """Leaves out whole transactions, then statements, as long as there is a difference of this kind."""
        deadline = time.monotonic() + seconds
        best = None
        for units in (self.transactions_of, lambda log: [[k] for k in range(len(log))]):
            size = None
            while time.monotonic() < deadline:
                parts = units(log)
                size = min(size or len(parts) // 2, len(parts))
                if size < 1:
                    break
                at = 0
                while at < len(parts) and time.monotonic() < deadline:
                    left_out = {k for part in parts[at:at + size] for k in part}
                    shorter = [entry for k, entry in enumerate(log) if k not in left_out]
                    difference = self.shows(shorter)
                    if difference is not None and kind_of(difference) == kind:
                        log, best, parts = shorter, difference, units(shorter)
                    else:
                        at += size
                size //= 2
        return log, best

    @staticmethod
    def transactions_of(log):
        """The numbers of the statements of each transaction."""
        parts, open_parts = [], {}
        for k, (i, statement) in enumerate(log):
            if statement.kind == "BEGIN":
                open_parts[i] = []
                parts.append(open_parts[i])
            if i in open_parts:
                open_parts[i].append(k)
                if statement.kind in ("COMMIT", "ROLLBACK"):
                    del open_parts[i]
            else:
                parts.append([k])
        return parts


def script_of(log, triggers):
    lines = ["-- with the owner's triggers" if triggers else "-- without triggers of the owner"]
    for i, statement in log:
        for sql in [*statement.before, statement.sql, *statement.after]:
            lines.append(f"/* s{i + 1} */ {sql};")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--transactions", type=int, default=10**9)
    parser.add_argument("--shorten", type=float, default=60, help="seconds to spend on the shortest run that shows a difference")
    parser.add_argument("--without", default="", help="methods of Grammar that are not to be used, with commas between them")
    parser.add_argument("--log", help="file for all statements")
    options = parser.parse_args()
    trace = open(options.log, "w") if options.log else None
    print(f"seed {options.seed}")
    sys.stdout.flush()
    run = Run(options.seed, trace, set(options.without.split(",")))
    start = time.monotonic()
    try:
        done = run.go(options.seconds, options.transactions)
    except (Difference, Hangs) as difference:
        world = run.current
        done = sum(count for kind, count in run.counts.items() if kind.startswith("transactions"))
        print(f"DIFFERENCE after {done} transactions and {time.monotonic() - start:.1f} seconds: {difference}")
        print(f"The last statements of the sessions:\n{script_of(world.log[-25:], run.triggers)}")
        sys.stdout.flush()
        if isinstance(difference, Difference) and options.shorten:
            log, shortest = run.shorten(world.log, options.shorten, kind_of(difference))
            print(f"Shortest run of {len(world.log)} statements, now {len(log)}: {shortest or 'it does not show it again'}\n{script_of(log, run.triggers)}")
        return 1
    took = time.monotonic() - start
    for kind, count in sorted(run.counts.items()):
        print(f"{kind}: {count}")
    print(f"no difference in {done} transactions, {done / took:.0f} per second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
