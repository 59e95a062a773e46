"""Directories of tidelog's own: which there are, and what a version of tidelog makes of them.

Only the command line and ``tidelog`` itself are used here, for they stay while what is inside
moves. ``make_own_golden.py`` takes the facts with this file too, so both sides ask alike.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.cli.main import main
from tidelog.datadir.least_epoch import LEAST_EPOCH_FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

HERE = Path(__file__).parent
DATA = HERE / "data"
EXPECTED = HERE / "expected"
LEFT_MS = 1_700_010_000_000
"""When each directory was last touched, as far as its tests are concerned."""
OPENED_MS = LEFT_MS + 3_600_000
ALONE = "--allow-partial"
"""Each directory is looked at by itself, also one of two that belong together."""
"""What time it is in the commands that take ``--now``: later than any delay before a deletion."""
FEW_RECORDS = 8
SETTINGS = {"log.cleaner.enable": "false", "log.initial.task.delay.ms": "3600000"}
"""A service that keeps what it finds: no cleaning, and no task that depends on the time of day."""
TELLING = {"message.timestamp.type", "compression.type"}
"""With these the time of day, or a codec's version, would stand in a batch that is appended."""
UNIQUE = re.compile(r"[0-9a-f]{32}")
CHECKPOINT = re.compile(r"[^/]+-offset-checkpoint")
LEAST_DRAWN, MOST_EPOCHS = 1 << 12, 1 << 31
"""Leader epochs from there on begin after a loss."""
BATCH_HEADER_BYTES = 61

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One or two data directories that one process had."""

    name: str
    about: str
    directories: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    @property
    def expected(self) -> Row:
        """What a service of the base made of them all."""
        return expected_of(f"{self.name}.service")


@cache
def expected_of(name: str) -> Row:
    """Return what is kept under a name."""
    facts: Row = json.loads((EXPECTED / f"{name}.json").read_text("utf-8"))
    return facts


CASES = tuple(
    Case(name, about, tuple(f"{name}{suffix}" for suffix in suffixes))
    for name, about, suffixes in (
        ("short-writer", "commands, one after the other", ("",)),
        ("short-writer-killed", "killed between two flushes", ("",)),
        ("short-writer-creating", "killed while it made a topic", ("",)),
        ("short-writer-deleting", "killed while it deleted one", ("",)),
        ("service", "stopped in order", ("-a", "-b")),
        ("service-killed", "killed with everything under way", ("-a", "-b")),
        ("moving", "killed when half of a copy was made", ("-a", "-b")),
        ("swapping", "killed before a copy got its name", ("-a", "-b")),
        ("altering", "killed between two catalogues", ("-a", "-b")),
        ("dropping", "killed while it deleted a topic", ("-a", "-b")),
        ("power-cut", "what was not synced is there in part", ("-a", "-b")),
        ("damaged", "damage where a service was killed", ("",)),
        ("damaged-marked", "damage under the mark of a clean end", ("",)),
    )
)
WHOLE = ("short-writer", "service")
"""The cases that were closed in order and never damaged."""


def copy_directory(name: str, target: Path) -> Path:
    """Copy a data directory to where it may be changed; every time is that of ``LEFT_MS``."""
    copy = target / name
    shutil.copytree(DATA / name, copy, copy_function=shutil.copyfile)
    for path in [copy, *copy.rglob("*")]:
        os.utime(path, ns=(LEFT_MS * 1_000_000, LEFT_MS * 1_000_000))
    return copy


def run(*words: str | Path) -> tuple[int, bytes]:
    """Run a command as a shell would; return its exit code and what it printed."""
    with (
        io.BytesIO() as raw,
        io.TextIOWrapper(raw, "utf-8", write_through=True) as out,
        io.TextIOWrapper(io.BytesIO(), "utf-8") as told,
    ):
        with redirect_stdout(out), redirect_stderr(told):
            code = main([str(word) for word in words])
        out.flush()
        printed = raw.getvalue()
    return code, printed


def rows_of(*words: str | Path) -> tuple[int, list[Row]]:
    """Run a command that prints a line of JSON a row; leave out the counts at the end."""
    code, printed = run(*words)
    rows = [json.loads(line) for line in printed.splitlines()]
    return code, [row for row in rows if "counts" not in row]


def chosen(row: Row, *names: str) -> Row:
    """Return some members of a row, in that order."""
    return {name: row[name] for name in names}


def place(row: Row) -> str:
    """Name the partition that a row is about."""
    return f"{row['topic']}-{row['partition']}"


def listed(lines: list[bytes]) -> Row:
    """Return records as they are kept: a few as they are, many as their digest."""
    if len(lines) <= FEW_RECORDS:
        return {"count": len(lines), "records": [_short(line) for line in lines]}
    digest = hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()
    return {"count": len(lines), "sha256": digest, "ends": [_short(lines[0]), _short(lines[-1])]}


def _short(line: bytes) -> Row:
    """Return a printed record without its topic and partition."""
    row: Row = json.loads(line)
    return {name: value for name, value in row.items() if name not in {"topic", "partition"}}


def catted(directory: Path, name: str, *options: str) -> Row:
    """Return what ``tidelog cat`` prints of a partition, and its exit code.

    Without the encodings that rows state now: they did not when the facts were recorded.
    """
    code, printed = run("cat", "-d", directory / name, "--encoding", "base64", *options)
    return {"exit": code, **listed([_without_encodings(line) for line in printed.splitlines()])}


def _without_encodings(line: bytes) -> bytes:
    row: Row = json.loads(line)
    row["headers"] = [header[:2] for header in row["headers"]]
    kept = {name: value for name, value in row.items() if not name.endswith("Encoding")}
    return json.dumps(kept, ensure_ascii=False).encode()


def offsets_of(directory: Path) -> Row:
    """Return what ``tidelog offsets`` prints of each partition, and its exit code."""
    code, rows = rows_of("offsets", "-d", directory, ALONE)
    names = ("logStartOffset", "highWatermark", "lastStableOffset", "logEndOffset")
    return {"exit": code, "partitions": {place(row): chosen(row, *names) for row in rows}}


def described(directory: Path) -> Row:
    """Return topics, settings and segments as ``tidelog describe`` has them."""
    code, rows = rows_of("describe", "-d", directory, ALONE, "--json")
    names = ("topicId", "config", "logStartOffset", "highWatermark", "logEndOffset", "sizeBytes")
    facts = {}
    for row in rows:
        parts = ("baseOffset", "endOffset", "logBytes", "isActive")
        segments = [list(chosen(segment, *parts).values()) for segment in row["segments"]]
        is_damaged = row["damage"] is not None
        facts[place(row)] = {**chosen(row, *names), "segments": segments, "isDamaged": is_damaged}
    return {"exit": code, "partitions": facts}


def cleaned(directory: Path) -> Row:
    """Return how far compacted topics are cleaned, as ``tidelog cleaner status`` says."""
    words = ("cleaner", "status", "-d", directory, ALONE, "--json", "--now", str(OPENED_MS))
    code, rows = rows_of(*words)
    names = ("firstDirtyOffset", "firstUncleanableOffset", "dirtyRatio")
    facts = {
        place(row): {**chosen(row, *names), "hasFailed": row["failure"] is not None} for row in rows
    }
    return {"exit": code, "partitions": facts}


def read_facts(directory: Path) -> Row:
    """Return what readers see, without a lock and without a change."""
    offsets = offsets_of(directory)
    records = {
        name: {
            "visible": catted(directory, name),
            "all": catted(directory, name, "--up-to", "logEnd"),
            "committed": catted(directory, name, "--isolation", "read_committed"),
        }
        for name in sorted(offsets["partitions"])
    }
    return {
        "offsets": offsets,
        "described": described(directory),
        "cleaner": cleaned(directory),
        "records": records,
    }


def recovered_facts(directory: Path) -> Row:
    """Let a short-lived writer load every log and close in order; return what it left."""
    words = ("recover", "-d", directory, "--json", "--now", str(OPENED_MS))
    code, rows = rows_of(*words)
    names = ("logStartOffset", "logEndOffset", "lostBytes", "lostRecords")
    loaded = {place(row): chosen(row, *names) for row in rows}
    offsets = offsets_of(directory)
    return {
        "exit": code,
        "loaded": loaded,
        "offsets": offsets,
        "records": {name: catted(directory, name) for name in sorted(offsets["partitions"])},
        "files": digests(directory),
    }


def written_facts(directory: Path, batch: Path) -> Row:
    """Append a record to each partition, each by a process of its own; return what is there."""
    before = digests(directory)
    _, rows = rows_of("describe", "-d", directory, ALONE, "--json")
    batch.write_text(json.dumps({"key": "k", "value": "new", "timestamp": OPENED_MS}) + "\n")
    codes = {}
    for row in rows:
        if not TELLING.isdisjoint(row["config"]):
            continue
        partition = str(row["partition"])
        where = ("-d", directory, "-p", partition)
        words = ("append", row["topic"], batch, "--format", "json", *where)
        codes[place(row)], _ = run(*words)
    after = digests(directory)
    changed = {name: digest for name, digest in after.items() if before.get(name) != digest}
    gone = sorted(before.keys() - after.keys())
    offsets = offsets_of(directory)
    return {"exits": codes, "offsets": offsets, "changed": changed, "gone": gone}


def service_facts(directories: list[Path]) -> Row:
    """Open all directories of a case as a service does, and close it; return what it left."""
    first, *more = directories
    copies = [path for directory in directories for path in directory.glob("*-future")]
    with tidelog.open(first, *more, config=SETTINGS) as logs:
        for path in copies:  # a move that is under way already is only waited for
            topic, _, number = path.name.partition(".")[0].rpartition("-")
            logs.move_partition(topic, int(number), path.parent)
        topics = {
            name: {"partitions": sorted(topic.partitions), "config": dict(topic.config)}
            for name, topic in sorted(logs.topics().items())
        }
    return {
        "topics": topics,
        "directories": {
            path.name: {
                "offsets": offsets_of(path),
                "records": {name: catted(path, name) for name in sorted(partitions_of(path))},
                "files": digests(path),
            }
            for path in directories
        },
    }


def partitions_of(directory: Path) -> list[str]:
    """Name the live partitions that lie in a data directory."""
    return list(offsets_of(directory)["partitions"])


def digests(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file by its path in the directory; random parts of names are *.

    The order of lines in a directory's checkpoints means nothing. Files of tidelog's own are named
    only: the commands report their content, and their form may gain a version. The leader epochs
    that begin after a loss, or a process that was killed, are left out: they are drawn.
    """
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    found: dict[str, list[str]] = {}
    for path in paths:
        name = UNIQUE.sub("*", path.relative_to(directory).as_posix())
        data = path.read_bytes()
        if CHECKPOINT.fullmatch(name):
            data = b"".join(sorted(data.splitlines(keepends=True)))
        data = without_drawn_epochs(path.name, data)
        if name == LEAST_EPOCH_FILE:
            continue
        is_own = name.startswith("tidelog.")
        digest = "own" if is_own else hashlib.sha256(data).hexdigest()
        found.setdefault(name, []).append(digest)
    return {name: " ".join(sorted(same)) for name, same in found.items()}


