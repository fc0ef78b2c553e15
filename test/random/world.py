"""What sessions do to rings, and what they must see: a model of transactions, whose rings follow the statements of grammar.py.

The model knows which rings a session sees: those that it has changed itself, and those that were committed when its
snapshot was taken.  Whatever else is seen is a Difference.
"""
import json
import os
import re
import time

from grammar import Fails, Statement, content_of
from record import ROUTED, Difference, Record, plan, seen

HERE = os.path.dirname(os.path.abspath(__file__))
LOOK = "SELECT line FROM proof.rings"
ORPHANS = """SELECT 'node', ring, node FROM chash_nodes WHERE ring NOT IN (SELECT ring FROM chash_rings)
    UNION ALL SELECT 'history', ring, node FROM chash_node_history WHERE ring NOT IN (SELECT ring FROM chash_rings)"""
HISTORY = """SELECT json_build_array(ring, json_agg(json_build_array(node, from_epoch, to_epoch, weight * 1000, zone, tokens, held_partitions)
    ORDER BY node, from_epoch))::text FROM chash_node_history GROUP BY ring"""

# What a statement may fail with since others do something too, and since there is no such ring or node, or already.
CONCURRENT = {"40001", "40P01", "55P03"}
UNFIT = {"42704", "42710", "23505", "22023"}
SELF_MODIFIED = {"27000", "21000"}          # a row is changed twice, by a statement and by another within it
HARMLESS = ("there is no transaction in progress", "there is already a transaction in progress")

COMMIT, ROLLBACK = Statement("COMMIT", "COMMIT", control=True), Statement("ROLLBACK", "ROLLBACK", control=True)


class Transaction:
    def __init__(self, isolation, limit=0):
        self.isolation, self.limit = isolation, limit
        self.snapshot = self.moment = self.commits = None   # what was committed, and when; None at READ COMMITTED, and before it begins
        self.own, self.made = {}, []            # rings that it has changed; epochs that it has made or seen made
        self.savepoints = []                    # (name, own, length of made, rewritten, looked)
        self.aborted = self.exclusive = self.rewritten = self.looked = self.blurred = False
        self.last_look = None
        self.left = 0


class Work:
    """What a session has been asked to do."""

    def __init__(self, statement, where, view, rewrites):
        self.statement, self.where, self.view, self.rewrites, self.waited = statement, where, view, rewrites, False


