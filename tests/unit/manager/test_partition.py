"""One partition: its role, its listeners, and the high watermark of its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.directory_home import DataHome, record
from tests.machinery.log_home import LogHome

from tidelog.codec.compression import Codec
from tidelog.errors import FencedLeaderEpoch, InvalidTxnState, NotLeaderOrFollower
from tidelog.log.listeners import LogListener
from tidelog.manager.partition import Partition
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machinery.fields import TransactionFields

    from tidelog.log.log import Log


def home_with_topic() -> DataHome:
    """Return a data directory with topic t."""
    home = DataHome()
    with home.open() as directory:
        directory.create_topic("t")
    return home


def test_each_way_to_append_moves_the_high_watermark() -> None:
    """Batches and records are seen by readers of the log at once."""
    with home_with_topic().open() as directory:
        partition = directory.partition("t", 0)
        partition.append(build_batch([record(b"a")]))
        after_batch = partition.log.high_watermark
        partition.append_records([record(b"b"), record(b"c")])

        assert (after_batch, partition.log.high_watermark) == (1, 3)


def test_a_new_log_has_the_leader_epoch_0() -> None:
    """Nobody else led it before."""
    home = home_with_topic()
    with home.open() as directory:
        partition = directory.partition("t", 0)
        before = partition.leader_epoch
        partition.append_records([record(b"a")])

    with home.read_only("t-0") as log:
        assert (before, [found.leader_epoch for found in log.records()]) == (0, [0])


def test_a_log_keeps_the_leader_epoch_it_has() -> None:
    """Batches appended to a log of Kafka's continue in its newest epoch."""
    home = home_with_topic()
    with home.open() as directory:
        partition = directory.partition("t", 0)
        partition.log.append_as_leader(build_batch([record(b"a")]), leader_epoch=6)
    with home.open() as directory:
        partition = directory.partition("t", 0)
        partition.append_records([record(b"b")])

        assert partition.leader_epoch == 6
    with home.read_only("t-0") as log:
        assert [found.leader_epoch for found in log.records()] == [6, 6]


def test_records_are_one_batch_compressed_as_asked() -> None:
    """``codec`` is the producer's; the topic's ``compression.type`` is left at ``producer``."""
    home = home_with_topic()
    with home.open() as directory:
        directory.partition("t", 0).append_records([record(b"a" * 500)] * 3, codec=Codec.ZSTD)

    with home.read_only("t-0") as log:
        assert [piece.batches.codec.tolist() for piece in log.pieces()] == [[Codec.ZSTD]]


class Watermarks(LogListener):
    """Keeps the high watermarks it hears; ``then`` runs after each."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.heard: list[int] = []
        self._then = then

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        self.heard.append(high_watermark)
        self._then()


def one_log(name: str = "t-0", records: int = 0, epoch: int = 0) -> Log:
    """Open an empty log, or one with some records of one batch each."""
    home = LogHome()
    home.directory = f"/data/{name}"
    log = home.open()
    for _ in range(records):
        log.append_as_leader(build_batch([record(b"a")]), epoch)
    return log


def test_listeners_of_a_partition_hear_its_log() -> None:
    """Each is called once for each new value, in the order of the changes."""
    partition = Partition("t", 0, one_log())
    listeners = Watermarks(), Watermarks()
    for listener in listeners:
        partition.add_listener(listener)

    partition.append_records([record(b"a")])
    partition.append_records([record(b"b"), record(b"c")])
    partition.remove_listener(listeners[0])
    partition.append_records([record(b"d")])

    assert [listener.heard for listener in listeners] == [[1, 3], [1, 3, 4]]


def test_listeners_survive_a_move() -> None:
    """They hear of the new log, of nothing that both hold, and no longer of the old log."""
    old, new = one_log(records=2), one_log(records=2)
    partition = Partition("t", 0, old)
    listener = Watermarks()
    partition.add_listener(listener)

    with partition.listeners, partition.lock:
        partition.use(new)
    partition.append_records([record(b"a")])
    old.update_high_watermark(1)

    assert (new.high_watermark, listener.heard) == (3, [3])


def test_listeners_hear_what_a_move_changes() -> None:
    """The log that takes over may be behind the owner's rule, or start elsewhere."""
    partition = Partition("t", 0, one_log(records=1))
    listener = Watermarks()
    partition.add_listener(listener)

    with partition.listeners, partition.lock:
        partition.use(one_log(records=2))
        during = list(listener.heard)

    assert (during, listener.heard) == ([], [2])


def test_listeners_are_called_without_the_lock_of_the_partition() -> None:
    """A listener may append to the partition it listens to."""
    partition = Partition("t", 0, one_log())
    held: list[bool] = []

    def append_once() -> None:
        held.append(partition.listeners.is_lock_held())
        if partition.log.log_end_offset < 2:
            partition.append_records([record(b"b")])

    listener = Watermarks(append_once)
    partition.add_listener(listener)
    partition.append_records([record(b"a")])

    assert (listener.heard, held) == ([1, 2], [False, False])


