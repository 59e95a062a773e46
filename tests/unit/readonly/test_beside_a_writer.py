"""Looks at a log and at its directory while a writer changes them, between any two operations."""

from __future__ import annotations

import errno
import os
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.machinery.cleaning import CleanerHome

from tidelog.cleaner.compaction import Compaction
from tidelog.codec.checkpoint_file import write_checkpoint
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.env.clock import ClockAt
from tidelog.env.scheduler import InlineScheduler
from tidelog.errors import CorruptMessage, KafkaError, OffsetOutOfRange, UnknownTopicOrPartition
from tidelog.explain.describe import describe_log
from tidelog.explain.plans.retention_plan import plan_retention
from tidelog.explain.verify.findings import Severity
from tidelog.explain.verify.verify_directory import check_directory
from tidelog.explain.verify.verify_partition import verify_partition
from tidelog.manager.compaction_plan import CleanerLines, plan_compaction
from tidelog.readonly.log_follower import LogFollower
from tidelog.readonly.missing.gaps import find_gaps
from tidelog.readonly.read_only_directory import open_directory_read_only
from tidelog.readonly.read_only_log import open_read_only
from tidelog.records.isolation import ReadUpTo
from tidelog.testing import CrashFileSystem
from tidelog.testing.manual_time import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable


DATA = "/data"
PATH = "/data/flights-0"
KEY = ("flights", 0)
CHANGES = frozenset(
    [
        *("write", "rename", "link", "delete", "delete_directory", "make_directory"),
        *("set_mtime_ms", "pwrite", "truncate"),
    ]
)


class Watched:
    """A disk, or an open file, that calls ``before`` ahead of each operation."""

    def __init__(self, below: Any, before: Callable[[], None]) -> None:
        self._below = below
        self._before = before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._below, name)
        if not callable(found) or name in {"close", "hold", "fileno", "native_reads"}:
            return found

        def operation(*args: Any, **how: Any) -> Any:
            self._before()
            result = found(*args, **how)
            return Watched(result, self._before) if name == "open" else result

        return operation


class Change(NamedTuple):
    """One operation that changed the disk; ``file`` numbers the open file, None for a path's."""

    name: str
    file: int | None
    args: tuple[Any, ...]


class Recorded:
    """A disk, or an open file, whose changes are kept, so that they can be made on another one."""

    def __init__(self, below: Any, tape: list[Change], files: list[str], number: int | None = None):
        self._below = below
        self._tape = tape
        self._files = files
        self._number = number

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._below, name)
        if name != "open" and name not in CHANGES:
            return found

        def operation(*args: Any, **how: Any) -> Any:
            result = found(*args, **how)
            if name != "open":
                kept = tuple(bytes(arg) if isinstance(arg, memoryview) else arg for arg in args)
                self._tape.append(Change(name, self._number, kept))
                return result
            self._files.append(args[0])
            if "r" not in args[1:]:
                self._tape.append(Change(name, len(self._files) - 1, args))
            return Recorded(result, self._tape, self._files, len(self._files) - 1)

        return operation


class Scene(NamedTuple):
    """A disk as a writer finds it, and what one step of the writer changes there, in order."""

    contents: dict[str, bytes]
    files: list[str]
    changes: list[Change]

    @classmethod
    def of(cls, step: Callable[[Writer], None]) -> Scene:
        """Let a writer take a step."""
        writer = Writer()
        contents, files = contents_of(writer.home.fs, DATA), list(writer.files)
        writer.tape.clear()
        step(writer)
        return cls(contents, files, writer.tape)


class Stage:
    """A disk on which the changes of a scene are made, as many at a time as a test wants."""

    def __init__(self, scene: Scene) -> None:
        self.fs = CrashFileSystem()
        for path, data in scene.contents.items():
            self.fs.make_directory(path.rpartition("/")[0])
            self.fs.write(path, data)
        self._changes = iter(scene.changes)
        self._files: dict[int, Any] = {}
        self._paths = scene.files

    def advance(self, count: int) -> None:
        """Make the next changes."""
        for change in islice(self._changes, count):
            if change.name == "open":
                self._files[change.file or 0] = self.fs.open(*change.args)
            elif change.file is None:
                getattr(self.fs, change.name)(*change.args)
            else:
                if change.file not in self._files:
                    self._files[change.file] = self.fs.open(self._paths[change.file], "w")
                getattr(self._files[change.file], change.name)(*change.args)


