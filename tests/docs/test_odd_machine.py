"""The fifth user has an odd machine: each command and the library work there all the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conftest import Enumerated

pytestmark = pytest.mark.slow

PROGRAM: Final = """
import shlex, sys
import tidelog
from tidelog.cli.main import main

DIRECTORY = sys.argv[1]

def tidelog_(line):
    code = main([word.replace("DIR", DIRECTORY) for word in shlex.split(line)])
    print("exit code", code, flush=True)

for line in sys.stdin.read().splitlines():
    tidelog_(line)
if sys.argv[2:] == ["api"]:
    with tidelog.open(DIRECTORY) as logs:
        logs.append("tides", b"from a program")
        logs.append_all("tides", [b"%d" % n for n in range(1000)])
        logs.create_topic("sums", exist_ok=True)
        with logs.reader("tides", group="g") as reader, logs.transaction() as txn:
            txn.append("sums", b"%d" % sum(1 for _ in reader.read()))
            reader.commit(within=txn)
        print([record.value for record in logs.read("sums")])
"""
"""Runs a command a line, in one process, and then uses the library."""

WRITES: Final = """create tides -d DIR -p 2 -o retention.ms=-1
append tides -d DIR records.json --format json
delete-records tides -d DIR --before 1 -p 1
retain -d DIR"""
READS: Final = """cat tides -d DIR --from 0 -p 0
cat tides -d DIR -p 0 --format '%k %v'
list DIR
describe DIR
describe --segments DIR
offsets tides -d DIR --count
picture DIR
plan retention DIR
plan recovery DIR
txns DIR
verify DIR"""
BLOCKED: Final = "raise ModuleNotFoundError('No module named numba', name='numba')\n"
NO_CAPABILITIES: Final = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""Root without what makes it root: rights of files count for it, too."""

READ_ONLY_DISK: Final = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


class Machine(NamedTuple):
    """What is odd: variables (None: unset), the directory's name, the umask."""

    environment: Mapping[str, str | None]
    directory: str = "data"
    umask: int = 0o022


ASCII: Final = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
MACHINES: Final = {
    "no numba": Machine({"PYTHONPATH": "blocked"}),
    "a locale without UTF-8": Machine(ASCII),
    "Latin-1 output": Machine({"PYTHONIOENCODING": "latin-1"}),
    "a tiny terminal": Machine({"COLUMNS": "10", "LINES": "2", "TERM": "dumb"}),
    "no HOME": Machine({"HOME": None, "XDG_CACHE_HOME": None, "USER": None, "LOGNAME": None}),
    "a HOME that is not there": Machine({"HOME": "/nonexistent", "XDG_CACHE_HOME": None}),
    "a path with blanks and other letters": Machine({}, "données du 1er\u2028août/ü -d"),
    "umask 077": Machine({}, umask=0o077),
    "an empty environment": Machine(dict.fromkeys(os.environ)),
    "all of it": Machine(
        {"PYTHONPATH": "blocked", **ASCII, "COLUMNS": "1", "HOME": None, "XDG_CACHE_HOME": None},
        "a b/ü",
        0o077,
    ),
}


def run(
    folder: Path, commands: str, machine: Machine, *more: str, prefix: tuple[str, ...] = ()
) -> list[str]:
    """Run commands there; return the lines of their output, at the end of which are errors."""
    path = [str(folder / "blocked")] if "PYTHONPATH" in machine.environment else []
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, **machine.environment, "PYTHONPATH": ":".join([*path, source])}
    done = subprocess.run(
        [*prefix, sys.executable, "-c", PROGRAM, machine.directory, *more],
        cwd=folder,
        env={name: value for name, value in environment.items() if value is not None},
        input=commands.encode(),
        capture_output=True,
        check=False,
        umask=machine.umask,
    )
    output = done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace")
    assert done.returncode == 0, output
    assert "Traceback" not in output, output
    return output.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with records to append, and a numba that cannot be imported."""
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "numba.py").write_text(BLOCKED)
    record = '{"key": "Brést", "value": "höchst ☃ 𝄞", "partition": %d}\n'
    text = "".join(record % (n % 2) for n in range(10))
    (tmp_path / "records.json").write_text(text, "utf-8")
    return tmp_path


@pytest.mark.parametrize("name", MACHINES)
def test_everything_works_on_an_odd_machine(name: str, folder: Path) -> None:
    """Every command ends with 0, and the library appends, reads and commits."""
    machine = MACHINES[name]
    Path(folder, machine.directory).parent.mkdir(parents=True, exist_ok=True)

    lines = run(folder, f"{WRITES}\n{READS}", machine, "api")

    codes = [line for line in lines if line.startswith("exit code ")]
    assert codes == ["exit code 0"] * len(f"{WRITES}\n{READS}".splitlines()), "\n".join(lines)
    assert "[b'1010']" in lines
    owner_only = machine.umask == 0o077
    assert owner_only == (not Path(folder, machine.directory).stat().st_mode & 0o077)


def read_only_prefixes(directory: Path) -> dict[str, tuple[str, ...]]:
    """Return what to put before a command so that it cannot write to a directory, where possible.

    By the directory's mode, and by a file system that is mounted read-only.
    """
    no_rights = NO_CAPABILITIES if os.geteuid() == 0 else ()
    mount = ("unshare", "-rm", "sh", "-c", READ_ONLY_DISK, str(directory))
    wanted = {"mode": no_rights, "mount": mount}
    return {
        name: prefix
        for name, prefix in wanted.items()
        if not prefix
        or (
            shutil.which(prefix[0])
            and not subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode
        )
    }


def test_reading_works_where_nothing_can_be_written(folder: Path, enumerated: Enumerated) -> None:
    """Reads need no right to write; a write ends with 3 and names the directory."""
    machine = Machine({})
    data = folder / "data"
    run(folder, WRITES, machine)
    prefixes = read_only_prefixes(data)
    if not prefixes:
        pytest.skip("this machine has neither setpriv nor unshare")
    enumerated("ways to be read-only", len(prefixes), at_least=1)
    for path in (data, *data.iterdir()):
        if path.is_dir():
            path.chmod(0o555)

    for prefix in prefixes.values():
        lines = run(folder, f"{READS}\nappend tides -d DIR records.json", machine, prefix=prefix)

        codes = [line for line in lines if line.startswith("exit code ")]
        assert codes == ["exit code 0"] * len(READS.splitlines()) + ["exit code 3"], lines
        assert "data" in lines[-1], lines[-1]
