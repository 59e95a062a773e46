"""Batches that are in the log already, fed to producers and epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.log_home import LogHome
from tests.machinery.old_batches import build_old

from tidelog.log.leader_epoch import EpochEntry
from tidelog.log.producers.producer_state import ProducerStateConfig, ProducerStateManager
from tidelog.log.producers.replay import epoch_changes, producer_batches, replay_producers
from tidelog.records.control import build_marker
from tidelog.records.memory import walk
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tidelog.segment.txn_index import AbortedTxn


NOW_MS = 1_700_000_000_000


class Producer:
    """Writes the batches of one producer, in the way a valid log holds them."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = self.sequence = 0
        self.is_open = False

    def write(self, action: str, offset: int) -> bytes:
        """Return the next batch: data in or outside a transaction, a new epoch, or a marker."""
        if action in {"commit", "abort"}:
            self.is_open = False
            return build_marker(
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                coordinator_epoch=0,
                is_commit=action == "commit",
                timestamp=NOW_MS + offset,
                base_offset=offset,
            )
        if action == "epoch" and not self.is_open:
            self.epoch += 1
            self.sequence = 0
        self.is_open = self.is_open or action == "begin"
        self.sequence += 1
        return build_batch(
            [(NOW_MS + offset, None, b"value", ())],
            base_offset=offset,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence - 1,
            transactional=self.is_open,
        )


ACTIONS = st.sampled_from(["data"] * 12 + ["begin", "commit", "abort", "epoch"])


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Some hundred batches of three producers and of none."""
    producers = [Producer(number) for number in range(3)]
    steps = draw(st.lists(st.tuples(st.integers(0, 3), ACTIONS), max_size=120))
    data = b""
    for offset, (number, action) in enumerate(steps):
        if number == len(producers):
            data += build_batch([(NOW_MS, None, b"plain", ())], base_offset=offset)
        else:
            data += producers[number].write(action, offset)
    return data


def new_producers() -> ProducerStateManager:
    """Make producer state without anything in it."""
    home = LogHome()
    return ProducerStateManager(
        home.directory, fs=home.fs, clock=home.clock, config=ProducerStateConfig()
    )


@settings(max_examples=100, deadline=None)
@given(logs())
def test_leaving_out_batches_that_tell_nothing_changes_nothing(data: bytes) -> None:
    """A replay that looks at few batches ends in the state that looking at all would give."""
    batches = walk(data).batches
    plain, quick = new_producers(), new_producers()
    completed = []
    for _, batch in producer_batches(batches, data):
        info = plain.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
        done = info.append(batch)
        plain.update(info)
        if done is not None:
            completed.append((done, plain.last_stable_offset(done)))
            plain.complete_txn(done)

    aborted: list[AbortedTxn] = []
    replay_producers(quick, batches, data, aborted.append)

    assert plain.producers == quick.producers
    assert plain.first_unstable_offset == quick.first_unstable_offset
    assert [(done.first_offset, lso) for done, lso in completed if done.is_aborted] == [
        (txn.first_offset, txn.last_stable_offset) for txn in aborted
    ]


def test_old_batches_do_not_move_the_offset_of_the_next_snapshot() -> None:
    """Kafka's recovery shows producer state only what has magic 2."""
    data = build_batch([(0, None, b"x", ())]) + build_old(1, [(0, None, b"y")], base_offset=1)
    producers = new_producers()

    replay_producers(producers, walk(data).batches, data)

    assert producers.map_end_offset == 1


def test_only_rising_epochs_are_noted() -> None:
    """A batch of an epoch that is known, lower or none adds nothing.

    Scenario: LogSegmentTest.testRecoveryRebuildsEpochCache
    """
    data = b"".join(
        build_batch([(NOW_MS, None, b"x", ())], base_offset=offset, leader_epoch=epoch)
        for offset, epoch in enumerate([-1, 2, 2, 1, 5, 5])
    )

    assert epoch_changes(walk(data).batches, -1) == [EpochEntry(2, 1), EpochEntry(5, 4)]