def contents_of(fs: Any, path: str) -> dict[str, bytes]:
    """Return all files below a directory."""
    found: dict[str, bytes] = {}
    for name in fs.list(path):
        entry = f"{path}/{name}"
        if fs.stat(entry).is_directory:
            found |= contents_of(fs, entry)
        else:
            found[entry] = fs.read(entry)
    return found


class Writer:
    """A log that is written; each step is what one may do while somebody looks."""

    def __init__(self) -> None:
        self.home = CleanerHome(
            cleanup_policy=("compact", "delete"),
            internal_segment_bytes=250,
            retention_bytes=500,
            file_delete_delay_ms=0,
        )
        self.tape: list[Change] = []
        self.files: list[str] = []
        self.home.fs = Recorded(self.home.fs, self.tape, self.files)  # type: ignore[assignment]  # it has all methods
        self.log = self.home.open()
        for number in range(12):
            self.append(number)
        self.log.roll()
        self.append(12)
        self.log.delete_records(2)
        self.checkpoint(9)

    def append(self, number: int) -> None:
        self.home.append(self.log, (f"k{number % 4}", f"v{number}"))
        self.log.update_high_watermark(self.log.log_end_offset)

    def checkpoint(self, high_watermark: int) -> None:
        """Write the lines of the log's data directory."""
        start = self.log.log_start_offset
        fs = self.home.fs
        write_checkpoint(fs, f"{DATA}/log-start-offset-checkpoint", {KEY: start})
        write_checkpoint(fs, f"{DATA}/replication-offset-checkpoint", {KEY: high_watermark})


def append(writer: Writer) -> None:
    writer.append(13)
    writer.checkpoint(14)


def roll(writer: Writer) -> None:
    for number in range(13, 19):
        writer.append(number)


def retain(writer: Writer) -> None:
    assert writer.log.retain(writer.home.clock.now_ms())
    writer.home.clock.advance(1)


def delete_records(writer: Writer) -> None:
    writer.log.delete_records(7)
    writer.log.delete_segments_below_start()
    writer.home.clock.advance(1)
    writer.checkpoint(13)


def truncate(writer: Writer) -> None:
    assert writer.log.truncate_to(10)
    writer.home.clock.advance(1)


def truncate_and_append(writer: Writer) -> None:
    writer.log.truncate_to(10)
    for number in range(10, 15):
        writer.append(number)
    writer.home.clock.advance(1)


def clean(writer: Writer) -> None:
    writer.home.clean(writer.log)
    writer.home.clock.advance(1)


def start_anew(writer: Writer) -> None:
    writer.log.truncate_fully_and_start_at(20)
    writer.home.clock.advance(1)


def delete(writer: Writer) -> None:
    """As the manager does: first the lines, then the directory is renamed, then it is emptied."""
    fs = writer.home.fs
    for name in ("log-start-offset-checkpoint", "replication-offset-checkpoint"):
        write_checkpoint(fs, f"{DATA}/{name}", {})
    writer.log.rename_directory(f"flights-0.{'0' * 32}-delete", goes_on=False)
    writer.log.delete()


def create_again(writer: Writer) -> None:
    delete(writer)
    writer.home.fs.make_directory(PATH)
    writer.log = writer.home.open()
    writer.append(0)
    writer.append(1)


STEPS = {
    step.__name__: step
    for step in (
        append,
        roll,
        retain,
        delete_records,
        truncate,
        truncate_and_append,
        clean,
        start_anew,
        delete,
        create_again,
    )
}


def cat(fs: Any) -> list[tuple[int, bytes | None]]:
    with open_read_only(PATH, fs=fs) as log:
        end = log.end_offset(ReadUpTo.LOG_END)
        return [(record.offset, record.value) for record in log.records(None, end)]


