"""Command lines that change something, each on a copy of one prepared folder.

``HOME`` in a word stands for the folder. ``drops`` names the topics of which the act may delete
records; of all others each record must be there after any fault.
"""

from __future__ import annotations

import shutil
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.crash.children import in_child
from tests.crash.fault_kinds import KINDS
from tests.crash.planned_faults import PlannedFault
from tests.machinery.metadata_log import add_cluster_metadata

import tidelog
from tidelog.cli.main import main
from tidelog.embedded.doors import open_briefly
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SETTINGS: Final = {
    "retention.ms": "-1",
    "internal.segment.bytes": "200",
    "file.delete.delay.ms": "0",
}
COMPACTED: Final = {**SETTINGS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
OPEN_PRODUCER: Final = 7
FIRST_MS: Final = 10**12
FULL: Final = KINDS[0]


class Act(NamedTuple):
    """A command line. ``seen`` are the data directories and archives that it may change.

    ``before`` are command lines that prepare it, ``prepare`` does what none does. ``grows``: a
    repetition does it a second time. ``leaves`` are patterns of names that the next start takes
    away. ``reads_around``: what cannot be read is reported and left out.
    """

    words: tuple[str, ...]
    seen: tuple[str, ...] = ("data",)
    before: tuple[tuple[str, ...], ...] = ()
    prepare: Callable[[Path], object] = lambda _: None
    drops: frozenset[str] = frozenset()
    grows: bool = False
    leaves: tuple[str, ...] = ()
    reads_around: bool = False


def make_home(home: Path) -> None:
    """Make what every act begins with: data directories, an archive, and files to read."""
    data = home / "data"
    with tidelog.open(data, log_cleaner_enable=False) as logs:
        for topic, config in (("t", SETTINGS), ("u", SETTINGS), ("d", SETTINGS), ("c", COMPACTED)):
            logs.create_topic(topic, 2 if topic == "u" else 1, config=config)
        logs.create_topic("x", config=SETTINGS)
        for number in range(6):
            for topic in ("t", "u", "d"):
                logs.append(
                    topic, b"%d" % number, key=b"k", timestamp=FIRST_MS + number, partition=0
                )
            logs.append("u", b"second %d" % number, timestamp=FIRST_MS + number, partition=1)
            logs.append("c", b"%d" % number, key=b"%d" % (number % 2), timestamp=FIRST_MS + number)
        with logs.reader("t", group="g") as reader:
            next(reader.read())
            reader.commit()
        _begin_transaction(logs)
    with tidelog.open(home / "second", log_cleaner_enable=False) as logs:
        logs.create_topic("apart", config=SETTINGS)
        logs.append("apart", b"v", timestamp=FIRST_MS)
    (home / "lines").write_bytes(b"line 1\nline 2\n")
    run(home, "archive", "HOME/data", "t", "u", "--to", "file://HOME/lake")


def _begin_transaction(logs: tidelog.Logs) -> None:
    partition = logs.partition("x", 0)
    guard = partition.log.start_verification(OPEN_PRODUCER, 0, 0, supports_epoch_bump=False)
    batch = build_batch(
        [(FIRST_MS, None, b"open", ())],
        producer_id=OPEN_PRODUCER,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    partition.append(batch, verification_guard=guard)


class Ran(NamedTuple):
    """How a command line ended, and what it printed."""

    code: int
    out: str
    err: str


def words_of(home: Path, words: tuple[str, ...]) -> list[str]:
    """Return a command line for a folder."""
    return [word.replace("HOME", str(home)) for word in words]


def run(home: Path, *words: str) -> Ran:
    """Run a command line in this process; an interrupt ends it with 130."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(words_of(home, words))
        except KeyboardInterrupt:
            code = 130
    return Ran(code, out.getvalue(), err.getvalue())


def _tear(home: Path) -> None:
    """Leave a torn end, as a crash does."""
    log = max((home / "data" / "t-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + b"torn")
    (home / "data" / ".kafka_cleanshutdown").unlink()


def _break(home: Path) -> None:
    """Damage a record, and lose a partition."""
    log = min((home / "data" / "t-0").glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    shutil.rmtree(home / "data" / "d-0")
    (home / "data" / ".kafka_cleanshutdown").unlink()


def _lose(home: Path) -> None:
    """Lose a partition that is in the archive."""
    shutil.rmtree(home / "data" / "u-1")


def _put_back_older(home: Path) -> None:
    """Let an archive have more than the directory."""
    shutil.copytree(home / "data", home / "newer")
    with open_briefly(home / "newer") as logs:
        for number in range(6):
            logs.append("t", b"newer %d" % number, timestamp=FIRST_MS)
    run(home, "archive", "HOME/newer", "t", "--to", "file://HOME/lake", "--continue")
    shutil.rmtree(home / "newer")


def _run_on_full_disk(home: Path, words: tuple[str, ...], number: int) -> None:
    """Run a command line whose disk is full from one operation on, and end the process then."""
    with PlannedFault(str(home), FULL, number).installed():
        run(home, *words)


def pend(home: Path) -> None:
    """Commit a transaction that is not applied: its disk fails after the commit point."""
    words = "append", "HOME/data", "u", "HOME/lines", "--txn", "halfway"
    source = home / "data"
    for number in range(1, 500):
        data = shutil.copytree(source, home / "tried" / "data")
        shutil.copy(home / "lines", home / "tried")
        in_child(partial(_run_on_full_disk, home / "tried", words, number))
        listed = in_child(partial(run, home / "tried", "staged", "list", "-d", "HOME/data"))
        if "halfway" in listed.out:
            shutil.rmtree(source)
            data.rename(source)
            return
        shutil.rmtree(home / "tried")
    raise AssertionError("no journal was left")


def _spoil(home: Path) -> None:
    """Let a committed transaction be one that cannot be applied."""
    pend(home)
    for path in (home / "data").glob("*.staged"):
        path.unlink()


LAKE: Final = ("--to", "file://HOME/lake")
DELETES_T: Final = frozenset({"t"})
ACTS: Final[dict[str, Act]] = {
    "create": Act(("create", "HOME/data", "new", "-p", "2", "-o", "retention.ms=5")),
    "create, like": Act(("create", "HOME/data", "new", "--like", "t")),
    "alter": Act(
        ("alter", "HOME/data", "t", "-o", "retention.ms=5", "--unset", "file.delete.delay.ms")
    ),
    "alter, follow": Act(("alter", "HOME/data", "t", "--follow", "cleanup.policy")),
    "alter, partitions": Act(("alter", "HOME/data", "u", "-p", "5")),
    "delete": Act(
        ("delete", "HOME/data", "u"), drops=frozenset({"u"}), leaves=("u-*", "*.archive")
    ),
    "move": Act(("move", "HOME/data", "u", "--to", "HOME/other"), ("data other",)),
    "join": Act(("join", "HOME/data", "HOME/second"), ("data", "second")),
    "append": Act(("append", "HOME/data", "t", "HOME/lines"), grows=True),
    "append, txn": Act(("append", "HOME/data", "u", "HOME/lines", "--txn", "once")),
    "staged commit": Act(("staged", "commit", "HOME/data"), prepare=pend),
    "staged drop": Act(
        ("staged", "drop", "HOME/data", "halfway"), prepare=_spoil, drops=frozenset({"u"})
    ),
    "staged forget": Act(
        ("staged", "forget", "HOME/data", "done"),
        before=(("append", "HOME/data", "u", "HOME/lines", "--txn", "done"),),
    ),
    "txns abort": Act(
        ("txns", "abort", "x-0", "-d", "HOME/data", "--producer-id", "7", "--execute"),
    ),
    "txns undo": Act(
        ("txns", "abort", "x-0", "-d", "HOME/data", "--undo", "--execute"),
        before=(("txns", "abort", "x-0", "-d", "HOME/data", "--producer-id", "7", "--execute"),),
    ),
    "groups reset": Act(
        ("groups", "reset", "g", "-d", "HOME/data", "--to", "earliest", "--execute")
    ),
    "groups reset, offset": Act(
        ("groups", "reset", "g", "t", "-d", "HOME/data", "-p", "0", "--to-offset", "3", "--execute")
    ),
    "groups delete": Act(("groups", "delete", "g", "-d", "HOME/data", "--execute")),
    "recover": Act(("recover", "HOME/data"), prepare=_tear),
    "recover, deleting": Act(("recover", "HOME/data", "--no-keep", "--full"), prepare=_tear),
    "rescue": Act(
        ("rescue", "HOME/data", "--to", "HOME/new"), ("new",), prepare=_break, reads_around=True
    ),
    "retain": Act(("retain", "HOME/data", "t", "-o", "retention.bytes=1"), drops=DELETES_T),
    "roll": Act(("roll", "HOME/data")),
    "compact": Act(("compact", "HOME/data", "c"), drops=frozenset({"c"})),
    "archive": Act(
        ("archive", "HOME/data", "d", "--to", "file://HOME/new"), ("data", "file://HOME/new")
    ),
    "archive, snapshot": Act(
        ("archive", "HOME/data", "c", "--snapshot", "s", *LAKE),
        ("data", "file://HOME/lake/snapshots/s"),
    ),
    "archive, continued": Act(
        ("archive", "HOME/data", "t", "--truncate", "--continue", "--sweep", *LAKE),
        ("data", "file://HOME/lake"),
        prepare=_put_back_older,
    ),
    "archive, following": Act(
        ("archive", "HOME/data", "t", "--follow-start", "--continue", *LAKE),
        ("data", "file://HOME/lake"),
        (
            ("archive", "HOME/data", "t", "--continue", *LAKE),
            ("delete-records", "HOME/data", "t", "-p", "0", "--before", "3"),
        ),
        drops=DELETES_T,
    ),
    "restore": Act(("restore", "file://HOME/lake", "--to", "HOME/new"), ("new",)),
    "restore, keeping ids": Act(
        ("restore", "file://HOME/lake", "t", "--keep-ids", "--to", "HOME/new"), ("new",)
    ),
    "restore, lost": Act(
        ("restore", "file://HOME/lake", "u", "-p", "1", "--to", "HOME/data"), prepare=_lose
    ),
    "delete-records": Act(
        ("delete-records", "HOME/data", "t", "-p", "0", "--before", "3"), drops=DELETES_T
    ),
    "mirror": Act(("mirror", "HOME/data", "--to", "HOME/new"), ("data", "new")),
    "mirror again": Act(
        ("mirror", "HOME/data", "--to", "HOME/new"),
        ("data", "new"),
        (
            ("mirror", "HOME/data", "--to", "HOME/new"),
            ("append", "HOME/data", "t", "HOME/lines"),
        ),
    ),
    "to-kafka": Act(("to-kafka", "HOME/data")),
    "from-kafka": Act(
        ("from-kafka", "HOME/data"), prepare=lambda home: add_cluster_metadata(home / "data")
    ),
}
