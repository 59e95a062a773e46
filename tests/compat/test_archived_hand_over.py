"""Kafka 4.3.1 opens the directory of a log that begins in an archive, of which it knows nothing."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.compat.conftest import SMALL_SEGMENTS
from tests.compat.test_hand_over import handed_over
from tests.machinery.archives import give_up_locally
from tests.machinery.transactions import append_transaction

import tidelog
from tidelog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from tests.compat.conftest import Java

    from tidelog.readonly.read_only_log import ReadOnlyLog

pytestmark = [pytest.mark.compat, pytest.mark.slow]

ROUNDS = 3
ARCHIVED = {**SMALL_SEGMENTS, "remote.storage.enable": "true", "local.retention.ms": "0"}
LEVELS = {"read_uncommitted": False, "read_committed": True}


class Log:
    """Partition 0 of topic t, its archive, and the values that it must have, by level."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self.directory, self.uri = folder / "data", (folder / "lake").as_uri()
        self.rng = rng
        self.records: dict[str, dict[int, bytes | None]] = {level: {} for level in LEVELS}

    def append(self) -> None:
        """Append records here, and transactions of which some are aborted."""
        with tidelog.open(self.directory) as logs:
            logs.create_topic("t", config=ARCHIVED, exist_ok=True)
            partition = logs.partition("t", 0)
            for _ in range(self.rng.randrange(40, 120)):
                value = self.rng.randbytes(self.rng.randrange(900))
                self.note(logs.append("t", value).offset, value)
                if self.rng.random() < 0.1:
                    first, is_commit = partition.log.log_end_offset, self.rng.random() < 0.5
                    producer_id = 1000 + first
                    append_transaction(
                        partition, value, is_commit=is_commit, producer_id=producer_id
                    )
                    self.note(first, value, is_committed=is_commit)

    def note(self, offset: int, value: bytes | None, *, is_committed: bool = True) -> None:
        self.records["read_uncommitted"][offset] = value
        if is_committed:
            self.records["read_committed"][offset] = value

    def delete_below(self, start: int) -> None:
        for level, known in self.records.items():
            self.records[level] = {at: value for at, value in known.items() if at >= start}

    def serve(self, java: Java) -> None:
        """Let a broker serve what the disk has, append and delete; it is killed, or stopped."""
        kafka = handed_over(java, self.directory, "--local-only")
        with tidelog.open_read_only(self.directory / "t-0") as log:
            end = log.log_end_offset
        commands = [f"produce t zstd {self.rng.randrange(1, 300)}"]
        is_killed = self.rng.random() < 0.3
        start, base = 0, max(int(path.stem) for path in (self.directory / "t-0").glob("*.log"))
        if base + 1 < end and not is_killed:  # a killed broker has not written it down
            start = self.rng.randrange(base + 1, end)
            commands.append(f"delete-records t {start}")
        with kafka.running(is_killed=is_killed) as printed:
            before = kafka.consume_each(*(("t", level) for level in LEVELS))
            kafka.ask(*commands)
            after = kafka.consume_each(*(("t", level) for level in LEVELS))
        assert not [line for line in printed.lines if "before disabling tiered" in line]
        assert main(["from-kafka", "-d", str(self.directory)]) == 0
        with tidelog.open(self.directory):
            pass  # a killed broker has not written how far readers see: the owner finds that
        for level, found, left in zip(LEVELS, before, after, strict=True):
            served, known = {one[0]: one[3] for one in found}, self.records[level]
            assert served == {at: value for at, value in known.items() if at >= min(served)}
            known |= {one[0]: one[3] for one in left if one[0] >= end}
        self.delete_below(start)

    def check(self) -> int:
        """Compare both together, and the archive alone; return where the disk begins."""
        both = tidelog.open_directory_read_only(self.directory)
        alone = tidelog.open_directory_read_only(self.uri)
        for level, is_committed in LEVELS.items():
            wanted = self.records[level]
            with both.open("t", 0) as log:
                assert listed(log, is_committed) == wanted
            with alone.open("t", 0) as log:
                end = log.visible_end(committed=is_committed)
                found = listed(log, is_committed)
            left = {at: value for at, value in found.items() if at >= min(wanted)}
            assert left == {at: value for at, value in wanted.items() if at < end}
        with tidelog.open(self.directory) as logs:
            owned = {one.offset: one.value for one in logs.read("t", 0)}
            assert owned == self.records["read_uncommitted"]
            return logs.partition("t", 0).log.local_log_start_offset


def listed(log: ReadOnlyLog, is_committed: bool) -> dict[int, bytes | None]:
    return {one.offset: one.value for one in log.records(committed=is_committed)}


@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_begins_in_an_archive_goes_back_and_forth(
    java: Java, tmp_path: Path, seed: int
) -> None:
    """Each has what the other has appended, also after a kill, and not what it has deleted."""
    log = Log(tmp_path, Random(seed))
    for _ in range(ROUNDS):
        log.append()
        give_up_locally(log.directory, log.uri)
        assert log.check() > 0
        log.serve(java)
        log.check()
    give_up_locally(log.directory, log.uri)
    assert log.check() > 0
