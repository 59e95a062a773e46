"""Positions of groups are read once, and are always those that the log has by then."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.errors import KafkaStorageError
from tidelog.log.reading.readable import ReadableLog
from tidelog.manager.known_positions import KnownPositions
from tidelog.readonly.group_positions import (
    OFFSETS_TOPIC,
    Position,
    position_records,
    removal_records,
)
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.filenames import TopicPartition
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from typing import Self

    from tests.conftest import Enumerated

KEYS = [TopicPartition("t", number) for number in range(3)]


DAY_MS = 86_400_000


class PositionsHome:
    """A partition of the topic, and what a group's positions in it have to be."""

    def __init__(self) -> None:
        self.clock, self.files = ManualClock(), CrashFileSystem()
        self.logs = tidelog.open(
            "/data",
            files=self.files,
            clock=self.clock,
            log_cleaner_backoff_ms=3_600_000,  # the clock is advanced by days
        )
        topic = self.logs.create_topic(OFFSETS_TOPIC)
        self.partition = self.logs.manager.partition(OFFSETS_TOPIC, 0)
        self.known = KnownPositions(topic.topic_id)
        self._settled: list[tuple[int, TopicPartition, int | None]] = []
        self.opened: dict[int, list[tuple[int, TopicPartition, int | None]]] = {}
        self.notes = False
        """Whether what is committed by no transaction is noted, as a broker does."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.logs.close()

    def commit(self, key: TopicPartition, offset: int, producer_id: int = -1) -> None:
        """Commit a position, in the transaction of a producer if one is given."""
        records = position_records("g", {key: Position(offset, -1, "", 1000, None)})
        at = self.partition.log.log_end_offset
        if producer_id < 0:
            end = self.partition.append_records(records).last_offset + 1
            if self.notes:
                position = Position(offset, -1, "", 1000, None)
                self.known.note(self.partition.log, "g", {key: position}, end)
            self._settled.append((at, key, offset))
            return
        guard = self.partition.log.start_verification(producer_id, 0, 0, supports_epoch_bump=False)
        producer: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0}
        # As group coordinators of Kafka's, which number nothing.
        batch = build_batch(records, **producer, base_sequence=0, transactional=True)
        self.partition.append(batch, AppendOrigin.COORDINATOR, verification_guard=guard)
        self.opened.setdefault(producer_id, []).append((at, key, offset))

    def remove(self, key: TopicPartition) -> None:
        """Take a position back."""
        at = self.partition.log.log_end_offset
        self.partition.append_records(removal_records("g", [key], 1000))
        self._settled.append((at, key, None))

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """End a transaction."""
        marker = build_marker(
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            is_commit=is_commit,
            timestamp=1000,
        )
        self.partition.append(marker, AppendOrigin.COORDINATOR, transaction_version=0)
        ended = self.opened.pop(producer_id)
        if is_commit:
            self._settled += ended

    def look(self) -> tuple[dict[TopicPartition, int], frozenset[TopicPartition]]:
        """Return the positions, and those that are undecided."""
        self.known.catch_up(self.partition.log)
        found = {key: one.position.offset for key, one in self.known.of_group("g").items()}
        return found, self.known.undecided("g")

    def expected(self) -> tuple[dict[TopicPartition, int], frozenset[TopicPartition]]:
        """Return what a look has to find."""
        found = {key: offset for _, key, offset in sorted(self._settled)}
        undecided = {key for written in self.opened.values() for _, key, _ in written}
        there = {key: offset for key, offset in found.items() if offset is not None}
        return there, frozenset(undecided)


@pytest.mark.parametrize("seed", range(20))
def test_a_look_finds_what_the_log_has_by_then(seed: int, enumerated: Enumerated) -> None:
    """Whatever was decided between two looks, in whatever order."""
    rng = Random(seed)
    looks = 0
    with PositionsHome() as home:
        for offset in range(120):
            home.notes = rng.random() < 0.7
            key, producer_id = rng.choice(KEYS), rng.randrange(4)
            match rng.randrange(6):
                case 0:
                    home.remove(key)
                case 1 | 2:
                    home.commit(key, offset)
                case 3 | 4:
                    home.commit(key, offset, producer_id)
                case 5 if producer_id in home.opened:
                    home.end(producer_id, is_commit=rng.random() < 0.5)
            if rng.random() < 0.4:
                looks += 1
                assert home.look() == home.expected()
    enumerated("looks", looks, at_least=20)


def offsets_read_from(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each read of a log from now on adds the offset that it begins at."""
    read_from: list[int] = []
    plain = ReadableLog.read

    def read(log: ReadableLog, start_offset: int, *given: Any, **how: Any) -> Any:
        read_from.append(start_offset)
        return plain(log, start_offset, *given, **how)

    monkeypatch.setattr(ReadableLog, "read", read)
    return read_from


