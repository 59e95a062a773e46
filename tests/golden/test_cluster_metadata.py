"""Directories of a broker with its cluster's metadata in them, as Kafka left them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery import metadata_log as made
from tests.machinery.coarse_scheduler import CoarseScheduler

from tidelog.cli.main import main
from tidelog.config.sources import broker_config
from tidelog.env.machine import Machine
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.log.topic_id import read_partition_metadata
from tidelog.readonly.cluster_metadata import read_cluster_metadata
from tidelog.records.builder import build_batch
from tidelog.service.log_service import LogService
from tidelog.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping


DATA = Path(__file__).parent / "data"
WHOLE = DATA / "whole-dir"
CASE: dict[str, Any] = json.loads((WHOLE / "case.json").read_text("utf-8"))
TAKEN_AT_MS: int = CASE["takenAtMs"]
DAY_MS = 86_400_000
NOT_OF_THE_DIRECTORY = ("expected", "dump", "offsets", "case.json", "*-log.txt")
METADATA = "__cluster_metadata-0"
CONTROLLER_FILES = (METADATA, "bootstrap.checkpoint")
END_OFFSET = 225
"""Where the metadata of the directory ends."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy of a whole data directory, after a clean shutdown."""
    target = tmp_path / "data"
    shutil.copytree(WHOLE, target, ignore=shutil.ignore_patterns(*NOT_OF_THE_DIRECTORY))
    return target


def record_settings(directory: Path, settings: Mapping[str, Mapping[str, str]]) -> None:
    """Append settings of topics to the metadata, as a controller does."""
    values = [
        made.setting(name, value, topic)
        for topic, each in settings.items()
        for name, value in each.items()
    ]
    records = [(TAKEN_AT_MS, None, value, ()) for value in values]
    with (directory / METADATA / f"{0:020}.log").open("ab") as file:
        file.write(build_batch(records, base_offset=END_OFFSET, leader_epoch=4))


def files_below(directory: Path) -> dict[str, bytes]:
    """Return every file below a directory by name."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def records_of(directory: Path, topic: str) -> dict[str, bytes]:
    """Return the ``.log`` files of a topic that hold something."""
    return {
        name: data
        for name, data in files_below(directory).items()
        if name.startswith(f"{topic}-") and name.endswith(".log") and data
    }


def run_service(directory: Path) -> None:
    """Run the service for thirty simulated days from the moment when Kafka stopped."""
    clock = ManualClock(TAKEN_AT_MS)
    machine = Machine(SYSTEM_FILES, clock, CoarseScheduler(clock), random.Random(0), clock.advance)
    config = {"log.dirs": str(directory), "log.cleaner.backoff.ms": str(CoarseScheduler.PERIOD_MS)}
    manager = LogService(broker_config(config), machine)
    manager.startup()
    clock.advance(30 * DAY_MS)
    manager.shutdown()


def test_the_metadata_names_the_topics_and_settings_that_the_broker_had() -> None:
    """Ids are those on disk, settings those that the topics were made with or altered to."""
    found = read_cluster_metadata(str(WHOLE), fs=SYSTEM_FILES)
    assert found is not None
    on_disk = {
        path.parent.name.rpartition("-")[0]: read_partition_metadata(SYSTEM_FILES, str(path))
        for path in WHOLE.glob("*/partition.metadata")
    }
    configs = {name: dict(config) for name, config in CASE["topic configs"].items()}
    configs["whole-compact"]["min.cleanable.dirty.ratio"] = "1.0"  # altered at offset 187

    of_topics = {
        resource.name: {name: setting.value for name, setting in settings.items()}
        for resource, settings in found.image.settings.items()
        if resource.type == 2 and not resource.name.startswith("__")
    }

    del on_disk["__cluster_metadata"]
    assert {topic.name: id_ for id_, topic in found.image.topics.items()} == on_disk
    assert of_topics == configs
    assert found.image.features["metadata.version"] == 30
    assert (found.end, found.voters) == (END_OFFSET, 1)


def test_thirty_days_delete_nothing_of_unknown_or_unlimited_retention(directory: Path) -> None:
    """Every record is there afterwards; the files of the controller are as they were."""
    before = files_below(directory)
    logs = [name for name in before if name.endswith(".log") and before[name]]

    run_service(directory)

    after = files_below(directory)
    assert len(logs) >= 17
    assert {name: after.get(name) for name in logs} == {name: before[name] for name in logs}
    assert _of_controller(after) == _of_controller(before)


def test_thirty_days_do_what_the_settings_say_and_no_more(directory: Path) -> None:
    """Known limits delete, a known policy compacts; the topics beside them keep everything."""
    record_settings(
        directory,
        {
            "whole-part": {"cleanup.policy": "delete", "retention.ms": str(DAY_MS)},
            "whole-compact": {"min.cleanable.dirty.ratio": "0.0", "segment.ms": "1000"},
            "epoch-steps": {"cleanup.policy": "delete"},
        },
    )
    before = files_below(directory)
    kept = (
        "epoch-steps",
        "epoch-idle",
        "whole-trimmed",
        "__consumer_offsets",
        "__transaction_state",
    )
    kept_before = {topic: records_of(directory, topic) for topic in kept}

    run_service(directory)

    assert records_of(directory, "whole-part") == {}
    assert {topic: records_of(directory, topic) for topic in kept} == kept_before
    assert all(kept_before.values())
    assert _of_controller(files_below(directory)) == _of_controller(before)


def _of_controller(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.startswith(CONTROLLER_FILES)}


def test_damaged_metadata_deletes_nothing(directory: Path) -> None:
    """A byte flipped in the middle leaves all settings unknown, and the service runs."""
    record_settings(
        directory, {"whole-part": {"cleanup.policy": "delete", "retention.ms": str(DAY_MS)}}
    )
    log = directory / METADATA / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[5000] ^= 0xFF
    log.write_bytes(data)
    before = {name: data for name, data in files_below(directory).items() if ".log" in name}

    run_service(directory)

    after = files_below(directory)
    assert {name: after[name] for name in before if before[name]} == {
        name: data for name, data in before.items() if data
    }


def test_describe_shows_settings_and_where_they_come_from(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker's settings are named with their place; JSON has Kafka's word for it."""
    here = ["-d", str(directory)]

    assert main(["describe", "whole-compact", *here]) == 0
    text = capsys.readouterr().out
    assert main(["describe", "whole-compact", "--json", *here]) == 0
    facts, _counts = map(json.loads, capsys.readouterr().out.splitlines())

    assert "no settings of its own" not in text
    assert "\n  topic, in __cluster_metadata: cleanup.policy=compact, delete.retention.ms" in text
    assert "\n  all brokers, in __cluster_metadata: min.insync.replicas=1\n" in text
    assert "unknown, so" not in text  # retention.bytes is, but nothing of this topic is deleted
    assert facts["inheritedSettings"]["cleanup.policy"] == {
        "value": "compact",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }


def test_server_properties_give_what_the_metadata_leaves_open(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Policy and limits of topics come from the file, or are Kafka's defaults, and are followed."""
    file = tmp_path / "server.properties"
    file.write_text("log.retention.bytes=1\nlisteners=PLAINTEXT://:9092\n", "utf-8")
    here = ["-d", str(directory), "--server-properties", str(file)]
    kept_before = [
        records_of(directory, topic) for topic in ("whole-compact", "__consumer_offsets")
    ]
    planned = []
    for words in (("plan", "retention"), ("retain",)):
        assert main([*words, "--json", *here]) == 0
        *rows, _counts = map(json.loads, capsys.readouterr().out.splitlines())
        planned.append([(row["topic"], row["freedBytes"]) for row in rows])
    assert main(["describe", "whole-trimmed", *here]) == 0
    text = capsys.readouterr().out

    assert planned[0] == planned[1]
    freed = {name for name, size in planned[0] if size}
    assert freed == {"epoch-steps", "whole-part", "whole-trimmed"}
    assert kept_before == [
        records_of(directory, topic) for topic in ("whole-compact", "__consumer_offsets")
    ]
    assert "server.properties: retention.bytes=1" in text
    assert "default of Kafka: cleanup.policy=delete" in text
    assert "unknown" not in text


COMMANDS = (
    ("describe",),
    ("offsets",),
    ("verify",),
    ("picture",),
    ("plan", "retention"),
    ("plan", "compaction"),
    ("plan", "recovery"),
    ("cleaner", "status"),
    ("recover",),
    ("retain",),
    ("retain", "-o", "retention.ms=-1"),
    ("compact",),
    ("compact", "-o", "cleanup.policy=compact"),
    ("cat", "whole-part", "--encoding", "base64"),
    ("create", "new"),
    ("alter", "whole-part", "-o", "segment.ms=100000"),
    ("delete-records", "whole-part", "-p", "0", "--before", "3"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_works_beside_the_metadata(directory: Path, words: tuple[str, ...]) -> None:
    """Nothing fails, and the files of the controller are as they were."""
    before = _of_controller(files_below(directory))

    code = main([*words, "-d", str(directory)])

    assert code == 0
    assert _of_controller(files_below(directory)) == before


@pytest.mark.parametrize("words", [("delete",), ("alter", "-o", "retention.ms=1"), ("append",)])
def test_the_metadata_is_not_a_topic_to_change(directory: Path, words: tuple[str, ...]) -> None:
    """Naming it in a command that changes topics is refused, and it stays as it is."""
    before = _of_controller(files_below(directory))

    code = main([words[0], "__cluster_metadata", *words[1:], "-d", str(directory)])

    assert code != 0
    assert _of_controller(files_below(directory)) == before


@pytest.mark.parametrize("words", [("retain", "-o", "retention.ms=1"), ("recover", "--full")])
def test_the_metadata_is_left_alone_even_if_it_is_named(
    directory: Path, words: tuple[str, ...]
) -> None:
    """Retention, compaction and recovery are refused for it."""
    before = _of_controller(files_below(directory))

    code = main([words[0], METADATA[:-2], *words[1:], "-d", str(directory)])

    assert code != 0
    assert _of_controller(files_below(directory)) == before