class World:
    def __init__(self, sessions, observer, fresh, admin, triggers, counts, trace):
        self.sessions, self.observer, self.fresh, self.admin = sessions, observer, fresh, admin
        self.counts, self.trace = counts, trace
        self.committed, self.records, self.moment, self.commits, self.rewrites = {}, {}, 0, 0, 0
        self.transactions = [None] * len(sessions)
        self.work = [None] * len(sessions)
        self.waiting = set()
        self.triggers, self.incarnations = triggers, 0
        self.log, self.ended, self.unobserved, self.histories = [], 0, False, {}
        admin.need("DROP SCHEMA IF EXISTS proof CASCADE", "DROP EXTENSION IF EXISTS chash CASCADE", "CREATE EXTENSION chash",
                   f"\\i {HERE}/proof.sql\nSELECT 1")
        if triggers:
            admin.need(f"\\i {HERE}/triggers.sql\nSELECT 1")

    # ---- what is seen ----

    def view(self, transaction):
        """The rings that a statement sees."""
        if transaction is None:
            return self.committed
        view = dict(self.committed if transaction.snapshot is None else transaction.snapshot)
        for ring, state in transaction.own.items():
            if state is None:
                view.pop(ring, None)
            else:
                view[ring] = state
        return view

    def recognized(self, line, view):
        """A ring that was seen, and which it is.  Without triggers, no statement drops a ring and makes it anew."""
        ring = seen(line)
        if ring.incarnation is None:
            if ring.ring not in view:
                self.incarnations += 1
            return seen(line, -self.incarnations if ring.ring not in view else view[ring.ring].incarnation)
        return ring

    def record_of(self, incarnation):
        return self.records.setdefault(incarnation, Record())

    # ---- doing something ----

    def start(self, i, statement):
        """Has a session do something.  It is done when this returns, or waits for another session."""
        session, transaction = self.sessions[i], self.transactions[i]
        self.log.append((i, statement))
        if self.trace is not None:
            self.trace.write(f"-- {session.name}\n{statement.sql};\n")
        if transaction is not None and transaction.isolation != "READ COMMITTED" and transaction.snapshot is None and \
                (not statement.control or statement.kind == "ROLLBACK TO"):
            transaction.snapshot, transaction.moment, transaction.commits = dict(self.committed), self.moment, self.commits
        if transaction is None and session.last_seen > session.swept + 100:
            session.need("TRUNCATE pg_temp.seen")
            session.swept = session.last_seen
        if statement.kind == "ROLLBACK TO":
            # It unlocks what was locked since, before its look waits for anybody.
            transaction.looked = next(looked for name, *_, looked in reversed(transaction.savepoints) if name == statement.savepoint)
        commands = [*statement.before, statement.sql, *statement.after]
        if statement.nested:
            commands.append(f"SELECT json_build_array(lines, problem, seq) FROM pg_temp.seen WHERE seq > {session.last_seen} ORDER BY seq")
        if not statement.control and not (statement.kind == "nothing" and transaction is not None) or statement.kind == "ROLLBACK TO":
            commands.append(LOOK)
        self.work[i] = Work(statement, len(statement.before), dict(self.view(transaction)), self.rewrites)
        session.send(commands)
        self.waiting.add(i)
        self.settle()

    def settle(self):
        """Waits until each session has done what it was asked to do, or waits for another one."""
        again = True
        while again:
            again = False
            # What others wait for comes before what they then do.
            for i in sorted(self.waiting, key=lambda i: (self.work[i].waited, i)):
                if self.is_done(i):
                    self.waiting.discard(i)
                    work, self.work[i] = self.work[i], None
                    try:
                        self.done(i, work)
                    except Difference as difference:
                        raise Difference(f"{difference}\nin session s{i + 1}, {self.level(i)}{', after waiting' * work.waited}: {work.statement.sql}") from difference
                    again = True
        if self.unobserved and not self.locked():
            self.observe()

    def level(self, i):
        return self.transactions[i].isolation if self.transactions[i] is not None else "a transaction of one statement"

    def is_done(self, i):
        session = self.sessions[i]
        deadline = time.monotonic() + 60
        while not session.finished(0.004):
            pids = {session.pid for session in self.sessions}
            rows = self.admin.need("SELECT pid, unnest(pg_blocking_pids(pid)) FROM unnest('{%s}'::int[]) AS pid" % ",".join(map(str, pids)))
            blockers = {}
            for row in rows:
                pid, blocker = map(int, row.split("|"))
                if blocker in pids:             # (and not a session of another database that sends a NOTIFY)
                    blockers.setdefault(pid, set()).add(blocker)
            if session.pid in blockers and self.transactions[i] is not None and not self.transactions[i].limit and not self.circle(session.pid, blockers):
                self.work[i].waited = True
                return False
            if time.monotonic() > deadline:
                raise Difference(f"session {session.name} does not end a statement: {self.work[i].statement.sql}")
        return True

    @staticmethod
    def circle(pid, blockers):
        """Does it wait, in the end, for itself, or for who is in such a circle?  Then PostgreSQL ends that."""
        for start in blockers:
            reached, todo = set(), [start]
            while todo:
                for blocker in blockers.get(todo.pop(), ()):
                    if blocker not in reached:
                        reached.add(blocker)
                        todo.append(blocker)
            if start in reached and (start == pid or pid in blockers and start in blockers[pid]):
                return True
        return False

    def locked(self):
        """Does a session hold the tables, or wait for them, so that nobody can look?"""
        return any(transaction is not None and transaction.exclusive for transaction in self.transactions) or \
            any(self.work[i].statement.exclusive for i in self.waiting)

    # ---- what has been done ----

    def done(self, i, work):
        session, statement = self.sessions[i], work.statement
        answers = session.answers
        answer = answers[work.where]
        for each in answers:
            warnings = [warning for warning in each.warnings if not any(text in warning for text in HARMLESS)]
            if warnings and not self.may_warn(self.transactions[i] or Transaction("none"), work, answers, warnings):
                raise Difference(f"session {session.name} was warned: {warnings}")
        self.counts[statement.kind + (": " + answer.error if answer.error else "")] += 1
        for part in statement.parts:
            self.counts["in others: " + part.kind] += 1
        if statement.control:
            return self.controlled(i, work, answer)
        transaction = self.transactions[i] or Transaction("none")
        if answer.error:
            self.failed(transaction, work, answer)
            self.abort(transaction)
        else:
            if statement.exclusive:
                transaction.exclusive = True
                # What a snapshot sees of a table that its own transaction has rewritten is as new as can be.
                if self.is_rewritten(work, answers):
                    transaction.rewritten = True
                    if transaction.moment not in (None, self.moment):
                        transaction.blurred, transaction.last_look = True, None
            transaction.looked |= statement.kind != "nothing"
        nested = []
        if statement.nested:
            nested = [json.loads(row) for row in answers[work.where + 1 + len(statement.after)].rows]
            session.last_seen = max([session.last_seen, *(number for _, _, number in nested)])
        looked = len(answers) > work.where + 1 + len(statement.after) + bool(statement.nested)
        if looked and (not answer.error or self.transactions[i] is None):
            look = answers[-1]
            if look.error in CONCURRENT and (look.error != "40001" or transaction.isolation == "SERIALIZABLE"):
                if self.transactions[i] is None and not answer.error:
                    raise Difference(f"a look at the tables failed: {look.error} {look.message}")
                self.abort(transaction)
            elif look.error:
                raise Difference(f"a look at the tables failed: {look.error} {look.message}")
            else:
                self.looked(transaction, work, answer, look.rows, nested)
        if self.transactions[i] is None:
            self.ended += 1
            self.counts["transactions, of one statement"] += 1
            if not answer.error:
                self.commit(transaction)

    @staticmethod
    def is_rewritten(work, answers):
        """Has a statement given the tables new files?"""
        return work.statement.exclusive and answers[0].rows != answers[2].rows and not answers[1].error

    def may_warn(self, transaction, work, answers, warnings):
        """Do rows not fit together, as a session sees them, since others have new files that its snapshot knows nothing of?"""
        self.counts["warnings"] += len(warnings)
        # (At READ COMMITTED too: a lookup waits for the tables with the snapshot of the statement that it is in.)
        blurred = transaction.blurred or work.rewrites != self.rewrites or self.is_rewritten(work, answers) and transaction.moment not in (None, self.moment)
        return blurred and all("do not match the ring's fingerprint" in warning for warning in warnings)

    @staticmethod
    def abort(transaction):
        """An error has ended the (sub)transaction, and released what it had locked."""
        transaction.aborted = True
        transaction.looked = transaction.savepoints[-1][-1] if transaction.savepoints else False

    def controlled(self, i, work, answer):
        statement, transaction = work.statement, self.transactions[i]
        if statement.kind == "BEGIN":
            self.transactions[i] = transaction = Transaction(statement.isolation, statement.limit)
        elif answer.error and statement.kind != "COMMIT":
            raise Difference(f"{statement.sql}: {answer.error} {answer.message}")
        elif transaction is None:
            pass                                    # (what it belongs to has been left out)
        elif statement.kind == "SAVEPOINT":
            transaction.savepoints.append((statement.savepoint, dict(transaction.own), len(transaction.made), transaction.rewritten,
                                           transaction.looked))
        elif statement.kind == "RELEASE":
            while transaction.savepoints.pop()[0] != statement.savepoint:
                pass
        elif statement.kind == "ROLLBACK TO":
            while transaction.savepoints[-1][0] != statement.savepoint:
                transaction.savepoints.pop()
            _, own, made, transaction.rewritten, transaction.looked = transaction.savepoints[-1]
            transaction.own, transaction.aborted = dict(own), False
            del transaction.made[made:]
            look = self.sessions[i].answers[-1]
            if look.error in CONCURRENT:
                transaction.aborted = True
            elif look.error:
                raise Difference(f"a look at the tables failed: {look.error} {look.message}")
            else:
                self.looked(transaction, work, answer, look.rows, [])
        else:
            self.transactions[i] = None
            self.ended += 1
            if answer.error and not (answer.error == "40001" and transaction.isolation == "SERIALIZABLE"):
                raise Difference(f"COMMIT failed: {answer.error} {answer.message}")
            if statement.kind == "COMMIT" and not answer.error and not transaction.aborted:
                self.counts["transactions, " + transaction.isolation] += 1
                self.commit(transaction)
            else:
                self.counts["transactions rolled back, " + transaction.isolation] += 1
                self.unobserved = True

    def is_certain(self, transaction, work):
        """Did the statement see what the model says, and nobody else change anything?"""
        return not work.waited and not transaction.blurred and (transaction.moment in (None, self.moment))

    def failed(self, transaction, work, answer):
        """Is a statement's error one that it may end with?"""
        statement, error = work.statement, answer.error
        if error == "40001":
            if transaction.isolation in ("READ COMMITTED", "none"):
                raise Difference(f"40001 at READ COMMITTED: {answer.message}")
            if transaction.isolation == "REPEATABLE READ" and transaction.commits == self.commits:
                raise Difference(f"40001, but nothing has been committed since the snapshot: {answer.message}")
            return
        if error == "40P01" or error == "55P03" and (transaction.limit or transaction.isolation == "none"):
            return
        if error in SELF_MODIFIED and (statement.nested or statement.kind == "WITH"):
            return
        if error == "55000" and "recorded history" in answer.message and "chash_node_history" in statement.sql:
            return
        if self.is_halfway(statement, f"{error} {answer.message}"):
            return
        if error == "55000" and statement.looks_back and "cannot be read while it is being changed" in answer.message:
            return
        if error == "XX001" and (statement.past or statement.looks_back) and (transaction.blurred or work.rewrites != self.rewrites):
            return                                  # (rows are missing, as the snapshot is from before TRUNCATE)
        if error in ("55000", "42704") and (statement.looks_up or statement.looks_back or statement.past):
            if not self.is_certain(transaction, work) or not self.can_be_answered(work):
                return
        if error == "22023" and (statement.past or statement.looks_back) and not self.is_on_record(work):
            return
        if error in UNFIT:
            if statement.ops is None or not self.is_certain(transaction, work) or self.outcome(work) is None:
                return
        raise Difference(f"unexpected error {error}: {answer.message}")

    @classmethod
    def is_halfway(cls, statement, error):
        """Is it the error of a statement in another that makes a ring while the one of that name is on its way out, copies
        one that the other is changing, or inserts nodes while chash completes that change?"""
        return "55000 there are nodes of a ring" in error and cls.has_part(statement, ["DELETE from chash_rings"]) or \
            re.match("55000 partitions of ring .* do not have one owner each", error) is not None and \
            cls.has_part(statement, ["chash_copy_ring", "chash_import"]) or \
            "55000 nodes cannot be inserted into ring" in error and statement.completes

    @classmethod
    def has_part(cls, statement, kinds):
        return any(part.kind in kinds or cls.has_part(part, kinds) for part in statement.parts)

    @staticmethod
    def is_on_record(work):
        """Does a statement ask for epochs that the ring has had, as far as the statement can see?"""
        ring, *epochs = work.statement.past or (work.statement.looks_back[2], work.statement.looks_back[1])
        return ring in work.view and all(work.view[ring].history_from <= epoch <= work.view[ring].epoch for epoch in epochs)

    def can_be_answered(self, work):
        """Has what a statement asks beside what it does an answer?"""
        statement = work.statement
        for key, ring in statement.looks_up:
            if ring not in work.view or work.view[ring].routes is None:
                return False
        for ring, *epochs in [statement.past] if statement.past else []:
            if ring not in work.view:
                return False
            if len(epochs) == 1 and not self.points_of(work.view[ring], epochs[0]):
                return False
        if statement.looks_back:
            _, epoch, ring = statement.looks_back
            return ring in work.view and bool(self.points_of(work.view[ring], epoch))
        return True

    def epoch_of(self, ring, epoch, transaction=None):
        """What a ring was like in an epoch, or None if nobody knows."""
        for made, *_ in reversed(transaction.made if transaction else []):
            if (made.incarnation, made.epoch) == (ring.incarnation, epoch):
                return made
        return self.record_of(ring.incarnation).epochs.get(epoch)

    def points_of(self, ring, epoch):
        """Its points in an epoch; those of a ring unknown then are none, as it was only just created."""
        past = ring if epoch == ring.epoch else self.epoch_of(ring, epoch, self.current)
        return past.model.points if past is not None else []

    def outcome(self, work):
        """The world as it should be after a statement, or None if that should have failed."""
        world = {name: content_of(ring) for name, ring in work.view.items()}
        try:
            for op in work.statement.ops:
                op.run(world)
        except Fails:
            return None
        return world

    def looked(self, transaction, work, answer, lines, nested):
        """Compares the rings that a session sees with those that it must see."""
        statement = work.statement
        if transaction.blurred:
            return self.looked_behind(transaction, [seen(line) for line in lines])
        self.current = transaction
        before = self.view(transaction)
        after = {ring.ring: ring for ring in (self.recognized(line, before) for line in lines)}
        between, problems = self.meanwhile(statement, nested, {**after, **before})
        for ring in after.values():
            if ring.misrouted or ring.unsettled:
                raise Difference(f"ring {ring.ring}: {ring.misrouted or ring.unsettled}\n  {ring.line}")
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name), after.get(name)
            if old is not None and new is not None and old.line == new.line:
                continue
            if answer.error or name not in statement.touches:
                raise Difference(f"ring {name} is not what it was:\n  was {old and old.line}\n  now {new and new.line}")
            # (A node that goes and comes in one statement gets other partitions than it had, and parts of a statement are
            # dealt one by one.)
            plain = statement.ops is not None and not statement.nested
            transaction.made += [(made, plain, statement.completes) for made in self.epochs_between(statement, old, new, between)]
            transaction.own[name] = new
        if not answer.error and not statement.control and not self.is_undone(problems):
            self.compare(transaction, work, answer, before, after)
        transaction.last_look = after
        transaction.looked = True

    def looked_behind(self, transaction, rings):
        """The same for a snapshot from before a TRUNCATE or the like: rows are missing, but lookups say what there is."""
        for ring in rings:
            if ring.misrouted:
                raise Difference(f"ring {ring.ring}, behind TRUNCATE or ALTER TABLE: {ring.misrouted}\n  {ring.line}")
        look = {ring.ring: ring.line for ring in rings}
        if transaction.last_look is not None and look != transaction.last_look:
            raise Difference(f"a ring was changed by a snapshot from before TRUNCATE or ALTER TABLE:\n  was {transaction.last_look}\n  now {look}")
        transaction.last_look = look

    def is_undone(self, problems):
        """Has a part of the statement been undone by what others do?"""
        return any(problem[:5] in CONCURRENT | SELF_MODIFIED for problem in problems)

    def meanwhile(self, statement, nested, view):
        """What was seen in the middle of a statement: rings in order, and errors that were caught."""
        between, problems = [], []
        for lines, problem, _ in nested:
            if problem:
                problems.append(problem)
                if problem[:5] not in CONCURRENT | UNFIT | SELF_MODIFIED | {"PROOF"} and not self.is_halfway(statement, problem):
                    raise Difference(f"unexpected error in an exception block: {problem}")
            for line in lines or []:
                ring = self.recognized(line, view)
                if ring.misrouted:
                    raise Difference(f"ring {ring.ring}, in the middle of a statement: {ring.misrouted}\n  {line}")
                between.append(ring)
        return between, problems

    def epochs_between(self, statement, old, new, between):
        """The epochs that a statement has made of a ring, the last included."""
        if new is None:
            return []
        same = old is not None and old.incarnation == new.incarnation
        made = {}
        for ring in between:
            if ring.incarnation == new.incarnation and ring.epoch < new.epoch and not ring.unsettled and not (same and ring.epoch <= old.epoch):
                made[ring.epoch] = ring
        if same:
            count, most = new.epoch - old.epoch, statement.touches[new.ring]
            if count < 0 or most is not None and count > most:
                raise Difference(f"{count} epochs of ring {new.ring} were made, where it should be {most} at most:\n  was {old.line}\n  now {new.line}")
            different = {n: row.content for n, row in old.nodes.items()} != {n: row.content for n, row in new.nodes.items()}
            different |= old.replicas != new.replicas
            # (A node that goes and comes in one statement gets a new epoch, even if it is as it was.)
            touched = [n for n, row in new.nodes.items() if n in old.nodes and old.nodes[n] != row and old.nodes[n].content == row.content]
            if touched and not statement.nested and statement.kind != "WITH":
                raise Difference(f"nodes {touched} of ring {new.ring} are as they were, but their epoch is not:\n  was {old.line}\n  now {new.line}")
            if count == 0 and different:
                raise Difference(f"no epoch of ring {new.ring} was made:\n  was {old.line}\n  now {new.line}")
            if count == 1 and not different and not (touched and (statement.nested or statement.kind == "WITH")):
                raise Difference(f"an epoch of ring {new.ring} was made for nothing:\n  was {old.line}\n  now {new.line}")
            missing = [epoch for epoch in range(old.epoch + 1, new.epoch) if epoch not in made]
            if missing and not statement.completes:
                raise Difference(f"epochs {missing} of ring {new.ring} were made where none should be:\n  was {old.line}\n  now {new.line}")
        return [made[epoch] for epoch in sorted(made)] + [new]

    def compare(self, transaction, work, answer, before, after):
        """Compares what a statement has done, and what it says, with what it should."""
        statement, certain = work.statement, self.is_certain(transaction, work)
        if certain and statement.ops is not None:
            world = self.outcome(work)
            if world is None:
                raise Difference("the statement should have failed")
            got = {name: content_of(ring) for name, ring in after.items()}
            for name in sorted(world.keys() | got.keys()):
                if world.get(name) != got.get(name):
                    raise Difference(f"ring {name} should be different:\n  was {before[name].line if name in before else None}\n"
                                     f"  got {got.get(name)}\n  not {world.get(name)}")
            self.counts["statements foretold"] += 1
        if statement.returns and [str(after[statement.returns].epoch)] != answer.rows:
            raise Difference(f"{answer.rows} was returned, the ring is in epoch {after[statement.returns].epoch}")
        if statement.prunes and statement.prunes[0] in after and statement.prunes[0] in before:
            ring, keep = statement.prunes
            expected = max(before[ring].history_from, before[ring].epoch - keep)
            if after[ring].history_from != expected:
                raise Difference(f"history begins with epoch {after[ring].history_from}, not {expected}")
        if not certain:
            return
        for key, ring in statement.looks_up:
            expected = work.view[ring].routes[key] if ring in work.view and work.view[ring].routes else None
            if any(row.split("|")[-1] != expected for row in answer.rows):
                raise Difference(f"lookups in the statement gave {answer.rows}, not {expected}, which its snapshot says")
            self.counts["lookups within statements"] += len(answer.rows)
        if statement.looks_back:
            key, epoch, ring = statement.looks_back
            past = self.epoch_of(work.view[ring], epoch, transaction) if ring in work.view else None
            if past is not None and any(row != past.model.owner(past.model.key_position(ROUTED[key])) for row in answer.rows):
                raise Difference(f"owners of the past in the statement were {answer.rows}, in epoch {epoch} of ring {ring}:\n  {past.line}")
            self.counts["lookups of the past within statements"] += len(answer.rows)
        if statement.past and statement.past[0] in work.view:
            self.compare_past(work.view[statement.past[0]], statement.past[1:], answer.rows, transaction)

    def compare_past(self, ring, epochs, rows, transaction=None):
        """Compares answers of chash_node_as_of (one epoch) or chash_epoch_diff (two) with the record."""
        past = [self.epoch_of(ring, epoch, transaction) for epoch in epochs]
        if None in past:
            return
        if len(past) == 1:
            model = past[0].model
            expected = ["|".join(model.owner(model.key_position(key)) for key in ROUTED)]
        else:
            expected = ["|".join("" if value is None else str(value) for value in row) for row in plan(past[0].model, past[1].model)]
        if rows != expected:
            raise Difference(f"epochs {epochs} of ring {ring.ring}: got {rows}, not {expected}\n  " + "\n  ".join(each.line for each in past))
        self.counts["questions about the past"] += 1

    # ---- what is committed ----

    def commit(self, transaction):
        for ring, plain, unseen in transaction.made:
            self.record_of(ring.incarnation).add(ring, plain, unseen)
        self.commits += 1
        if transaction.own or transaction.rewritten:
            self.moment += 1
        for name, ring in transaction.own.items():
            if ring is None:
                self.committed.pop(name, None)
            else:
                self.committed[name] = ring
        if transaction.rewritten:
            self.rewrites += 1
            for other in self.transactions:
                if other is not None and other.snapshot is not None and not other.looked:
                    other.blurred, other.last_look = True, None
        self.unobserved = True

    def observe(self, session=None):
        """Another session, that has looked before or one that is new, must see what is committed."""
        self.unobserved = False
        if session is None:
            session = self.observer
            if self.rng.random() < 0.1:
                session = self.fresh
                session.reconnect()
        session.send([LOOK, HISTORY, ORPHANS])
        look, history, orphans = session.finish()
        for answer in (look, history, orphans):
            if answer.error or answer.warnings:
                raise Difference(f"committed rings could not be looked at: {answer}")
        rings = {ring.ring: ring for ring in map(seen, look.rows)}
        for name in sorted(rings.keys() | self.committed.keys()):
            old, new = self.committed.get(name), rings.get(name)
            if new is not None and (new.misrouted or new.unsettled):
                raise Difference(f"ring {name}, as {session.name} sees it: {new.misrouted or new.unsettled}\n  {new.line}")
            if (old and old.line) != (new and new.line):
                raise Difference(f"ring {name} is not as it was committed:\n  committed {old and old.line}\n  {session.name} sees {new and new.line}")
        if orphans.rows:
            raise Difference(f"rows without a ring: {orphans.rows}")
        self.compare_histories(rings, history.rows)
        self.counts["looks at what is committed"] += 1

    def compare_histories(self, rings, rows):
        histories = dict.fromkeys(rings, None)
        histories.update((json.loads(row)[0], row) for row in rows)
        for name, row in histories.items():
            ring = self.committed[name]
            if self.histories.get(name) == (ring.line, row):
                continue
            got = [(node, start, end, round(weight), zone, tokens and tuple(sorted(tokens)), held if held is None else tuple(held))
                   for node, start, end, weight, zone, tokens, held in (json.loads(row)[1] if row else [])]
            record = self.record_of(ring.incarnation)
            known_from = record.known_from(ring.history_from)
            expected = record.history(known_from)
            if [row for row in got if row[2] > known_from] != expected or any(row[2] <= ring.history_from for row in got):
                raise Difference(f"history of ring {name}, epochs {ring.history_from} to {ring.epoch}:\n  got {got}\n  not {expected}")
            self.histories[name] = (ring.line, row)

    def ask_about_the_past(self, every):
        """Compares answers about epochs that are on record: all of them, or a few of one ring."""
        for name in sorted(self.committed) if every else self.rng.sample(sorted(self.committed), min(1, len(self.committed))):
            ring = self.committed[name]
            epochs = [epoch for epoch in range(ring.history_from, ring.epoch + 1) if epoch in self.record_of(ring.incarnation).epochs]
            chosen = epochs if every else self.rng.sample(epochs, min(3, len(epochs)))
            statements, asked = [], []
            for epoch, other in zip(chosen, chosen[1:] + chosen[:1]):
                for past in [(epoch,), (epoch, other)]:
                    if len(past) == 2 or self.epoch_of(ring, epoch).model.points:
                        asked.append(past)
                        statements.append(self.grammar_of_the_past(name, *past))
            self.observer.send(statements)
            for past, answer in zip(asked, self.observer.finish()):
                if answer.error:
                    raise Difference(f"epochs {past} of ring {name} cannot be asked for: {answer.error} {answer.message}\n  {ring.line}")
                self.compare_past(ring, past, answer.rows)

    @staticmethod
    def grammar_of_the_past(ring, epoch, other=None):
        if other is None:
            return "SELECT " + ", ".join(f"public.chash_node_as_of('{key}', {epoch}, '{ring}')" for key in ROUTED)
        return f"SELECT lo, hi, from_node, to_node FROM public.chash_epoch_diff('{ring}', {epoch}, {other}, 1)"

    def end(self):
        """Ends all transactions, and looks at everything once more."""
        while any(transaction is not None for transaction in self.transactions):
            free = [i for i, transaction in enumerate(self.transactions) if transaction is not None and i not in self.waiting]
            self.start(free[0], ROLLBACK)
        self.fresh.reconnect()
        self.observe(self.fresh)
        self.ask_about_the_past(True)
        for name, ring in sorted(self.committed.items()):
            for epoch in range(ring.history_from, ring.epoch + 1):
                answer = self.observer.ask(self.grammar_of_the_past(name, epoch))
                if answer.error and not (answer.error == "55000" and "has no node" in answer.message):
                    raise Difference(f"epoch {epoch} of ring {name} cannot be asked for: {answer.error} {answer.message}\n  {ring.line}")
            rows = self.observer.need("BEGIN", f"SELECT chash_import(chash_export('{name}'), 'copy')",
                                      "SELECT fingerprint, chash_fingerprint('copy') FROM chash_rings WHERE ring = 'copy'")
            self.observer.need("ROLLBACK")
            if rows != [f"{ring.fingerprint}|{ring.fingerprint}"]:
                raise Difference(f"a copy of ring {name} has fingerprints {rows}\n  {ring.line}")
