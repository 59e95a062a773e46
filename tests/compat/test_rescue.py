"""Apache Kafka serves what was rescued from damaged directories."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.compat.test_hand_over import handed_over, read_here

import tidelog
from tidelog.cli.main import main
from tidelog.codec.checkpoint_file import read_checkpoint, write_checkpoint
from tidelog.env.system_files import SYSTEM_FILES

if TYPE_CHECKING:
    from tests.compat.conftest import Java

pytestmark = [pytest.mark.compat, pytest.mark.slow]

CRASHES = Path(__file__).parents[1] / "golden" / "data" / "crash"
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
)


def broken_directory(path: Path) -> list[str]:
    """Make one directory of all damaged partitions; return their names."""
    lines: dict[str, dict[tuple[str, int], int]] = {name: {} for name in CHECKPOINTS}
    names = []
    for case in sorted(CRASHES.glob("*/before")):
        for directory in sorted(case.glob("*-0")):
            shutil.copytree(directory, path / directory.name, copy_function=shutil.copyfile)
            names.append(directory.name)
        for name in CHECKPOINTS:
            if (case / name).exists():
                lines[name] |= read_checkpoint(SYSTEM_FILES, str(case / name))
    for name, offsets in lines.items():
        there = {key: offset for key, offset in offsets.items() if f"{key[0]}-{key[1]}" in names}
        write_checkpoint(SYSTEM_FILES, str(path / name), there)
    return names


def test_a_broker_serves_what_was_rescued(java: Java, tmp_path: Path) -> None:
    """All damaged partitions at once: their records at their offsets, committed ones as such.

    Consumers pass over gaps, and what is produced comes after the old log end.
    """
    broken, new = tmp_path / "broken", tmp_path / "new"
    names = broken_directory(broken)
    assert main(["rescue", "-d", str(broken), "--to", str(new), "-q"]) == 1
    assert main(["verify", str(new), "-q"]) == 0
    topics = [name.removesuffix("-0") for name in names]
    ends = {}
    expected = {}
    for name in names:
        with tidelog.open_read_only(new / name) as log:
            ends[name] = log.log_end_offset
            expected[name] = [record.offset for record in log.records(committed=True)]
    here = {name: read_here(new, name) for name in names}
    kafka = handed_over(java, new)

    with kafka.running():
        served = kafka.consume_each(*((topic, "read_uncommitted") for topic in topics))
        committed = kafka.consume_each(*((topic, "read_committed") for topic in topics))
        kafka.ask(*(f"produce {topic} none 3" for topic in topics))
        appended = kafka.consume_each(*((topic, "read_uncommitted") for topic in topics))

    assert len(names) >= 40
    for name, found, settled, more in zip(names, served, committed, appended, strict=True):
        assert found == here[name], name
        assert [record[0] for record in settled] == expected[name], name
        assert more[: len(found)] == found, name
        assert all(record[0] >= ends[name] for record in more[len(found) :]), name
        assert len(more) > len(found), name
    assert not [path.name for path in new.iterdir() if path.name.endswith("-stray")]
