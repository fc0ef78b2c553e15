"""Runs the examples of docs/drivers.md with the drivers that are there, and compares what they print.

    python3 examples.py PAGE DIRECTORY

DIRECTORY is for temporary files.  The server is found by the usual environment (PGHOST and so on): it has to be
reached through a Unix socket, and the role has to be allowed to create databases.  Prints TAP, and "N passed, N
failed, N skipped" at the end.

How to write an example:

  - The blocks of one language in one section are one program, run where the first of them stands.
  - A ```text block that directly follows a block is what that block prints; without it, it prints nothing.
  - The sql blocks of the first section make the database "app"; every program starts with it as they made it.
    Other sql blocks are not run here: test/readme.sh runs them all.
  - An ini block configures pgbouncer, which the programs of its section then find at port 6432.
"""
import ast
import os
import re
import shutil
import subprocess
import sys
import time

NPM_PACKAGES = {"pg": "pg@8", "postgres": "postgres@3"}           # what can be imported, and what npm is asked for
NPM_SECONDS = 60
DEBIAN_NODE_MODULES = "/usr/share/nodejs"
DEBIAN_JDBC = "/usr/share/java/postgresql.jar"
JAVA_OPTION = "-XX:-UsePerfData"        # or else it leaves a directory in /tmp
POOLER_PORT = "6432"                    # as on the page
PROGRAM_SECONDS = 120
MARK = "\x1f"                           # stands in front of what each block prints, with the line of the block
HERE = os.path.dirname(os.path.abspath(__file__))
DATABASE = "app"

# Compiles a program that has await at its top level too, as "python3 -m asyncio" does.
PYTHON_RUNNER = """
import ast, asyncio, sys
code = compile(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
result = eval(code, {"__name__": "__main__"})
if result is not None:
    asyncio.run(result)
"""


class Block:
    def __init__(self, line, language, code, expected):
        self.line, self.language, self.code, self.expected = line, language, code, expected


class Section:
    def __init__(self, title):
        self.title, self.blocks = title, []

    def programs(self):
        """The blocks in groups of one language, in the order of the page."""
        groups = {}
        for block in self.blocks:
            if block.language not in ("sql", "ini"):
                groups.setdefault(block.language, []).append(block)
        return groups.items()

    def of(self, language):
        return [block for block in self.blocks if block.language == language]


class Skip(Exception):
    """A driver is not there."""


def read_page(page):
    """The page as sections with blocks."""
    sections, block, text, fence = [Section(page)], None, None, None
    for number, line in enumerate(open(page, encoding="utf-8").read().split("\n"), 1):
        if fence is None:
            heading = re.match(r"##+ (.*)", line)
            opening = re.match(r"```(\S*)\s*$", line)
            if heading:
                sections.append(Section(heading.group(1)))
                block = None
            elif opening:
                fence, text = opening.group(1), []
                if fence != "text":
                    block = Block(number, fence, text, None)
                    sections[-1].blocks.append(block)
                elif block:
                    block.expected, block = text, None
                else:
                    sys.exit(f"{page}:{number}: output of which block?")
            elif line.strip():
                block = None
        elif line.startswith("```"):
            fence = None
        else:
            text.append(line)
    return sections


def trimmed(lines):
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def program_text(blocks, mark):
    """The blocks as one program, each line where it stands on the page, and a mark printed before each block."""
    lines = []
    for block in blocks:
        lines += [""] * (block.line - 1 - len(lines)) + [mark(block)] + block.code
    return "\n".join(lines) + "\n"


def run(command, **options):
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL,
                          **options)


def works(*command, **options):
    try:
        return run(command, timeout=30, **options).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def psql(database, script):
    done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database], input=script,
                          capture_output=True, encoding="utf-8")
    if done.returncode:
        sys.exit(f"psql: {done.stderr.strip()}")


# ---------------------------------------------------------------------------
# Languages: each gives what a program is called, its text, and the command that runs it, or raises Skip
# ---------------------------------------------------------------------------