def without_drawn_epochs(name: str, data: bytes) -> bytes:
    """Return a file of a log as if no leader epoch had begun where its end was lost."""
    if name == "leader-epoch-checkpoint":
        version, _, *lines = data.splitlines(keepends=True) or [b"", b""]
        kept = [line for line in lines if int(line.split()[0]) < LEAST_DRAWN]
        return data if len(kept) == len(lines) else b"".join([version, b"%d\n" % len(kept), *kept])
    if not name.endswith(".log"):
        return data
    changed, at, latest = bytearray(data), 0, 0
    while at + BATCH_HEADER_BYTES <= len(data):
        epoch = int.from_bytes(data[at + 12 : at + 16], "big")
        if LEAST_DRAWN <= epoch < MOST_EPOCHS and data[at + 16] == 2:
            changed[at + 12 : at + 16] = latest.to_bytes(4, "big")
        latest = max(latest, epoch) if epoch < LEAST_DRAWN else latest
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return bytes(changed)


def contents(directory: Path) -> dict[str, bytes]:
    """Return every file of a directory, byte by byte."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="session", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    """Each case in turn."""
    found: Case = request.param
    return found


@pytest.fixture(scope="session", params=[name for case in CASES for name in case.directories])
def name(request: pytest.FixtureRequest) -> str:
    """Each data directory in turn, by its name."""
    found: str = request.param
    return found


@pytest.fixture(
    scope="session",
    params=[name for case in CASES if case.name in WHOLE for name in case.directories],
)
def whole(request: pytest.FixtureRequest) -> str:
    """Each data directory that was closed in order and never damaged, by its name."""
    found: str = request.param
    return found


@dataclass(frozen=True)
class Asked:
    """What commands answered about a copy of a data directory, and its files then."""

    directory: Path
    facts: Row
    before: dict[str, bytes]
    after: dict[str, bytes]


def asked(name: str, parent: Path, facts_of: Callable[[Path], Row]) -> Asked:
    """Copy a directory below ``parent`` and ask for facts about it."""
    copy = copy_directory(name, parent)
    before = contents(copy)
    return Asked(copy, facts_of(copy), before, contents(copy))


@pytest.fixture(scope="module")
def read(name: str, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Each data directory as readers see it: no test changes it."""
    return asked(name, tmp_path_factory.mktemp("read"), read_facts)


