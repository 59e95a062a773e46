"""What a power cut leaves of a transaction opens in Kafka 4.3.1, once its journal is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.compat.test_crashes import (
    RECOVERY_POINTS,
    check_dump,
    note_crash,
    served_as_recovered,
)
from tests.crash.staging_stories import prepared

from tidelog.codec.checkpoint_file import read_checkpoint
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.staging.directory import CommitPoint
from tidelog.staging.journal_names import list_journals

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.conftest import Java, Kafka

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]

KINDS = (
    *("append_rolls", "append_partitions", "adopt", "adopt_many", "adopt_partitions"),
    *("adopt_beside_others", "mixed", "bundles", "bundles_adopted"),
)
SETTINGS = "internal.segment.bytes=400,index.interval.bytes=0,retention.ms=-1"


def leave_committed(kind: str, seed: int, target: Path) -> tuple[int, list[bytes]]:
    """Cut the power right after a commit, put what is left of t-0 in a folder.

    Returns the recovery point and the values of the transaction.
    """
    story = prepared(kind, seed)
    logs = story.open()
    story.case.write(story, logs)
    assert story.points[-1] is CommitPoint.CLEANED
    home = story.home
    assert list_journals(home.fs, home.path) == []
    home.fs.power_cut()
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for name in home.files("t-0"):
        if name != "partition.metadata":
            (target / name).write_bytes(home.fs.read(f"{home.path}/t-0/{name}"))
    points = read_checkpoint(home.fs, f"{home.path}/{RECOVERY_POINTS}")
    return points["t", 0], story.case.wanted["t-0"]


def test_a_broker_recovers_what_a_power_cut_left_of_a_commit(
    java: Java, kafka: Kafka, tmp_path: Path
) -> None:
    """Appended or adopted, torn by seed: each record once, indexes as its tool wants them."""
    topics = {f"{kind}-{seed}".replace("_", "-"): (kind, seed) for kind in KINDS for seed in (1, 2)}
    with kafka.running():
        kafka.ask(*(f"create {topic} {SETTINGS}" for topic in topics))
    points = read_checkpoint(SYSTEM_FILES, str(kafka.directory / RECOVERY_POINTS))
    wanted: dict[str, list[bytes]] = {}
    for topic, (kind, seed) in topics.items():
        left = leave_committed(kind, seed, kafka.directory / f"{topic}-0")
        points[topic, 0], wanted[topic] = left
    note_crash(kafka, points)

    ours, served = served_as_recovered(kafka, tmp_path, topics)

    for topic, values in wanted.items():
        found = [value for _, _, _, value, _ in served[topic, "read_uncommitted"]]
        assert [value for value in found if value in values] == values
    check_dump(java, ours, topics)
    check_dump(java, kafka.directory, topics)