class Python:
    def imports(self, blocks):
        names = set()
        for block in blocks:
            for statement in ast.walk(ast.parse("\n".join(block.code))):
                if isinstance(statement, ast.Import):
                    names.update(alias.name.split(".")[0] for alias in statement.names)
                elif isinstance(statement, ast.ImportFrom):
                    names.add(statement.module.split(".")[0])
        return sorted(names)

    def prepare(self, blocks, directory):
        names = self.imports(blocks)
        # The system's packages belong to the system's Python, which need not be first on PATH.
        for python in ("python3", "/usr/bin/python3"):
            if works(python, "-c", "import " + ", ".join(names)):
                break
        else:
            missing = [name for name in names if not works("/usr/bin/python3", "-c", f"import {name}")]
            raise Skip(f"no Python has {' and '.join(missing or names)}")
        file = os.path.join(directory, "example.py")
        write(file, program_text(blocks, lambda block: f"print({MARK + str(block.line)!r})"))
        return [python, "-c", PYTHON_RUNNER, file]


class JavaScript:
    def install(self, names, directory):
        """Has the packages in directory/node_modules, from npm or else from Debian's packages."""
        if not works("node", "--version"):
            raise Skip("node is missing")
        modules = os.path.join(directory, "node_modules")
        missing = [name for name in names if not os.path.exists(os.path.join(modules, name))]
        if not missing:
            return
        reason = "npm is missing"
        if works("npm", "--version"):
            write(os.path.join(directory, "package.json"), "{}\n")
            try:
                done = run(["npm", "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts",
                            *(NPM_PACKAGES[name] for name in missing)], cwd=directory, timeout=NPM_SECONDS)
                if done.returncode == 0:
                    return
                reason = "npm install failed"
            except subprocess.TimeoutExpired:
                reason = f"npm install took longer than {NPM_SECONDS} seconds"
        os.makedirs(modules, exist_ok=True)
        for name in missing:
            if not os.path.isdir(os.path.join(DEBIAN_NODE_MODULES, name)):
                raise Skip(f"{reason}, and there is no {DEBIAN_NODE_MODULES}/{name}")
            os.symlink(os.path.join(DEBIAN_NODE_MODULES, name), os.path.join(modules, name))
        os.environ["NODE_PATH"] = DEBIAN_NODE_MODULES

    def prepare(self, blocks, directory):
        text = program_text(blocks, lambda block: f"console.log({MARK + str(block.line)!r});")
        self.install(re.findall(r"^import .* from '([^'.]+)'", text, re.M), directory)
        file = os.path.join(directory, "example.mjs")
        write(file, text)
        return ["node", file]


class Java:
    def prepare(self, blocks, directory):
        if len(blocks) != 1:
            sys.exit("A Java program is one block.")
        if not os.path.exists(DEBIAN_JDBC):
            raise Skip(f"there is no {DEBIAN_JDBC}")
        classes = os.path.join(directory, "classes")
        os.makedirs(os.path.join(classes, "org/postgresql"), exist_ok=True)
        if not works("javac", "-J" + JAVA_OPTION, "--version"):
            raise Skip("javac is missing: it takes a JDK")
        if not works("javac", "-J" + JAVA_OPTION, "-d", classes, os.path.join(HERE, "UnixSockets.java")):
            raise Skip("this JDK is too old for Unix sockets, which came with Java 16")
        # The driver's defaults, so that the page's URL leads to the server that the others find by PGHOST.
        write(os.path.join(classes, "org/postgresql/driverconfig.properties"), "".join(
            f"{name}={value}\n" for name, value in (
                ("socketFactory", "UnixSockets"), ("sslmode", "disable"), ("gssEncMode", "disable"),
                ("socketFactoryArg", f"{os.environ['PGHOST']}/.s.PGSQL.{os.environ['PGPORT']}"),
                ("user", os.environ["PGUSER"]))))
        file = os.path.join(directory, "Example.java")
        write(file, program_text(blocks, lambda block: ""))
        return ["java", JAVA_OPTION, "-cp", f"{classes}:{DEBIAN_JDBC}", file]


class Perl:
    def prepare(self, blocks, directory):
        if not works("perl", "-MDBD::Pg", "-e", "1"):
            raise Skip("Perl has no DBD::Pg")
        file = os.path.join(directory, "example.pl")
        write(file, program_text(blocks, lambda block: f'BEGIN {{ $| = 1 }} print "\\x1f{block.line}\\n";'))
        return ["perl", file]


