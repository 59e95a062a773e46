"""Runs commands, reads and recoveries on damaged data directories, a process for each case.

By hand, with any seeds, from the top of the checkout:

    python -m tests.crash.hostile_directories --first 5000 --count 200

It prints a line of JSON for each case that breaks a rule; ``--keep DIRECTORY`` leaves the cases
there, and ``--verbose`` prints every command with its exit code.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.machinery.damage import batch_positions
from tests.machinery.directory_damage import (
    DIRECTORY,
    FAKE_LINE,
    Entry,
    Kind,
    damage_directory,
    files_of,
    partitions_of,
)
from tests.machinery.odd_logs import write_log

import tidelog
from tidelog.cli.main import main as run_command
from tidelog.codec.crc32c import crc32c
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.partition_directories import partition_of
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import TidelogError
from tidelog.kernels.runtime import gate
from tidelog.log.reading.offset_lookup import OffsetTarget
from tidelog.readonly.log_follower import LogFollower
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.records.isolation import ReadUpTo
from tidelog.segment.filenames import LOG_SUFFIX, parse_segment_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

GOLDEN = Path(__file__).parents[1] / "golden"
BASES = (
    *(f"own/data/{name}" for name in (
        "short-writer", "short-writer-killed", "short-writer-creating", "short-writer-deleting",
        "service-a", "service-killed-a", "damaged", "damaged-marked", "moving-b", "swapping-b",
        "altering-a", "power-cut-a",
    )),
    *(f"data/{name}" for name in (
        "whole-dir", "whole-dir-crash", "transactions", "internal", "epochs", "oldformat", "v2edge",
        *(f"crash/{name}/before" for name in (
            "kill", "flip-middle", "flip-old", "swap-left", "swap-and-cleaned", "txn-torn-batch",
            "epochs-beyond", "logstart-beyond", "orphan-index", "segment-missing", "snapshot-stray",
        )),
        "compaction/before", "compaction/after",
    )),
)  # fmt: skip
MOST_PARTITIONS = 3
MOST_LOOKS = 10
MEMORY_BYTES = 1 << 30
"""How much more address space a case may use than the process that it is forked from."""
RESIDENT_KIB = 400 << 10
COMMAND_SECONDS = 60
CASE_SECONDS = 240
EXIT_CODES = {0, 1, 2, 3}
NOW = "1800000000000"
REAL_EVERY = 50
"""One case in this many runs commands as processes of their own."""


@dataclass(slots=True)
class Outcome:
    """What a command printed, and its exit code."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str


class Overdue(BaseException):
    """A command takes too long."""


@dataclass
class Case:
    """One damaged directory, and what is found wrong with how tidelog treats it."""

    seed: int
    home: Path
    is_real: bool = False
    is_verbose: bool = False
    has_kernels: bool = False
    base: str = ""
    done: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    commands: int = 0

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.home / "data"

    @property
    def beside(self) -> Path:
        """What nothing may touch."""
        return self.home / "beside"

    def fault(self, text: str) -> None:
        """Note a broken rule."""
        self.faults.append(text[-3000:])

    def command(self, *words: str, directory: Path | None = None) -> Outcome:
        """Run a command, and check what is true of every command."""
        if "-d" not in words and words[0] != "dump":
            words = (*words, "-d", str(directory or self.data))
        self.commands += 1
        began = time.monotonic()
        run = run_as_process if self.is_real else run_here
        outcome = run(self, words)
        if self.is_verbose:
            took = time.monotonic() - began
            note(f"{took:6.2f}s {outcome.code} {' '.join(words)}")
            note(outcome.out[-1500:] + outcome.err[-1500:])
        text = outcome.out + outcome.err
        if outcome.code not in EXIT_CODES:
            self.fault(f"{words}: exit code {outcome.code}: {text[-1500:]}")
        if "Traceback (most recent" in text:
            self.fault(f"{words}: traceback: {text[-2500:]}")
        if "\x1b" in text or any(line.startswith(FAKE_LINE) for line in text.splitlines()):
            self.fault(f"{words}: a name is printed raw: {text[-500:]!r}")
        return outcome


def note(text: str) -> None:
    """Print a line beside the report."""
    sys.__stderr__.write(text + "\n")  # type: ignore[union-attr]  # there is one in a terminal


