"""Talking to the extension through the psql program: long scripts of which every answer is a line of JSON.

A Script collects statements; those whose answer matters are asked for with a function that receives it.
Connection by the usual environment (PGHOST, PGPORT, PGUSER, PGDATABASE).
"""
import json
import os
import subprocess
import sys

HEADER = """
SET synchronous_commit = off;
SET client_min_messages = warning;
CREATE FUNCTION pg_temp.sqlstate(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN EXECUTE statement; RAISE SQLSTATE 'ZZ000'; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END $$;
"""


def lit(value):
    """A value as an SQL literal: None, numbers, text, lists of integers (as bigint[])."""
    if value is None:
        return "NULL"
    if isinstance(value, (list, tuple)):
        return "'{" + ",".join(map(str, value)) + "}'::bigint[]"
    if isinstance(value, (int, float)):
        return str(value)
    return "'" + value.replace("'", "''") + "'"


def json_lit(value):
    return lit(json.dumps(value, ensure_ascii=False)) + "::jsonb"


def sql_changes(changes):
    """Changes as the model has them in the form that chash_apply takes: weights as they are, up as state."""
    def member(fields):
        fields = dict(fields)
        if "weight" in fields:
            fields["weight"] /= 1000
        if "up" in fields:
            fields["state"] = "up" if fields.pop("up") else "down"
        return fields
    return {name: fields if fields is None else member(fields) for name, fields in changes.items()}


def rows_of(columns, source):
    """Expression: the rows that a set-returning function gives, in its order, as a JSON array of arrays."""
    return f"SELECT coalesce(jsonb_agg(jsonb_build_array({columns})), '[]') FROM {source}"


class Missing:
    """In place of an answer that did not come, because the statement failed.  Equal to nothing."""

    def __init__(self, errors):
        self.errors = errors

    def __iter__(self):
        return iter(())

    def __repr__(self):
        return f"no answer: {self.errors}"


class Script:
    def __init__(self):
        self.lines, self.receivers = [HEADER], []

    def do(self, statement):
        self.lines.append(statement + ";")

    def ask(self, expression, receive):
        """Have the value of an expression or SELECT given to receive(value)."""
        self.do(f"SELECT jsonb_build_array({len(self.receivers)}, ({expression}))")
        self.receivers.append(receive)

    def ask_sqlstate(self, expression, receive):
        """Have the SQLSTATE that the expression ends with (ZZ000 for none) given to receive; nothing that it did stays."""
        self.ask("SELECT pg_temp.sqlstate(" + lit("SELECT " + expression) + ")", receive)

    def run(self):
        """Run all of it in one session, then hand the answers out in order."""
        done = subprocess.run(["psql", "-XqAt", "-f", "-"], input="\n".join(self.lines), capture_output=True,
                              encoding="utf-8", env={**os.environ, "PGCLIENTENCODING": "UTF8"})
        if done.returncode not in (0, 3):
            sys.exit(f"psql failed: {done.stderr.strip()}")
        answers = {}
        for line in done.stdout.split("\n"):
            if line.startswith("["):
                number, value = json.loads(line)
                answers[number] = value
        missing = Missing(" | ".join(done.stderr.split("\n")[:3]))
        for number, receive in enumerate(self.receivers):
            receive(answers.get(number, missing))


class Tap:
    """Groups of checks, each reported as one line, with the first few mismatches."""

    SHOWN = 5

    def __init__(self):
        self.groups, self.number, self.passed, self.failed = {}, 0, 0, 0

    def check(self, group, good, detail):
        """Count a check; detail is text, or a function that makes it when it is needed."""
        entry = self.groups.setdefault(group, [0, 0, []])
        entry[0] += 1
        if not good:
            entry[1] += 1
            if len(entry[2]) < self.SHOWN:
                entry[2].append(detail() if callable(detail) else detail)

    def equal(self, group, got, want, what):
        """Count a comparison.  Of two lists, the first difference is shown."""
        def detail():
            if isinstance(got, list) and isinstance(want, list):
                for i in range(max(len(got), len(want))):
                    g, w = got[i:i + 1], want[i:i + 1]
                    if g != w:
                        return f"{what}: [{i}] of {len(got)}/{len(want)}: got {str(g)[:300]}, expected {str(w)[:300]}"
            return f"{what}: got {str(got)[:400]}, expected {str(want)[:400]}"
        self.check(group, type(got) is not Missing and got == want, detail)

    def report(self, groups, note=""):
        """Print the named groups; one in which nothing was checked has failed."""
        for group in groups:
            checks, bad, details = self.groups.pop(group, [0, 0, []])
            good = checks > 0 and not bad
            self.number += 1
            self.passed, self.failed = self.passed + good, self.failed + (not good)
            print(f"{'ok' if good else 'not ok'} {self.number} - {group} ({checks} checks" + (f", {bad} failed)" if bad else ")"))
            if not good:
                for detail in details + [note]:
                    print("# " + detail.replace("\n", "\n# "))
            sys.stdout.flush()

    def finish(self):
        print(f"1..{self.number}")
        print(f"model: {self.passed} passed, {self.failed} failed")
        return 1 if self.failed or self.groups else 0
