"""Sessions of psql that can be left waiting: what is sent to one is answered when it is.

Connection by the usual environment (PGHOST, PGPORT, PGUSER, PGDATABASE).
"""
import os
import select
import subprocess
import time
from typing import NamedTuple

# Lines of psql that are neither rows nor of interest.
SILENT = ("ERROR:", "DETAIL:", "HINT:", "CONTEXT:", "NOTICE:", "INFO:", "LINE ", "QUERY:")
MARK = "@@answered"
HANGS = 60                  # seconds after which an answer is not waited for any more


class Answer(NamedTuple):
    rows: list
    error: str              # SQLSTATE, or empty
    message: str
    warnings: list


class Hangs(Exception):
    pass


class Session:
    def __init__(self, name):
        self.name, self.buffer, self.answers, self.wanted = name, b"", [], 0
        self.psql = subprocess.Popen(["psql", "-XqAt", "-v", "VERBOSITY=terse"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, env={**os.environ, "PGAPPNAME": name, "PGCLIENTENCODING": "UTF8"})
        self.out = self.psql.stdout.fileno()
        self.prepare()

    def prepare(self):
        self.pid = int(self.ask("SELECT pg_backend_pid()").rows[0])

    def reconnect(self):
        self.psql.stdin.write(b"\\c\n")
        self.prepare()

    def send(self, statements):
        """Sends statements, whose answers are then had from finish or finished."""
        self.answers, self.wanted = [], len(statements)
        self.rows, self.warnings = [], []
        mark = f";\n\\echo {MARK} :ERROR :SQLSTATE :LAST_ERROR_MESSAGE\n"
        self.psql.stdin.write("".join(statement + mark for statement in statements).encode())
        self.psql.stdin.flush()

    def finished(self, seconds):
        """Whether everything that was sent has been answered, or is within the time."""
        deadline = time.monotonic() + seconds
        while len(self.answers) < self.wanted:
            left = deadline - time.monotonic()
            if not select.select([self.out], [], [], max(0, left))[0]:
                return False
            data = os.read(self.out, 1 << 20)
            if not data:
                raise Hangs(f"session {self.name} was closed: {self.rows[-3:]} {self.warnings[-3:]}")
            *lines, self.buffer = (self.buffer + data).split(b"\n")
            for line in lines:
                self.read(line.decode())
        return True

    def read(self, line):
        if line.startswith(MARK):
            _, failed, sqlstate, message = line.split(" ", 3)
            failed = failed == "true"
            self.answers.append(Answer(self.rows, sqlstate if failed else "", message if failed else "", self.warnings))
            self.rows, self.warnings = [], []
        elif "WARNING:" in line[:40]:
            self.warnings.append(line)
        elif line and not line.startswith(SILENT):
            self.rows.append(line)

    def finish(self):
        if not self.finished(HANGS):
            raise Hangs(f"session {self.name} has not answered for {HANGS} seconds")
        return self.answers

    def ask(self, statement):
        self.send([statement])
        return self.finish()[0]

    def need(self, *statements):
        """Rows of the last of some statements, none of which may fail."""
        self.send(statements)
        for answer in self.finish():
            if answer.error:
                raise RuntimeError(f"{self.name}: {answer.error} {answer.message}")
        return self.answers[-1].rows

    def close(self):
        self.psql.stdin.close()
        self.psql.terminate()
        self.psql.wait()
        self.psql.stdout.close()
