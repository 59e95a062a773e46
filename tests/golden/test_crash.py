"""Data directories as a crash or damage left them, opened here and by Kafka."""

from __future__ import annotations

import json
import shutil
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.codec.checkpoint_file import read_leader_epochs
from tidelog.config.broker_config import BrokerConfig
from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.internal_topics import INTERNAL_SETTINGS
from tidelog.env.machine import brief_machine
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import CorruptMessage, InvalidArgument, InvalidTxnState
from tidelog.log.producers.producer_snapshot import unpack_snapshot
from tidelog.log.reading.offset_lookup import OffsetTarget
from tidelog.manager.log_manager import LogManager
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.log.reading.offset_lookup import TimestampedOffset

DATA = Path(__file__).parent / "data"
EPOCHS = "leader-epoch-checkpoint"
NOTHING = {"offset": -1, "timestamp": -1, "leaderEpoch": None}
# Kafka's own topics have settings which no file holds.
INTERNAL = (*INTERNAL_SETTINGS, METADATA_TOPIC)


@dataclass(frozen=True)
class Crash:
    """One partition of a data directory before and after Kafka recovered it."""

    case: str
    name: str

    def __str__(self) -> str:
        return f"{self.case}/{self.name}"

    @property
    def folder(self) -> Path:
        """Where both steps lie."""
        return DATA / self.case

    @cached_property
    def about(self) -> dict[str, Any]:
        """What ``case.json`` says."""
        about: dict[str, Any] = json.loads((self.folder / "case.json").read_text("utf-8"))
        return about

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.name.rpartition("-")[0]

    @property
    def state(self) -> dict[str, Any]:
        """The offsets that the broker answered with after its recovery."""
        path = self.folder / "after" / "offsets" / f"{self.name}.state.json"
        state: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return state

    def open(self, directory: Path) -> LogManager:
        """Open a copy of what the crash left."""
        copy = directory / "data"
        shutil.copytree(self.folder / "before", copy, copy_function=shutil.copyfile)
        overrides = self.about["topic configs"].get(self.topic, {})
        return open_at(copy, ManualClock(self.about["takenAtMs"]), overrides)

    def load(self, opened: LogManager) -> Log:
        """Load the log, begin the leader epoch that Kafka began, and read it as Kafka did."""
        log = opened.partition(self.topic, int(self.name.rpartition("-")[2])).log
        path = self.folder / "after" / self.name / EPOCHS
        epoch, _ = read_leader_epochs(SYSTEM_FILES, str(path))[-1]
        log.maybe_assign_epoch(epoch, log.log_end_offset)
        with suppress(CorruptMessage):
            deque(log.records(), maxlen=0)
        return log


def open_at(
    directory: Path, clock: ManualClock, overrides: dict[str, str] | None = None
) -> LogManager:
    """Open a data directory at some time, as a process does that writes and ends."""
    config = BrokerConfig(log_dirs=(str(directory),))
    machine = brief_machine(SYSTEM_FILES, clock)
    return LogManager(config, machine, overrides=overrides or {})


def find_crashes() -> list[Crash]:
    """Return each partition that was opened by Kafka after a crash."""
    states = [*DATA.glob("crash/*/after/offsets/*"), *DATA.glob("whole-dir-crash/after/offsets/*")]
    found = [
        Crash(path.parents[2].relative_to(DATA).as_posix(), path.name.split(".")[0])
        for path in states
    ]
    return sorted((crash for crash in found if crash.topic not in INTERNAL), key=str)


@pytest.fixture(scope="session", params=find_crashes(), ids=str)
def crash(request: pytest.FixtureRequest) -> Crash:
    """Each crash in turn."""
    found: Crash = request.param
    return found


def test_there_are_all_kinds_of_damage() -> None:
    """Each of Kafka's 39 directories is there, and the whole data directory."""
    assert len({crash.case for crash in find_crashes()}) == 40


def files_of(directory: Path) -> dict[str, object]:
    """Return what lies in a partition's directory: segments by the byte, snapshots by meaning.

    Files that wait for deletion are left out: Kafka keeps them for a while, and we do not.
    """
    found: dict[str, object] = {}
    for path in directory.iterdir():
        if path.suffix == ".snapshot":
            found[path.name] = sorted(unpack_snapshot(path.read_bytes()))
        elif path.name == EPOCHS:
            found[path.name] = read_leader_epochs(SYSTEM_FILES, str(path))
        elif path.suffix != ".deleted":
            found[path.name] = path.read_bytes()
    return found


def test_recovery_leaves_the_files_that_kafka_leaves(crash: Crash, tmp_path: Path) -> None:
    """Records, indexes, snapshots and epochs are those that Kafka's own recovery left."""
    with crash.open(tmp_path) as opened:
        crash.load(opened)

    assert files_of(crash.folder / "after" / crash.name) == files_of(tmp_path / "data" / crash.name)


def answer(found: TimestampedOffset | None) -> dict[str, Any]:
    """Return the answer to a query by time in the form of Kafka's listing."""
    if found is None:
        return NOTHING
    names = ("timestamp", "offset", "leaderEpoch")
    return dict(zip(names, found, strict=True))


def test_recovery_ends_with_the_offsets_of_the_broker(crash: Crash, tmp_path: Path) -> None:
    """Start, end, last stable offset and the greatest timestamp are what the broker had."""
    state = crash.state
    with crash.open(tmp_path) as opened:
        log = crash.load(opened)
        offsets = (log.log_start_offset, log.log_end_offset, log.last_stable_offset)
        greatest = answer(log.fetch_offset_by_timestamp(OffsetTarget.MAX_TIMESTAMP))

    assert offsets == tuple(
        state[name] for name in ("logStartOffset", "logEndOffset", "lastStableOffset")
    )
    assert state["maxTimestamp"] == greatest


@pytest.mark.parametrize(
    ("name", "error"),
    [("edge-control-unknown-0", InvalidArgument), ("edge-txn-then-plain-0", InvalidTxnState)],
)
def test_a_log_that_stops_kafka_stops_us(name: str, error: type[Exception], tmp_path: Path) -> None:
    """Where Kafka gives up starting, opening fails likewise, and the log stays as it was."""
    assert name in json.loads((DATA / "adopted/v2edge/refused.json").read_text("utf-8"))
    shutil.copytree(DATA / "v2edge" / name, tmp_path / name, copy_function=shutil.copyfile)
    before = files_of(tmp_path / name)
    topic, _, number = name.rpartition("-")

    with (
        open_at(tmp_path, ManualClock()) as opened,
        pytest.raises(error),
    ):
        opened.partition(topic, int(number))

    assert before == files_of(tmp_path / name)