def committed(fs: Any) -> list[tuple[int, bytes | None]]:
    with open_read_only(PATH, fs=fs) as log:
        return [(record.offset, record.value) for record in log.records(committed=True)]


def released(fs: Any) -> list[tuple[int, bytes | None]]:
    with open_read_only(PATH, fs=fs) as log:
        end = log.end_offset(ReadUpTo.LOG_END)
        records = log.records(None, end)
        first = next(records, None)
        log.close()
        found = [] if first is None else [first, *records]
        return [(record.offset, record.value) for record in found]


def follow(fs: Any) -> list[tuple[int, bytes | None]]:
    follower = LogFollower(PATH, fs=fs, up_to=ReadUpTo.LOG_END)
    records = [record for _ in range(3) for part in follower.columns() for record in part.records()]
    return [(record.offset, record.value) for record in records]


def offsets(fs: Any) -> Any:
    directory = open_directory_read_only(DATA, fs=fs)
    with directory.open(*KEY) as log:
        found = log.offsets(ReadUpTo.LOG_END)
        assert log.damage is None
    assert 0 <= found.log_start_offset <= found.high_watermark <= found.log_end_offset
    assert found.log_start_offset <= found.last_stable_offset <= found.log_end_offset
    return found


def offset_at(fs: Any) -> Any:
    with open_read_only(PATH, fs=fs) as log:
        return log.offset_at(0, log.log_end_offset), log.offset_at(-3, log.log_end_offset)


def describe(fs: Any) -> Any:
    with open_read_only(PATH, fs=fs) as log:
        facts = describe_log(log)
    assert facts.damage is None
    return facts


def splits(fs: Any) -> Any:
    with open_read_only(PATH, fs=fs) as log:
        shares = log.splits(log.log_start_offset, log.log_end_offset, 100)
        assert [share for share in shares if share.start_offset >= share.end_offset] == []
        return shares


def gaps(fs: Any) -> Any:
    with open_read_only(PATH, fs=fs) as log:
        found = list(find_gaps(log, log.log_start_offset, log.log_end_offset, fs=fs))
    assert not any(gap.is_loss for gap in found)
    return found


def retention(fs: Any) -> Any:
    config = LogConfig(retention_bytes=500)
    return plan_retention(lambda: open_read_only(PATH, fs=fs), config, ClockAt(10**12))


def compaction(fs: Any) -> Any:
    clock = ClockAt(10**12)
    cleaning = Compaction(BrokerConfig(), clock=clock, scheduler=InlineScheduler(), rng=Random(0))
    config, lines = LogConfig(cleanup_policy=("compact",)), CleanerLines({}, {})
    facts = plan_compaction(lambda: open_read_only(PATH, fs=fs), config, lines, clock, cleaning)
    assert 0 <= facts.freed_bytes <= facts.size_bytes
    return facts


def verify(fs: Any) -> Any:
    found = verify_partition(fs, PATH, clock=ManualClock(), is_compacted=True).findings
    assert [finding for finding in found if finding.severity is Severity.DAMAGE] == []
    return None


def verify_directory(fs: Any) -> Any:
    found = [located.finding for located in check_directory(fs, DATA)]
    assert [finding for finding in found if finding.severity is Severity.DAMAGE] == []
    return None


RECORDS = {look.__name__: look for look in (cat, committed, released, follow)}
LOOKS = {
    **RECORDS,
    **{
        look.__name__: look
        for look in (
            offsets,
            offset_at,
            describe,
            splits,
            gaps,
            retention,
            compaction,
            verify,
            verify_directory,
        )
    },
}


class Case(NamedTuple):
    """What a look gave: an answer, or the typed error that ended it."""

    answer: Any
    error: KafkaError | None


def taken(look: Callable[[Any], Any], fs: Any) -> Case:
    """Look; damage is no answer here, and no error but a typed one gets through."""
    try:
        return Case(look(fs), None)
    except CorruptMessage as damage:
        raise AssertionError(f"false damage: {damage}") from damage
    except KafkaError as error:
        return Case(None, error)


def operations_of(look: Callable[[Any], Any], scene: Scene) -> int:
    """Count the operations of a look at a log that nobody changes."""
    count = 0

    def before() -> None:
        nonlocal count
        count += 1

    look(Watched(Stage(scene).fs, before))
    return count


