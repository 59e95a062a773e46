"""Which transactions are known, for how long, and what of a stream counts as a repeat."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.unit.staging.test_finished import DATA, home, read_as_another_process

from tidelog.codec.checkpoint_file import MAX_FILE_BYTES
from tidelog.errors import KafkaStorageError, MissingStreamBatches, OldStreamBatch
from tidelog.staging import finished
from tidelog.staging.finished import (
    FINISHED_FILE,
    CommittedTransaction,
    add_finished,
    check_table,
    find_repeated,
    finished_by,
    finished_for,
    mirror_txn,
    read_finished,
    write_finished,
)
from tidelog.staging.staged_file import transaction_hash
from tidelog.staging.stream_batch import StreamBatch

WEEK_MS = 7 * 24 * 3_600_000


def batch(number: int, query: str = "q", **fields: Any) -> CommittedTransaction:
    """Return a batch of a stream, committed at a time of its number."""
    stream = StreamBatch(query, number)
    return CommittedTransaction(f"{query}-{number}", number, {"t": 1}, False, stream, **fields)


def named(txn: str, time_ms: int = 0, **fields: Any) -> CommittedTransaction:
    """Return a transaction that a user named."""
    return CommittedTransaction(txn, time_ms, {"t": 1}, **fields)


def by_id(*known: CommittedTransaction) -> dict[str, CommittedTransaction]:
    """Return transactions by their ids."""
    return {one.txn: one for one in known}


def test_a_batch_of_a_stream_is_a_repeat_the_next_or_an_error() -> None:
    """One that is left out would be lost, and an old one would come twice."""
    last = batch(5)
    known = by_id(named("a"), last, batch(9, "other"))

    def repeated(number: int, **accepted: bool) -> CommittedTransaction | None:
        return find_repeated(known, "any", StreamBatch("q", number), **accepted)

    assert repeated(5) is last
    assert repeated(6) is None
    with pytest.raises(MissingStreamBatches, match="5"):
        repeated(7)
    assert repeated(7, accepts_gap=True) is None
    with pytest.raises(OldStreamBatch):
        repeated(4)
    assert repeated(4, skips_old=True) is last
    assert repeated(5, skips_old=True, accepts_gap=True) is last
    assert find_repeated(known, "any", StreamBatch("new", 7)) is None
    assert find_repeated(known, "a", None) is known["a"]
    assert find_repeated(known, "b", None) is None


def test_after_an_earlier_release_a_gap_of_a_stream_is_none() -> None:
    """It did not keep batches without records."""
    known = by_id(batch(5, follows_all=False))

    assert find_repeated(known, "any", StreamBatch("q", 9)) is None


def test_a_journal_is_done_if_its_batch_or_a_later_one_is_known() -> None:
    """It is not applied again then, after a crash."""
    last = batch(5)
    known = by_id(named("a"), last)
    found = [finished_by(known, "any", StreamBatch("q", number)) for number in (4, 5, 6)]

    assert found == [last, last, None]
    assert finished_by(known, "any", StreamBatch("new", 1)) is None
    assert finished_by(known, "a", None) is known["a"]


def test_named_transactions_and_streams_are_known_beside_each_other() -> None:
    """For a week from their commit on; of a stream its last batch, whatever its age."""
    files = home()
    for one in (batch(1), named("a", 2), batch(2), batch(3, "other"), named("b", 4)):
        write_finished(files, DATA, read_finished(files, DATA), one)
    assert set(read_as_another_process(files)) == {"q-2", "a", "other-3", "b"}

    write_finished(files, DATA, read_finished(files, DATA), named("c", 2 + WEEK_MS))
    assert set(read_finished(files, DATA)) == {"q-2", "a", "other-3", "b", "c"}
    write_finished(files, DATA, read_finished(files, DATA), named("d", 3 + WEEK_MS))
    assert set(read_finished(files, DATA)) == {"q-2", "other-3", "b", "c", "d"}


def test_what_nobody_named_is_known_until_the_next_commit_or_as_long_as_it_is_awaited() -> None:
    """Its journal may come back with a power cut."""
    files, awaited = home(), [transaction_hash("x")]
    write_finished(files, DATA, {}, named("x", is_named=False))
    write_finished(files, DATA, read_finished(files, DATA), named("a"), awaited=awaited)
    assert set(read_finished(files, DATA)) == {"x", "a"}
    write_finished(files, DATA, read_finished(files, DATA), named("b"), awaited=[])
    assert set(read_finished(files, DATA)) == {"a", "b"}


def test_of_very_many_streams_the_last_ones_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch takes the place of its own stream, and of no other."""
    monkeypatch.setattr(finished, "MAX_STREAMS", 2)
    files = home()
    for number, query in enumerate("abcc"):
        write_finished(files, DATA, read_finished(files, DATA), batch(number, query))
    assert set(read_finished(files, DATA)) == {"b-1", "c-3"}
    write_finished(files, DATA, read_finished(files, DATA), named("n"))
    assert set(read_finished(files, DATA)) == {"b-1", "c-3", "n"}


