"""An open transaction is aborted by a marker, and that is taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import ManagerHome

from tidelog.embedded.doors import open_to_change
from tidelog.errors import CannotUndo, InvalidArgument, KafkaStorageError
from tidelog.log.archived import ArchivedOffsets
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC
from tidelog.records.builder import build_batch
from tidelog.records.isolation import Isolation
from tidelog.segment.filenames import TopicPartition
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home
from tidelog.service.requests.transaction_abort import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.service.log_service import LogService

KEY = TopicPartition("t", 0)
TXN = {"partitions": {"t": [0]}, "producer_id": 9, "first_offset": 1}
UNDO = {"partitions": {"t": [0]}}


@pytest.fixture
def home() -> ManagerHome:
    """A machine whose logs keep everything."""
    return ManagerHome("/a", retention_ms=-1)


@pytest.fixture
def manager(home: ManagerHome) -> Iterator[LogService]:
    """A service with t-0: plain 0, producer 9 at 1 and 2 (open), plain 3."""
    with open_unverified(home) as manager:
        manager.create_topic("t")
        append(home, manager)
        append(home, manager, producer_id=9)
        append(home, manager, producer_id=9, base_sequence=1)
        append(home, manager)
        yield manager


def open_unverified(home: ManagerHome) -> LogService:
    """Open it without the coordinator that would vouch for transactions."""
    return home.open(transaction_partition_verification_enable=False)


def append(
    home: ManagerHome,
    manager: LogService,
    *,
    producer_id: int = -1,
    producer_epoch: int = 3,
    base_sequence: int = 0,
) -> None:
    """Append one record, of a transaction if a producer is given."""
    record = (home.clock.now_ms(), b"k", b"%d" % producer_id, ())
    fields: dict[str, Any] = {}
    if producer_id >= 0:
        fields = {
            "transactional": True,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "base_sequence": base_sequence,
        }
    manager.partition(*KEY).append(build_batch([record], **fields))


def act(home: ManagerHome, manager: LogService, command: str, arguments: dict[str, Any]) -> Any:
    """Carry a request out."""
    return carry_out(Home(manager, home.machine(), "/a"), command, arguments)


def seen(manager: LogService) -> list[int]:
    """Return the offsets that readers of committed records see."""
    log = manager.partition(*KEY).log
    return [record.offset for record in log.records(isolation=Isolation.READ_COMMITTED)]


def test_an_abort_lets_readers_of_committed_records_go_on(
    home: ManagerHome, manager: LogService
) -> None:
    """They skip the records of the transaction; the plan that is returned says where they are."""
    before = seen(manager)
    row = act(home, manager, "abort-transaction", TXN)
    log = manager.partition(*KEY).log

    assert (before, seen(manager)) == ([0], [0, 3])
    assert (log.log_end_offset, log.last_stable_offset, log.high_watermark) == (5, 5, 5)
    assert row == {
        "topic": "t",
        "partition": 0,
        "producerId": 9,
        "producerEpoch": 3,
        "coordinatorEpoch": 0,
        "firstOffset": 1,
        "markerOffset": 4,
        "highWatermark": 4,
        "lastStableOffset": 1,
        "lastStableOffsetAfter": 5,
    }


def test_another_open_transaction_holds_readers_where_it_begins(
    home: ManagerHome, manager: LogService
) -> None:
    """As the plan says."""
    append(home, manager, producer_id=7)
    row = act(home, manager, "abort-transaction", TXN)

    assert row["lastStableOffsetAfter"] == 4
    assert manager.partition(*KEY).log.last_stable_offset == 4
    assert seen(manager) == [0, 3]


def test_the_producer_may_begin_another_transaction(home: ManagerHome, manager: LogService) -> None:
    """The marker keeps its epoch, as that of Kafka's tool: its sequences continue."""
    act(home, manager, "abort-transaction", TXN)
    append(home, manager, producer_id=9, base_sequence=2)

    assert manager.partition(*KEY).log.last_stable_offset == 5


def test_a_transaction_that_is_not_open_is_refused(home: ManagerHome, manager: LogService) -> None:
    """With those that are, and nothing is written."""
    with pytest.raises(InvalidArgument, match=r"producer 8 has no open .*: 9"):
        act(home, manager, "abort-transaction", {**TXN, "producer_id": 8})

    assert manager.partition(*KEY).log.log_end_offset == 4


def test_another_transaction_than_the_planned_one_is_refused(
    home: ManagerHome, manager: LogService
) -> None:
    """The planned one may have ended, and the producer begun the next."""
    with pytest.raises(InvalidArgument, match="begins at offset 1, not 0"):
        act(home, manager, "abort-transaction", {**TXN, "first_offset": 0})

    assert manager.partition(*KEY).log.log_end_offset == 4