def interrupted(look: Callable[[Any], Any], scene: Scene, at: int, pace: int) -> Case:
    """Look; before operation ``at`` and each further one the writer makes ``pace`` changes."""
    stage, count = Stage(scene), 0

    def before() -> None:
        nonlocal count
        if count >= at:
            stage.advance(pace)
        count += 1

    return taken(look, Watched(stage.fs, before))


def check_records(found: Any, before: Any, after: Any) -> None:
    """Records are those of before and after, without a hole that neither of them has."""
    assert set(found) <= {*before, *after}
    numbers = [offset for offset, _ in found]
    assert numbers == sorted(set(numbers))
    if numbers:
        common = {offset for offset, _ in before} & {offset for offset, _ in after}
        assert {n for n in common if numbers[0] <= n <= numbers[-1]} <= set(numbers)


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    """What each step of a writer changes."""
    return {name: Scene.of(step) for name, step in STEPS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("pace", [10**6, 1], ids=["a whole step", "one change"])
@pytest.mark.parametrize("look", LOOKS)
def test_a_writer_between_any_two_operations_of_a_look(
    look: str, pace: int, scenes: dict[str, Scene]
) -> None:
    """Each look gives an answer that was true, or a typed error; never damage that is not there.

    The writer makes some changes before each operation of the look from the k-th one on.
    """
    cases: list[Case] = []
    for scene in scenes.values():
        done = Stage(scene)
        done.advance(10**6)
        known = [taken(LOOKS[look], fs).answer or [] for fs in (Stage(scene).fs, done.fs)]
        for at in range(operations_of(LOOKS[look], scene)):
            found = interrupted(LOOKS[look], scene, at, pace)
            if look in RECORDS and found.error is None:
                check_records(found.answer, *known)
            cases.append(found)
    assert len(cases) >= 9 * len(STEPS)
    assert sum(case.error is None for case in cases) > len(cases) // 2


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_writer_that_ends_after_any_change(step: str, scenes: dict[str, Scene]) -> None:
    """Whatever it leaves half done is read as what it is, by every look."""
    cases = 0
    for changes in range(len(scenes[step].changes)):
        for look in LOOKS.values():
            stage = Stage(scenes[step])
            stage.advance(changes)
            found = taken(look, stage.fs)
            assert isinstance(found.error, UnknownTopicOrPartition | OffsetOutOfRange | None)
            cases += 1
    assert cases >= 3 * len(LOOKS)


@pytest.mark.slow
@pytest.mark.parametrize("look", [name for name in LOOKS if not name.startswith("verify")])
@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.ESTALE])
def test_an_error_of_the_disk_is_typed_wherever_it_comes(
    look: str, code: int, scenes: dict[str, Scene]
) -> None:
    """No OSError gets out of a look, whichever of its operations fails; nor is it damage."""
    scene, failed = scenes["append"], 0
    count = operations_of(LOOKS[look], scene)
    for at in range(count):
        disk = Watched(Stage(scene).fs, failing(at, code))
        failed += taken(LOOKS[look], disk).error is not None
    assert count >= 20
    assert failed > count // 2


@pytest.mark.slow
def test_verify_reports_what_it_cannot_read(scenes: dict[str, Scene]) -> None:
    """As a finding or a typed error, whichever of its operations fails."""
    scene, reported = scenes["append"], 0
    count = operations_of(verify, scene)
    for at in range(count):
        disk: Any = Watched(Stage(scene).fs, failing(at, errno.EIO))
        try:
            found = verify_partition(disk, PATH, clock=ManualClock(), is_compacted=True).findings
            found += [located.finding for located in check_directory(disk, DATA)]
            reported += any(finding.severity is Severity.DAMAGE for finding in found)
        except KafkaError:
            reported += 1
    assert count >= 20
    assert reported > count // 2


def failing(at: int, code: int) -> Callable[[], None]:
    """Return what fails before operation number ``at``, once."""
    left = at

    def before() -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise OSError(code, os.strerror(code), "/a/file")

    return before