@pytest.fixture(scope="module")
def recovered(name: str, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Each data directory after a short-lived writer: no test changes it."""
    return asked(name, tmp_path_factory.mktemp("recovered"), recovered_facts)


@pytest.fixture(scope="module")
def served(case: Case, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Row]:
    """The directories of each case after a service, and what it left: tests may open them again."""
    parent = tmp_path_factory.mktemp("served")
    copies = [copy_directory(name, parent) for name in case.directories]
    return copies, service_facts(copies)


@pytest.fixture
def kinds() -> Counter[str]:
    """Count the files of all directories by what they are."""
    files = [path.relative_to(DATA).parts[1:] for path in DATA.rglob("*") if path.is_file()]
    return Counter(kind_of(parts) for parts in files)


def kind_of(parts: tuple[str, ...]) -> str:
    """Say what a file is: by the directory's suffix, by its own, or by its name."""
    if len(parts) > 1 and parts[0].endswith(("-delete", "-future", "-stray")):
        return parts[0][parts[0].rindex("-") :]
    file = UNIQUE.sub("*", parts[-1])
    return re.sub(r"^\d{20}", "", file)


@pytest.fixture(scope="session")
def own() -> ModuleType:
    """This file, whose functions ask for the facts: tests cannot import it."""
    return sys.modules[__name__]