def test_what_another_directory_has_committed_is_known_here() -> None:
    """Of an id that both know, the topics of both; of a stream, the later batch."""
    files = home()
    ours = [
        CommittedTransaction("a", 5, {"t": 1}, topic_ids={"t": UUID(int=1)}),
        batch(5),
        batch(5, "q2"),
    ]
    for one in ours:
        write_finished(files, DATA, read_finished(files, DATA), one)
    theirs = [
        CommittedTransaction("a", 7, {"u": 2}, topic_ids={"u": UUID(int=2)}),
        named("x", is_named=False),
        batch(6),
        batch(4, "q2"),
        batch(1, "new"),
        named("q"),
    ]

    add_finished(files, DATA, theirs)

    found = read_as_another_process(files)
    assert set(found) == {"a", "q-6", "q2-5", "new-1", "q"}
    assert found["a"] == CommittedTransaction(
        "a", 7, {"t": 1, "u": 2}, topic_ids={"t": UUID(int=1), "u": UUID(int=2)}
    )
    done = len(files.operations)
    add_finished(files, DATA, theirs)
    assert len(files.operations) == done  # it is all there


def test_a_table_that_has_no_room_refuses_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it begins; what is awaited is looked up only then. A replay may need more."""
    assert finished.MAX_TABLE_BYTES < MAX_FILE_BYTES
    files, asked = home(), []
    known = by_id(named("a"))
    write_finished(files, DATA, {}, known["a"])
    size = files.stat(f"{DATA}/{FINISHED_FILE}").size_bytes

    def awaited() -> list[str]:
        asked.append(finished.MAX_TABLE_BYTES)
        return []

    def check(limit: int, time_ms: int = 1) -> None:
        monkeypatch.setattr(finished, "MAX_TABLE_BYTES", limit)
        check_table(files, DATA, known, named("b", time_ms), awaited=awaited, retention_ms=1)

    check(2 * size)
    assert asked == []
    check(2 * size - 1)
    assert asked == [2 * size - 1]
    check(size, 2)  # "a" is not kept any more
    with pytest.raises(KafkaStorageError, match="would have"):
        check(size, 1)
    with pytest.raises(KafkaStorageError, match="would have"):
        check(size - 1, 2)
    monkeypatch.setattr(finished, "MAX_TABLE_BYTES", size)
    with pytest.raises(KafkaStorageError, match="would have"):
        add_finished(files, DATA, [named("b")])
    assert set(read_finished(files, DATA)) == {"a"}


def test_the_form_of_the_file_is_one_that_this_release_and_later_ones_read() -> None:
    """An earlier one refuses the version, instead of forgetting what it does not know."""
    files = home()
    write_finished(files, DATA, {}, named("a"))

    assert files.read(f"{DATA}/{FINISHED_FILE}").startswith(b'{"version": 4, "transactions": [')


def test_a_topic_is_written_by_those_that_named_it() -> None:
    """One that was created again is another topic, unless no ids were kept."""
    one = CommittedTransaction("a", 1, {"t": 1, "u": 1}, topic_ids={"t": UUID(int=1)})
    known = by_id(one)

    assert finished_for(known, "t", UUID(int=1)) == [one]
    assert finished_for(known, "t", UUID(int=2)) == []
    assert finished_for(known, "u", UUID(int=3)) == [one]
    assert finished_for(known, "v", UUID(int=1)) == []


def test_a_run_of_a_mirror_says_what_it_has_copied_from() -> None:
    """Nobody else's transaction does, though a user may have named it so."""
    txn = mirror_txn(3, "/source of\nall")

    assert named(txn, is_named=False).mirrored == "/source of\nall"
    assert named(txn).mirrored is None
    assert named("other", is_named=False).mirrored is None