def test_nothing_is_read_twice_while_a_transaction_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each OffsetFetch would read all that was committed since it began."""
    with PositionsHome() as home:
        home.commit(KEYS[0], 1, producer_id=7)
        read_from = offsets_read_from(monkeypatch)
        for offset in range(10):
            home.commit(KEYS[1], offset)
            assert home.look() == ({KEYS[1]: offset}, frozenset({KEYS[0]}))
            seen = len(read_from)
            assert home.look() == ({KEYS[1]: offset}, frozenset({KEYS[0]}))
            assert len(read_from) == seen
        assert read_from == sorted(read_from)
        assert read_from.count(0) == 1
        read_from.clear()
        home.end(7, is_commit=True)
        assert home.look() == ({KEYS[0]: 1, KEYS[1]: 9}, frozenset())
        assert min(read_from) == 0


def test_nothing_is_read_twice_after_an_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that has died is aborted minutes later: others have committed much meanwhile."""
    with PositionsHome() as home:
        home.commit(KEYS[0], 1, producer_id=7)
        for offset in range(10):
            home.commit(KEYS[1], offset)
        home.look()
        end = home.partition.log.log_end_offset
        home.end(7, is_commit=False)
        read_from = offsets_read_from(monkeypatch)
        assert home.look() == ({KEYS[1]: 9}, frozenset())
        assert min(read_from) == end


def test_what_was_noted_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first who asks after some days would wait for all that was committed since."""

    def read(*_: object, **__: object) -> None:
        raise AssertionError("this reads the log")

    with PositionsHome() as home:
        home.commit(KEYS[0], 1)
        assert home.look() == home.expected()
        home.notes = True
        home.commit(KEYS[0], 2)
        home.commit(KEYS[1], 3)
        with monkeypatch.context() as patch:
            patch.setattr(ReadableLog, "read", read)
            assert home.look() == home.expected()
            assert home.known.of_group("g")[KEYS[1]].record_offset == 2
        home.remove(KEYS[1])
        home.commit(KEYS[0], 4)
        assert home.look() == home.expected()


def test_a_log_that_was_truncated_is_read_again() -> None:
    """What was cut off it does not count."""
    with PositionsHome() as home:
        home.commit(KEYS[0], 1)
        home.commit(KEYS[0], 2)
        home.commit(KEYS[1], 5, producer_id=7)
        assert home.look() == ({KEYS[0]: 2}, frozenset({KEYS[1]}))
        home.partition.log.truncate_to(1)
        assert home.look() == ({KEYS[0]: 1}, frozenset())


def test_a_log_that_was_truncated_and_has_grown_since_is_read_again() -> None:
    """As after ``txns abort --undo``: records lie where others were, below what was read."""
    with PositionsHome() as home:
        for offset in (1, 2):
            home.commit(KEYS[0], offset)
        home.known.catch_up(home.partition.log)
        home.logs.manager.truncation.truncate_to({(OFFSETS_TOPIC, 0): 1})
        home.commit(KEYS[1], 7)
        home.known.catch_up(home.partition.log)
        found = home.known.of_group("g")
        assert {key: one.at for key, one in found.items()} == {KEYS[0]: (1, 0), KEYS[1]: (7, 1)}


def test_a_look_that_fails_is_made_good_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also about a transaction that was decided meanwhile."""

    def fail(*_: object, **__: object) -> None:
        raise KafkaStorageError("the disk failed")

    with PositionsHome() as home:
        home.commit(KEYS[0], 1, producer_id=7)
        home.commit(KEYS[1], 2)
        home.look()
        home.end(7, is_commit=True)
        with monkeypatch.context() as patch:
            patch.setattr(ReadableLog, "read", fail)
            with pytest.raises(KafkaStorageError):
                home.look()
        assert home.look() == ({KEYS[0]: 1, KEYS[1]: 2}, frozenset())


def test_a_log_that_was_opened_again_is_read_again() -> None:
    """Its recovery may have cut what was read, and others have come there since."""
    with PositionsHome() as home:
        for offset in (1, 2):
            home.commit(KEYS[0], offset)
        home.look()
        home.logs.manager.truncation.truncate_to({(OFFSETS_TOPIC, 0): 1})
        home.logs.close()
        home.logs = tidelog.open("/data", files=home.files, clock=home.clock)
        home.partition = home.logs.manager.partition(OFFSETS_TOPIC, 0)
        home.commit(KEYS[1], 7)
        assert home.look() == ({KEYS[0]: 1, KEYS[1]: 7}, frozenset())


def test_a_removal_that_was_compacted_away_before_it_was_seen_counts() -> None:
    """Else a deleted group would be back in a process that has not looked for some days."""
    with PositionsHome() as home:
        home.logs.manager.alter_topic(OFFSETS_TOPIC, {"cleanup.policy": "compact"})
        home.commit(KEYS[0], 1)
        home.commit(KEYS[1], 2)
        home.look()
        home.remove(KEYS[0])
        for _ in range(3):
            home.logs.roll(OFFSETS_TOPIC)
            home.logs.compact(OFFSETS_TOPIC)
            home.clock.advance(2 * DAY_MS)
            home.commit(KEYS[1], 3)
        assert home.look() == home.expected()