def test_a_missing_log_of_the_coordinator_is_not_begun_again(
    home: ManagerHome, manager: LogService
) -> None:
    """The abort is refused: the transaction may be decided there."""
    manager.create_topic(TRANSACTIONS_TOPIC)
    manager.shutdown()
    path = "/a/__transaction_state-0"
    for name in home.fs.list(path):
        home.fs.delete(f"{path}/{name}")
    home.fs.delete_directory(path)
    with open_to_change("/a", fs=home.fs) as opened:
        with pytest.raises(KafkaStorageError, match=f"{TRANSACTIONS_TOPIC}-0 are missing"):
            carry_out(Home(opened, home.machine(), "/a"), "abort-transaction", TXN)
        assert opened.partition(*KEY).log.log_end_offset == 4

    assert not home.fs.exists(path)


def test_an_undone_abort_leaves_the_log_as_it_was(home: ManagerHome, manager: LogService) -> None:
    """Byte for byte, with the transaction open; its producer can continue and commit it."""
    before = home.fs.read("/a/t-0/" + "0" * 20 + ".log")
    act(home, manager, "abort-transaction", TXN)
    row = act(home, manager, "undo-abort", UNDO)
    log = manager.partition(*KEY).log

    assert home.fs.read("/a/t-0/" + "0" * 20 + ".log") == before
    assert (log.log_end_offset, log.last_stable_offset, seen(manager)) == (4, 1, [0])
    assert (row["markerOffset"], row["lastStableOffsetAfter"]) == (4, 1)
    assert not home.fs.exists(path_of("/a", KEY))
    append(home, manager, producer_id=9, base_sequence=2)


def test_an_abort_is_undone_after_a_restart_and_a_roll(
    home: ManagerHome, manager: LogService
) -> None:
    """The file says what was written; a segment without records does not count."""
    act(home, manager, "abort-transaction", TXN)
    manager.partition(*KEY).log.roll()
    manager.shutdown()
    home.scheduler.forget()
    with open_unverified(home) as again:
        act(home, again, "undo-abort", UNDO)
        log = again.partition(*KEY).log

        assert (log.log_end_offset, log.last_stable_offset) == (4, 1)
        assert [entry.txn_first_offset for entry in log.active_producers().values()] == [1]


def test_an_abort_with_records_behind_it_is_not_undone(
    home: ManagerHome, manager: LogService
) -> None:
    """Truncating them would lose what readers may have seen."""
    act(home, manager, "abort-transaction", TXN)
    append(home, manager)
    with pytest.raises(CannotUndo, match="records from 5 on"):
        act(home, manager, "undo-abort", UNDO)

    assert manager.partition(*KEY).log.log_end_offset == 6


def test_a_marker_that_only_the_archive_has_is_not_taken_back(
    home: ManagerHome, manager: LogService
) -> None:
    """Its segment was closed, archived and deleted from the disk since."""
    act(home, manager, "abort-transaction", TXN)
    log = manager.partition(*KEY).log
    log.roll()
    log.note_archived(ArchivedOffsets(0, 5, equal_end=5))
    log.delete_archived(5)
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 5)

    with pytest.raises(CannotUndo, match="starts at 5 on the disk, after the marker at 4"):
        act(home, manager, "undo-abort", UNDO)

    assert log.log_end_offset == 5


def test_only_a_marker_that_was_written_here_is_undone(
    home: ManagerHome, manager: LogService
) -> None:
    """Not that of a coordinator, which knows the transaction as ended."""
    with pytest.raises(CannotUndo, match="no abort of a transaction in t-0 is known"):
        act(home, manager, "undo-abort", UNDO)
    act(home, manager, "abort-transaction", TXN)
    manager.truncation.truncate_to({KEY: 4})
    append(home, manager)  # another batch at the offset of the marker
    with pytest.raises(CannotUndo, match="is not the marker"):
        act(home, manager, "undo-abort", UNDO)

    assert manager.partition(*KEY).log.log_end_offset == 5


def test_an_undo_can_be_repeated(home: ManagerHome, manager: LogService) -> None:
    """After a crash between the truncation and the deletion of the file."""
    act(home, manager, "abort-transaction", TXN)
    kept = home.fs.read(path_of("/a", KEY))
    act(home, manager, "undo-abort", UNDO)
    home.fs.write(path_of("/a", KEY), kept)
    act(home, manager, "undo-abort", UNDO)

    assert manager.partition(*KEY).log.log_end_offset == 4
    assert not home.fs.exists(path_of("/a", KEY))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1}', b"\xff"]
)
def test_a_file_that_cannot_be_read_undoes_nothing(
    home: ManagerHome, manager: LogService, content: bytes
) -> None:
    """Whatever is in it: such files are input."""
    act(home, manager, "abort-transaction", TXN)
    home.fs.write(path_of("/a", KEY), content)
    with pytest.raises(CannotUndo):
        act(home, manager, "undo-abort", UNDO)

    assert manager.partition(*KEY).log.log_end_offset == 5


def test_an_abort_in_a_topic_of_the_same_name_is_not_undone(
    home: ManagerHome, manager: LogService
) -> None:
    """The topic was deleted and created again."""
    act(home, manager, "abort-transaction", TXN)
    manager.delete_topic("t")
    manager.create_topic("t")
    for _ in range(5):
        append(home, manager)
    with pytest.raises(CannotUndo, match="another topic"):
        act(home, manager, "undo-abort", UNDO)
