"""A directory that Kafka wrote, whose topics' settings are in no file here."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tidelog.cli.main import main
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.deletion_settings import DELETION_SETTINGS
from tidelog.env.machine import Machine
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidRecord
from tidelog.service.log_service import LogService
from tidelog.testing import ManualClock, ManualScheduler

DATA = Path(__file__).parent / "data"
CODECS = ("gzip", "lz4", "none", "snappy", "zstd")
SOME_PASSES_MS = 700_000
FAR_MS = 1_900_000_000_000
"""Years after the records were written."""


@pytest.fixture
def broker_directory(tmp_path: Path) -> Path:
    """A copy of what a broker left: one topic per codec, no settings beside them."""
    source = DATA / "codecs"
    target = tmp_path / "codecs"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("expected", "dump", "case.json"))
    return target


def log_bytes(directory: Path) -> dict[str, bytes]:
    """Return every ``.log`` file below a directory that holds records."""
    files = sorted(directory.rglob("*.log"))
    return {
        str(file.relative_to(directory)): file.read_bytes() for file in files if file.read_bytes()
    }


def open_service(directory: Path, clock: ManualClock) -> LogService:
    """Start the service on a directory, with the default settings and a cleaner."""
    machine = Machine(SYSTEM_FILES, clock, ManualScheduler(clock), random.Random(0), clock.advance)
    manager = LogService(BrokerConfig(log_dirs=(str(directory),)), machine)
    manager.startup()
    return manager


def run_service(directory: Path) -> None:
    """Run the service on a directory long after its records were written."""
    clock = ManualClock(FAR_MS)
    manager = open_service(directory, clock)
    clock.advance(SOME_PASSES_MS)
    manager.shutdown()


def test_a_service_deletes_nothing_by_settings_that_nobody_gave(broker_directory: Path) -> None:
    """Records older than the default week stay where they are, retention pass after pass."""
    before = log_bytes(broker_directory)

    run_service(broker_directory)

    assert len(before) >= len(CODECS)
    assert log_bytes(broker_directory) == before


def test_unknown_settings_stay_unknown_whatever_else_is_written(broker_directory: Path) -> None:
    """Creating, altering and deleting another topic does not give the broker's topics settings."""
    before = log_bytes(broker_directory)
    here = ["-d", str(broker_directory)]

    assert main(["create", "other", *here]) == 0
    assert main(["alter", "other", "-o", "retention.ms=5", *here]) == 0
    assert main(["delete", "other", *here]) == 0
    refused = main(["retain", *here])
    run_service(broker_directory)

    assert refused == 2
    assert log_bytes(broker_directory) == before


def test_settings_that_somebody_gave_are_followed(broker_directory: Path) -> None:
    """``alter`` makes them known: the topic that it names is retained, the others are not."""
    before = log_bytes(broker_directory)
    named = next(name.rpartition("-")[0] for name in before)
    given = ["-o", "cleanup.policy=delete", "-o", "retention.ms=1000"]

    assert main(["alter", named, *given, "-d", str(broker_directory)]) == 0
    run_service(broker_directory)

    kept = {name for name in before if not name.startswith(f"{named}-")}
    assert kept == set(log_bytes(broker_directory)) & set(before)
    assert kept < set(before)


def test_a_policy_alone_deletes_nothing(broker_directory: Path) -> None:
    """With the policy known and the limits unknown, nothing expires."""
    before = log_bytes(broker_directory)
    named = next(name.rpartition("-")[0] for name in before)

    settings = ["-o", "cleanup.policy=delete", "-d", str(broker_directory)]
    assert main(["alter", named, *settings]) == 0
    run_service(broker_directory)

    assert log_bytes(broker_directory) == before


def test_a_topic_of_unknown_policy_takes_keyed_records_only(broker_directory: Path) -> None:
    """It may be compacted in Kafka, whose cleaner drops records without a key."""
    manager = open_service(broker_directory, ManualClock(FAR_MS))
    try:
        name, topic = next(iter(manager.topics().items()))
        target = manager.partition(name, 0)
        end = target.log.log_end_offset

        with pytest.raises(InvalidRecord):
            target.append_records([(FAR_MS, None, b"value", ())])
        target.append_records([(FAR_MS, b"key", b"value", ())])

        assert (topic.unknown_settings, target.log.log_end_offset) == (DELETION_SETTINGS, end + 1)
    finally:
        manager.shutdown()


def test_unknown_settings_are_shown(
    broker_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``describe`` says what is unknown, and what that means."""
    assert main(["describe", "-d", str(broker_directory)]) == 0

    told = capsys.readouterr().out
    unknown = "cleanup.policy, retention.ms, retention.bytes unknown, so nothing is deleted"
    assert told.count(unknown) >= 5