LANGUAGES = {"python": Python(), "javascript": JavaScript(), "java": Java(), "perl": Perl()}


def write(file, text):
    with open(file, "w", encoding="utf-8") as out:
        out.write(text)


class Pooler:
    """pgbouncer with the page's settings, and what it takes here: Unix sockets only, in the server's directory."""

    def __init__(self, blocks, directory):
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        if not program:
            raise Skip("pgbouncer is missing")
        settings, users = os.path.join(directory, "pgbouncer.ini"), os.path.join(directory, "users")
        log = os.path.join(directory, "pgbouncer.log")
        write(users, f'"{os.environ["PGUSER"]}" ""\n')
        write(settings, "\n".join(line for block in blocks for line in block.code) + f"""
[pgbouncer]
unix_socket_dir = {os.environ["PGHOST"]}
listen_port = {POOLER_PORT}
auth_type = trust
auth_file = {users}
logfile = {log}
""")
        self.process = subprocess.Popen([program, "-q", settings], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            if works("psql", "-Xqc", "SELECT", "-p", POOLER_PORT, "-d", DATABASE):
                return
            time.sleep(0.1)
        self.stop()
        sys.exit("pgbouncer does not work:\n" + (open(log).read() if os.path.exists(log) else ""))

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Results:
    def __init__(self, page):
        self.page, self.number, self.passed, self.failed, self.skipped = page, 0, 0, 0, 0

    def line(self, word, block, title, rest=""):
        self.number += 1
        print(f"{word} {self.number} - {self.page}:{block.line} {title}{rest}", flush=True)

    def ok(self, block, title):
        self.passed += 1
        self.line("ok", block, title)

    def not_ok(self, block, title, why):
        self.failed += 1
        self.line("not ok", block, title)
        print("# " + why.strip().replace("\n", "\n# "), flush=True)

    def skip(self, block, title, reason):
        self.skipped += 1
        self.line("ok", block, title, f" # SKIP {reason}")


def run_program(command, blocks, title, results):
    """Runs it, and reports each of its blocks."""
    try:
        done = run(command, timeout=PROGRAM_SECONDS)
        out, err, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as e:
        out, err = ((part or b"").decode("utf-8", "replace") for part in (e.stdout, e.stderr))
        status, err = None, f"not finished after {PROGRAM_SECONDS} seconds\n{err}"
    printed = {}
    if blocks[0].language == "java":
        printed[blocks[0].line] = out
    else:
        for part in out.split(MARK)[1:]:
            line, _, text = part.partition("\n")
            printed[int(line)] = text
    for number, block in enumerate(blocks):
        last = number + 1 == len(blocks) or blocks[number + 1].line not in printed
        want, got = trimmed(block.expected or []), trimmed(printed.get(block.line, "").split("\n"))
        if block.line not in printed:
            results.not_ok(block, title, "not run, since one before it failed")
        elif last and status != 0:
            results.not_ok(block, title, f"{got}\n{err[-2000:]}\nended with status {status}")
        elif want != got:
            results.not_ok(block, title, f"expected:\n{want}\ngot:\n{got}\n{err[-2000:]}")
        else:
            results.ok(block, title)


def make_database(setup):
    psql("postgres", f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
    psql("postgres", f"CREATE DATABASE {DATABASE}")
    psql(DATABASE, "\n".join(line for block in setup for line in block.code))


def main(page, directory):
    first, *sections = read_page(page)
    results = Results(os.path.relpath(page))
    for section in sections:
        for language, blocks in section.programs():
            pooler = None
            try:
                if language not in LANGUAGES:
                    sys.exit(f"{page}:{blocks[0].line}: nothing runs blocks of {language!r}")
                command = LANGUAGES[language].prepare(blocks, directory)
                make_database(first.of("sql"))
                if section.of("ini"):
                    pooler = Pooler(section.of("ini"), directory)
                run_program(command, blocks, section.title, results)
            except Skip as e:
                results.skip(blocks[0], section.title, e)
            finally:
                if pooler:
                    pooler.stop()
    psql("postgres", f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
    print(f"1..{results.number}")
    print(f"{results.passed} passed, {results.failed} failed, {results.skipped} skipped")
    return 1 if results.failed or not results.number else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