def report(facts: dict[str, Any]) -> None:
    """Print a line of the report."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def run_here(case: Case, words: tuple[str, ...]) -> Outcome:
    """Run a command in this process."""
    raw, told = io.BytesIO(), io.BytesIO()
    out = io.TextIOWrapper(raw, "utf-8", write_through=True)
    err = io.TextIOWrapper(told, "utf-8", "backslashreplace", write_through=True)
    code = 3
    signal.alarm(COMMAND_SECONDS)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run_command(words)
    except Overdue:
        case.fault(f"{words}: hangs: {traceback.format_exc()}")
    except BaseException:  # noqa: BLE001 - whatever it is, it breaks a rule
        case.fault(f"{words}: {traceback.format_exc()}")
    finally:
        signal.alarm(0)
    out.flush()
    return Outcome(words, code, raw.getvalue().decode(), told.getvalue().decode())


def run_as_process(case: Case, words: tuple[str, ...]) -> Outcome:
    """Run a command as a process of its own."""
    argv = [sys.executable, "-X", "faulthandler", "-m", "tidelog", *words]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=CASE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        case.fault(f"{words}: hangs")
        return Outcome(words, 3, "", "")
    return Outcome(words, done.returncode, done.stdout.decode(), done.stderr.decode())


# The directory


def base_trees(rng: Random) -> tuple[str, dict[str, Entry]]:
    """Return a directory to damage, with a few partitions, and where it is from."""
    if rng.random() < 0.2:
        seed = rng.randrange(1 << 20)
        stored = write_log(seed)
        tree = {stored.name: DIRECTORY}
        for name, data in stored.files.items():
            tree[f"{stored.name}/{name}"] = Entry(data=data)
        return f"log {seed}", tree
    name = rng.choice(BASES)
    tree = read_tree(GOLDEN / name)
    names = partitions_of(tree)
    kept = set(rng.sample(names, min(len(names), rng.randint(1, MOST_PARTITIONS))))
    if "__cluster_metadata-0" in names and rng.random() < 0.7:
        kept.add("__cluster_metadata-0")
    dropped = set(names) - kept
    return name, {path: e for path, e in tree.items() if path.partition("/")[0] not in dropped}


def read_tree(top: Path) -> dict[str, Entry]:
    """Read a directory of golden data; expectations are left out."""
    tree: dict[str, Entry] = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if name.partition("/")[0] in {"expected", "dump", "case.json"}:
            continue
        tree[name] = DIRECTORY if path.is_dir() else Entry(data=path.read_bytes())
    return tree


def write_tree(tree: dict[str, Entry], top: Path, beside: Path) -> None:
    """Write a tree to the disk, as far as its names allow."""
    top.mkdir()
    for name, entry in sorted(tree.items()):
        path = os.path.join(top, name)
        with suppress(OSError, ValueError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            match entry.kind:
                case Kind.DIRECTORY:
                    os.mkdir(path)
                case Kind.LINK:
                    os.symlink(entry.target.format(beside=beside), path)
                case Kind.FIFO:
                    os.mkfifo(path)
                case Kind.FILE:
                    with Path(path).open("wb") as file:
                        file.write(entry.data)
                        if entry.size > len(entry.data):
                            file.truncate(entry.size)
    for name, entry in sorted(tree.items(), reverse=True):
        if entry.mode is not None:
            with suppress(OSError):
                os.chmod(os.path.join(top, name), entry.mode)


def write_beside(beside: Path) -> None:
    """Write what links lead to."""
    beside.mkdir()
    (beside / "file").write_bytes(b"not tidelog's\n")
    (beside / "fifos").mkdir()
    os.mkfifo(beside / "fifos" / "00000000000000000000.log")
    (beside / "kept-0").mkdir()
    for name, data in _kept_log().items():
        (beside / "kept-0" / name).write_bytes(data)


@cache
def _kept_log() -> Mapping[str, bytes]:
    return write_log(7).files


def listing(top: Path) -> list[tuple[Any, ...]]:
    """Return everything about a directory that a look could change."""
    found: list[tuple[Any, ...]] = [described(str(top))]
    for where, directories, files in os.walk(top):
        found += [described(os.path.join(where, name)) for name in (*directories, *files)]
    return sorted(found)


def described(path: str) -> tuple[Any, ...]:
    """Return kind, size, time and content of one entry."""
    at = os.lstat(path)
    content = ""
    if stat.S_ISLNK(at.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(at.st_mode):
        with Path(path).open("rb") as file:
            content = hashlib.sha256(file.read(1 << 20)).hexdigest()
    return (path, at.st_mode, at.st_size, at.st_mtime_ns, at.st_ino, content)


def differences(before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]) -> str:
    """Return what has changed between two listings; empty if nothing has."""
    return "; ".join(map(str, sorted(set(before) ^ set(after))[:6]))


# What must not be lost


def intact_batches(tree: dict[str, Entry], base: dict[str, Entry]) -> dict[str, set[bytes]]:
    """Return the batches of live partitions that no damage has hit, by directory."""
    whole = {
        batch
        for path, entry in base.items()
        if path.endswith(LOG_SUFFIX)
        for batch in batches_of(entry.data)
    }
    found: dict[str, set[bytes]] = {}
    deleted = deleted_ids(tree)
    for name in partitions_of(tree):
        files = files_of(tree, name)
        id_line = files.get("partition.metadata", b"").rpartition(b" ")[2].strip()
        if partition_of(name) is None or tree[name].mode is not None or id_line in deleted:
            continue
        logs = [
            data
            for file, data in files.items()
            if (parsed := parse_segment_file(file)) is not None
            and (parsed.kind, parsed.state) == (LOG_SUFFIX, "")
            and tree[f"{name}/{file}"].mode is None
        ]
        found[name] = {batch for data in logs for batch in batches_of(data)} & whole
    return found


def deleted_ids(tree: dict[str, Entry]) -> set[bytes]:
    """Return the ids of topics whose deletion opening the directory completes."""
    with suppress(KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {
            str(text).encode("utf-8", "replace")
            for text in json.loads(tree["tidelog.topics.json"].data)["deleted"]
        }
    return set()


def batches_of(data: bytes) -> Iterator[bytes]:
    """Yield the batches of the current format whose checksum is right."""
    positions = batch_positions(data)
    for start, end in pairwise(positions):
        batch = data[start:end]
        if (
            len(batch) > 61
            and batch[16] == 2
            and crc32c(batch[21:]) == int.from_bytes(batch[17:21])
        ):
            yield batch


def kept_bytes(top: Path) -> bytes:
    """Return the bytes of all files under a directory, of huge ones the first."""
    pieces = []
    for where, _, names in os.walk(top):
        for name in names:
            path = os.path.join(where, name)
            with suppress(OSError):
                if stat.S_ISREG(os.lstat(path).st_mode):
                    with Path(path).open("rb") as file:
                        pieces.append(file.read(1 << 21))
    return b"".join(pieces)


def holds(kept: bytes, batch: bytes) -> bool:
    """Return whether a batch is in ``kept``; searching for its header first is far quicker."""
    header = batch[:61]
    at = kept.find(header)
    while at >= 0 and not kept.startswith(batch, at):
        at = kept.find(header, at + 1)
    return at >= 0


def has_aliases(tree: dict[str, Entry]) -> bool:
    """Return whether two partitions have one directory, which no check of either can see."""
    return any(
        entry.kind is Kind.LINK and entry.target in tree and partition_of(path) is not None
        for path, entry in tree.items()
    )


# The acts


def looks(rng: Random, case: Case) -> list[tuple[str, ...]]:
    """Return every command that only looks."""
    some = str(rng.choice((0, 1, 10, 10**6, 2**63 - 1)))
    topics = sorted({key.topic for key in map(partition_of, entries_of(case.data)) if key})
    topic = rng.choice(topics) if topics else "none"
    number = rng.choice(("0", "1"))
    cat = ("cat", topic, "-p", number)
    found: list[tuple[str, ...]] = [
        ("verify",),
        ("verify", "--json"),
        ("describe", "--json"),
        ("describe",),
        ("describe", "--log-dirs"),
        ("offsets",),
        ("offsets", "--count"),
        ("offsets", "--at", rng.choice(("1700000000500", "latest", "earliest", "0"))),
        ("txns",),
        ("picture", "--width", "60"),
        ("salvage",),
        ("salvage", "--records"),
        ("metrics",),
        ("cleaner", "status", "--now", NOW),
        ("plan", "recovery", "--now", NOW),
        ("plan", "retention", "--now", NOW),
        ("plan", "compaction", "--now", NOW),
        ("recover", "--dry-run", "--full", "--now", NOW),
        ("delete", topic, "--dry-run"),
        ("delete-records", topic, "-p", "all", "--before", some, "--dry-run"),
        (*cat, "--encoding", "base64"),
        (*cat, "--encoding", "hex", "--skip-damage", "--up-to", "logEnd"),
        (*cat, "--isolation", "read_committed", "--from", some),
        (*cat, "--since", "1700000000500", "-n", "3"),
    ]
    files = [path for path in case.data.rglob("*") if not path.is_dir()] or [case.data / "missing"]
    found += [("dump", str(path)) for path in rng.sample(sorted(files), min(6, len(files)))]
    found.append(("dump", "--records", str(rng.choice(sorted(files)))))
    return found


def entries_of(directory: Path) -> list[str]:
    """Return the names in a directory."""
    return sorted(os.listdir(directory))


def check_looks(rng: Random, case: Case) -> bool:
    """Run every look; return whether ``verify`` finds no damage."""
    words = looks(rng, case)
    words = [words[0], *rng.sample(words[1:], 4 if case.is_real else MOST_LOOKS)]
    before = listing(case.home)
    outcomes = [case.command(*each) for each in words]
    change = differences(before, listing(case.home))
    if change:
        case.fault(f"looking has changed: {change}")
    for number in {0, *rng.sample(range(len(words)), 2)}:
        again = case.command(*words[number])
        first = outcomes[number]
        if (again.code, again.out, again.err) != (first.code, first.out, first.err):
            case.fault(f"{words[number]}: {first} and then {again}")
    return outcomes[0].code == 0


def check_reads(case: Case) -> None:
    """Read everything through the API that only reads."""
    before = listing(case.home)
    signal.alarm(COMMAND_SECONDS)
    try:
        with suppress(TidelogError):
            directory = open_directory_read_only(str(case.data), fs=SYSTEM_FILES)
            for act in (
                lambda: [topic.config for topic in directory.topics.values()],
                lambda: directory.missing,
                lambda: directory.parts[0].checkpoints,
                lambda: directory.foreign(directory.parts[0]),
            ):
                with suppress(TidelogError):
                    act()
            for topic, partition in directory.found:
                path = directory.partition_path(topic, partition)
                read_partition(partial(directory.open, topic, partition), path)
    except Overdue:
        case.fault(f"a read hangs: {traceback.format_exc()}")
    except Exception:  # noqa: BLE001 - whatever it is, it breaks a rule
        case.fault(f"a read fails: {traceback.format_exc()}")
    finally:
        signal.alarm(0)
    change = differences(before, listing(case.home))
    if change:
        case.fault(f"reading has changed: {change}")


def read_partition(opened: Callable[[], tidelog.ReadOnlyLog], path: str) -> None:
    """Read a log in every way; errors of tidelog's are fine."""
    with suppress(TidelogError), opened() as log:
        for act in (
            lambda: log.offsets(ReadUpTo.LOG_END),
            lambda: log.offset_at(1_700_000_000_500),
            lambda: log.topic_id,
            log.last_stable_offset,
            log.count_records,
            lambda: sum(1 for _ in log.records()),
            lambda: sum(1 for _ in log.records(log.log_end_offset // 2)),
            lambda: list(log.transactions()),
            lambda: log.offset_at(OffsetTarget.MAX_TIMESTAMP),
        ):
            with suppress(TidelogError):
                act()
    follower = LogFollower(path, fs=SYSTEM_FILES)
    for _ in range(2):
        with suppress(TidelogError):
            read = follower.opened_if_changed()
            if read is not None:
                with read:
                    for columns in follower.columns():
                        len(columns)


def check_rescue(case: Case, intact: dict[str, set[bytes]]) -> None:
    """Rescue what can be read; nothing is changed, and only what is reported is not copied."""
    before, new = listing(case.data), case.home / "new"
    outcome = case.command("rescue", "--to", str(new))
    change = differences(before, listing(case.data))
    if change:
        case.fault(f"rescuing has changed: {change}")
    if outcome.code:
        return
    for name, batches in intact.items():
        kept = kept_bytes(new / name)
        lost = [batch for batch in batches if not holds(kept, batch)]
        if lost and not name.startswith(METADATA_TOPIC):
            case.fault(f"a rescue without losses has lost {len(lost)} batches of {name}")


def check_recovery(case: Case, intact: dict[str, set[bytes]], *, is_sound: bool) -> None:
    """Recover; nothing that was intact is lost."""
    outcome = case.command("recover", "--now", NOW)
    # A torn end is not damage, though recovery reports what it cuts.
    if is_sound and ("cannot be loaded" in outcome.err or "is offline" in outcome.err):
        case.fault(f"verify finds no damage, but recover: {outcome}")
    kept = kept_bytes(case.data)
    for name, batches in intact.items():
        # A cut file leaves out the zeros in which the last batch may end.
        lost = [batch for batch in batches if not holds(kept, batch.rstrip(b"\0"))]
        if lost:
            offsets = sorted(int.from_bytes(batch[:8]) for batch in lost)
            case.fault(f"recovery has lost batches of {name} at {offsets[:20]}: {outcome}")


def writes(rng: Random, case: Case) -> list[tuple[str, ...]]:
    """Return some commands that write."""
    topics = sorted({key.topic for key in map(partition_of, entries_of(case.data)) if key})
    topic = rng.choice([*topics, "new"])
    lines = case.home / "lines"
    lines.write_bytes(b"one\ntwo\n")
    found: list[tuple[str, ...]] = [
        ("append", topic, str(lines)),
        ("append", topic, str(lines), "-p", "1", "--compression", "zstd"),
        ("create", rng.choice(("made", topic)), "-p", "2"),
        ("alter", topic, "-o", "retention.ms=-1"),
        ("retain", "--now", NOW),
        ("retain", topic, "-o", "retention.ms=1", "--now", NOW),
        ("compact", "--now", NOW),
        ("compact", topic, "-o", "cleanup.policy=compact", "--now", NOW),
        ("delete-records", topic, "-p", "all", "--before", str(rng.choice((0, 3, 50, 2**62)))),
        ("delete", topic),
        ("move", topic, "--to", str(case.home / "other")),
        ("recover", "--no-keep", "--full"),
    ]
    return rng.sample(found, 3)


def check_open(case: Case, *, is_sound: bool) -> None:
    """Open the directory for writing, append to each topic, and close it."""
    signal.alarm(COMMAND_SECONDS)
    try:
        try:
            with tidelog.open(str(case.data)) as logs:
                for topic in logs.topics():
                    with suppress(TidelogError):
                        logs.append(topic, b"value", key=b"key")
                        sum(1 for _ in logs.read(topic))
        except TidelogError as error:
            if is_sound:
                case.fault(f"verify finds no damage, but opening: {error!r}")
    except Overdue:
        case.fault(f"opening hangs: {traceback.format_exc()}")
    except BaseException:  # noqa: BLE001 - whatever it is, it breaks a rule
        case.fault(f"opening fails: {traceback.format_exc()}")
    finally:
        signal.alarm(0)


def check_service(case: Case) -> None:
    """Start the service and stop it."""
    words = ("run", "-d", str(case.data))
    argv = [sys.executable, "-m", "tidelog", *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as service:
        timer = threading.Timer(3, service.terminate)
        timer.start()
        try:
            out, err = service.communicate(timeout=CASE_SECONDS)
        except subprocess.TimeoutExpired:
            service.kill()
            case.fault("run: hangs")
            return
        finally:
            timer.cancel()
    text = (out + err).decode()
    if service.returncode not in {*EXIT_CODES, 143} or "Traceback" in text:
        case.fault(f"run: {service.returncode} {text[-2000:]}")


def run_case(case: Case) -> None:
    """Damage a directory, look at it, recover it and write to it."""
    gate.force(case.has_kernels)
    rng = Random(case.seed)
    case.base, base = base_trees(rng)
    damaged = damage_directory(rng, base)
    case.done = damaged.done
    write_beside(case.beside)
    write_tree(damaged.tree, case.data, case.beside)
    (case.home / "other").mkdir()
    before = listing(case.beside)
    is_sound = check_looks(rng, case) and not has_aliases(damaged.tree)
    check_reads(case)
    copy = None
    if rng.random() < 0.3 and not case.is_real:
        copy = case.home / "copy"
        write_tree(damaged.tree, copy, case.beside)
    check_rescue(case, intact_batches(damaged.tree, base))
    check_recovery(case, intact_batches(damaged.tree, base), is_sound=is_sound)
    if case.is_real:
        check_service(case)
    for words in writes(rng, case):
        case.command(*words)
    check_open(case, is_sound=is_sound)
    for words in rng.sample(looks(rng, case), 3):
        case.command(*words)
    if copy is not None:  # without a recovery by command first
        shutil.rmtree(case.data)
        copy.rename(case.data)
        check_open(case, is_sound=is_sound)
    change = differences(before, listing(case.beside))
    if change:
        case.fault(f"beside the directory has changed: {change}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if peak > RESIDENT_KIB:
        case.fault(f"{peak:,} KiB of memory were used")


# A process for each case


def in_child(case: Case, results: int) -> None:
    """Run a case with limits; write what it found."""

    def overdue(*_: object) -> None:
        raise Overdue

    def died(args: threading.ExceptHookArgs) -> None:
        text = traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback)
        case.fault(f"a thread failed: {''.join(text)}")

    signal.signal(signal.SIGALRM, overdue)
    threading.excepthook = died
    if not case.is_real:
        with Path("/proc/self/statm").open(encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
    try:
        run_case(case)
    except BaseException:  # noqa: BLE001 - reported as a fault of the case
        case.fault(f"the case itself failed: {traceback.format_exc()}")
    facts = {
        "seed": case.seed,
        "base": case.base,
        "done": case.done,
        "faults": case.faults,
        "commands": case.commands,
    }
    os.write(results, json.dumps(facts).encode())


def forked(case: Case) -> dict[str, Any]:
    """Run a case in a fork of this process; return what it found."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with (case.home / "trace").open("w", encoding="utf-8") as file:
            faulthandler.dump_traceback_later(CASE_SECONDS, file=file, exit=True)
            in_child(case, write)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    if not said:
        trace = (case.home / "trace").read_text("utf-8")
        text = f"died with status {status}: {trace}"
        return {"seed": case.seed, "faults": [text], "commands": 0}
    facts: dict[str, Any] = json.loads(said)
    return facts


def warm(*, has_kernels: bool) -> None:
    """Load what commands use, so that no case waits for it."""
    if has_kernels:
        with redirect_stdout(io.StringIO()):
            run_command(("warm",))
    with tempfile.TemporaryDirectory() as top:
        case = Case(0, Path(top))
        shutil.copytree(GOLDEN / "own/data/short-writer", case.data)
        write_beside(case.beside)
        (case.home / "other").mkdir()
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        check_looks(Random(0), case)
        check_reads(case)
        check_recovery(case, {}, is_sound=True)
        check_open(case, is_sound=True)


def main() -> int:
    """Run cases; return 1 if one broke a rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--keep", type=Path, help="leave the cases in this directory")
    parser.add_argument("--plain", action="store_true", help="use no compiled code")
    parser.add_argument("--verbose", action="store_true", help="print every command")
    args = parser.parse_args()
    warm(has_kernels=not args.plain)
    broken = commands = 0
    for seed in range(args.first, args.first + args.count):
        home = Path(tempfile.mkdtemp(prefix=f"case-{seed}-", dir=args.keep))
        case = Case(
            seed,
            home,
            is_real=seed % REAL_EVERY == REAL_EVERY - 1,
            is_verbose=args.verbose,
            has_kernels=not args.plain and seed % 2 == 1,
        )
        try:
            facts = forked(case)
        finally:
            if args.keep is None:
                shutil.rmtree(home, ignore_errors=True)
        commands += facts["commands"]
        if facts["faults"]:
            broken += 1
            report(facts)
    report({"cases": args.count, "broken": broken, "commands": commands})
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