def test_an_owner_gives_the_rule_for_the_high_watermark() -> None:
    """A leader raises it as far as the rule allows, after each append and when asked to."""
    allowed: list[LogOffsetMetadata | None] = [None]
    partition = Partition("t", 0, one_log(), high_watermark_rule=lambda _: allowed[-1])
    partition.append_records([record(b"a")] * 3)
    before = partition.log.high_watermark

    allowed.append(LogOffsetMetadata(2))

    assert [partition.maybe_increment_high_watermark() for _ in range(2)] == [True, False]
    assert (before, partition.log.high_watermark) == (0, 2)


def test_a_leader_epoch_begins_at_the_log_end() -> None:
    """Batches are stamped with the epoch the partition leads in."""
    partition = Partition("t", 0, one_log(records=2))

    partition.lead(4)
    info = partition.append_records([record(b"a")])

    assert (partition.leader_epoch, info.last_leader_epoch) == (4, 4)
    assert partition.log.epochs.entries == ((0, 0), (4, 2))


def test_a_follower_takes_no_appends_of_a_leader() -> None:
    """The error names the partition and the roles; nothing is written."""
    partition = Partition("t", 0, one_log(records=1))
    partition.follow(2)

    with pytest.raises(NotLeaderOrFollower, match="t-0 is a follower in leader epoch 2"):
        partition.append_records([record(b"a")])
    with pytest.raises(NotLeaderOrFollower):
        partition.maybe_increment_high_watermark()
    assert partition.log.log_end_offset == 1


def test_a_leader_takes_no_appends_of_a_follower() -> None:
    """What it has is what others copy."""
    partition = Partition("t", 0, one_log(records=1))

    with pytest.raises(NotLeaderOrFollower, match="t-0 is a leader in leader epoch 0"):
        partition.append_as_follower(b"", high_watermark=1)


@pytest.mark.parametrize("enter", [Partition.lead, Partition.follow])
def test_a_role_of_an_older_epoch_is_refused(enter: Callable[[Partition, int], None]) -> None:
    """A request that was overtaken by a newer one changes nothing."""
    partition = Partition("t", 0, one_log(records=1, epoch=3))
    partition.lead(5)

    with pytest.raises(FencedLeaderEpoch):
        enter(partition, 4)
    assert partition.leader_epoch == 5
    with pytest.raises(NotLeaderOrFollower, match="t-0 is a leader in leader epoch 5"):
        partition.append_as_follower(b"", high_watermark=1)


def test_a_follower_has_the_leaders_watermark_within_its_own_log() -> None:
    """Batches keep their offsets and epochs; those of epochs above its own are left out."""
    leader = one_log(records=3, epoch=1)
    leader.append_as_leader(build_batch([record(b"b")]), 6)
    data = leader.read(0, isolation=Isolation.LOG_END).read()
    partition = Partition("t", 0, one_log())
    partition.follow(5)

    found = []
    for high_watermark in (2, 9):
        partition.append_as_follower(data, high_watermark=high_watermark)
        data = b""
        found.append((partition.log.log_end_offset, partition.log.high_watermark))

    assert (found, partition.log.latest_epoch) == ([(3, 2), (3, 3)], 1)


def test_a_follower_has_the_leaders_log_start() -> None:
    """It is raised after the high watermark, which bounds it."""
    data = one_log(records=3).read(0, isolation=Isolation.LOG_END).read()
    partition = Partition("t", 0, one_log())
    partition.follow(0)

    partition.append_as_follower(data, high_watermark=3, log_start_offset=2)

    assert partition.log.log_start_offset == 2


def test_a_follower_begins_where_the_leaders_first_batch_does() -> None:
    """The leader deleted records inside its first batch, so the batch begins below both starts."""
    leader = one_log()
    leader.append_as_leader(build_batch([record(b"a")] * 5))
    data = leader.read(0, isolation=Isolation.LOG_END).read()
    log = one_log()
    log.truncate_fully_and_start_at(3)
    partition = Partition("t", 0, log)
    partition.follow(0)

    info = partition.append_as_follower(data, high_watermark=5)

    assert (info.first_offset, log.log_start_offset, log.log_end_offset) == (0, 3, 5)


def test_a_leader_append_carries_what_transactions_need() -> None:
    """Origin, transaction version and verification guard reach the log."""
    partition = Partition("t", 0, one_log())
    log = partition.log
    guard = log.start_verification(7, 0, 0, supports_epoch_bump=False)
    fields: TransactionFields = {
        "producer_id": 7,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
    }
    data = build_batch([record(b"a")], **fields)
    with pytest.raises(InvalidTxnState):
        partition.append(data)
    partition.append(data, verification_guard=guard)
    stable = log.last_stable_offset
    marker = build_marker(
        producer_id=7, producer_epoch=0, coordinator_epoch=0, is_commit=True, timestamp=0
    )
    partition.append(marker, AppendOrigin.COORDINATOR, transaction_version=0)

    assert (stable, log.last_stable_offset) == (0, 2)
