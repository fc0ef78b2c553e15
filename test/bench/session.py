"""A session with the server, by way of psql, whose CPU time can be read.

CPU time is what counts on a machine that others use too: it leaves out the time that a backend waits for its turn.
"""
import os
import subprocess
import time

END = "end-of-statement"


def clock_of(pid):
    """The CPU clock of a process; where there is none of this kind, the time of day has to do."""
    clock = (~pid << 3) | 2
    try:
        time.clock_gettime(clock)
    except OSError:
        return time.perf_counter
    return lambda: time.clock_gettime(clock)


class Session:
    """Runs statements one after the other.  With a watcher (another session), it has run none before the first."""

    def __init__(self, watcher=None):
        self.name = f"bench-{os.getpid()}-{id(self)}"
        self.psql = subprocess.Popen(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1"], text=True, bufsize=1,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     env={**os.environ, "PGAPPNAME": self.name})
        self.answer("\\echo ready")
        if watcher is None:
            pid = self.value("SELECT pg_backend_pid();")
        else:
            pid = watcher.value(f"SELECT pid FROM pg_stat_activity WHERE application_name = '{self.name}';")
        self.clock = clock_of(int(pid))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.psql.stdin.close()
        self.psql.wait()

    def answer(self, script):
        """The lines that a script prints."""
        lines = []
        self.psql.stdin.write(f"{script}\n\\echo {END}\n")
        for line in self.psql.stdout:
            if line == END + "\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise SystemExit(f"failed: {script.strip()[:200]}")

    def value(self, script):
        return self.answer(script)[0]

    def cpu(self, script):
        """Seconds of CPU time that the backend takes for a script."""
        start = self.clock()
        self.answer(script)
        return self.clock() - start

    def elapsed(self, script):
        start = time.perf_counter()
        self.answer(script)
        return time.perf_counter() - start
