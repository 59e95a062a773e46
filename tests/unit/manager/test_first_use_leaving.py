"""How a data directory is left: clean, unclean, without files that wait for deletion."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome, append, home_with_topic

from tidelog.errors import CommitUnfinished, KafkaStorageError
from tidelog.log.log import Log

if TYPE_CHECKING:
    from tidelog.embedded.logs import Logs

RECOVERY = "recovery-point-offset-checkpoint"
LOG = "00000000000000000000.log"
IO_ERROR = OSError(errno.EIO, "the disk failed")


# Leaving the directory as it was


def test_the_mark_is_gone_while_a_log_is_loaded_and_back_after() -> None:
    """A clean directory is left clean, with the broker epoch that it had."""
    home = home_with_topic(b"a")
    home.mark(broker_epoch=31)
    with home.open() as directory:
        at_first = home.is_marked
        append(directory, b"b")
        meanwhile = home.is_marked

    assert (at_first, meanwhile, home.is_marked) == (True, False, True)
    assert '"brokerEpoch":31' in home.text(".kafka_cleanshutdown")


def test_an_unclean_directory_stays_unclean() -> None:
    """A log that was not loaded may be torn: the next full start must check it."""
    home = home_with_topic(b"a")
    home.fs.delete(f"{home.path}/.kafka_cleanshutdown")
    with home.open() as directory:
        append(directory, b"b")

    assert not home.is_marked


def test_a_torn_log_is_recovered_when_it_is_loaded() -> None:
    """Without the mark, a batch that a crash cut off is dropped, and the log continues there."""
    home = home_with_topic(b"a")
    home.fs.delete(f"{home.path}/.kafka_cleanshutdown")
    log = home.fs.read(f"{home.path}/t-0/{LOG}")
    home.write(f"t-0/{LOG}", log + log[:40])
    home.write(RECOVERY, "0\n0\n")
    with home.open() as directory:
        append(directory, b"b")

    assert home.values("t-0") == [b"a", b"b"]


@pytest.mark.parametrize("what", ["t-0/00000000000000000000.index", RECOVERY + ".tmp"])
def test_a_failing_close_leaves_no_mark(what: str) -> None:
    """If a log or a checkpoint cannot be written, the error is raised and the lock is free."""
    home = home_with_topic(b"a")
    directory = home.open()
    append(directory, b"b")
    home.fs.fail("sync", what, IO_ERROR)

    with pytest.raises(KafkaStorageError):
        directory.close()

    assert not home.is_marked
    home.open().close()


def test_at_close_every_log_is_tried() -> None:
    """A log whose disk fails does not keep the others from being flushed and closed."""
    home = home_with_topic()
    directory = home.open()
    append(directory, b"a", partition=0)
    append(directory, b"b", partition=1)
    home.fs.fail("sync", f"t-0/{LOG}", IO_ERROR)
    with pytest.raises(KafkaStorageError):
        directory.close()
    home.fs.power_cut()

    with home.open() as again:
        again.partition("t", 1)

    assert home.values("t-1") == [b"b"]


def test_a_failed_background_task_leaves_no_mark() -> None:
    """A disk that fails while old files are deleted is a failed disk."""
    home = home_with_topic()
    directory = home.open(overrides={"retention.ms": "1", "segment.ms": "1"})
    roll_and_expire(home, directory)
    home.fs.fail("delete", ".log.deleted", IO_ERROR)
    directory.close()

    assert not home.is_marked


def test_a_log_that_does_not_load_leaves_no_mark() -> None:
    """Its files may be half recovered."""
    home = home_with_topic(b"a")
    home.fs.fail("pread", LOG, IO_ERROR, count=100)
    with home.open() as directory, pytest.raises(KafkaStorageError):
        directory.partition("t", 0)

    assert not home.is_marked


def test_a_log_that_loads_at_the_second_try_is_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, of a directory closed in order, may have left its files half changed."""
    home = home_with_topic(b"a")
    home.fs.delete(f"{home.path}/t-0/{LOG.replace('.log', '.index')}")
    home.fs.fail("open", LOG.replace(".log", ".timeindex"), OSError(errno.ENOSPC, "full"))
    open_log, trusted = Log.open, []

    def opening(*args: Any, clean_shutdown: bool, **how: Any) -> Log:
        trusted.append(clean_shutdown)
        return open_log(*args, clean_shutdown=clean_shutdown, **how)

    monkeypatch.setattr(Log, "open", opening)
    with home.open() as directory:
        with pytest.raises(KafkaStorageError):
            directory.partition("t", 0)
        append(directory, b"b")
        directory.partition("t", 1)

    assert trusted == [True, False, True]
    assert home.values("t-0") == [b"a", b"b"]


def test_after_a_failure_nothing_is_promised() -> None:
    """Once the disk has failed, a flush raises, though the failing file was another log's."""
    home = home_with_topic()
    directory = home.open()
    append(directory, b"a", partition=0)
    append(directory, b"b", partition=1)
    home.fs.fail("sync", f"t-0/{LOG}", IO_ERROR)
    for _ in range(2):
        with pytest.raises(KafkaStorageError):
            directory.flush()

    with pytest.raises(KafkaStorageError, match="offline"):
        directory.create_topic("u")
    with pytest.raises(KafkaStorageError):
        directory.close()


def test_a_full_disk_is_an_error_and_no_failure() -> None:
    """An append that finds no space changes nothing; when there is space again it continues."""
    home = home_with_topic(b"a")
    with home.open() as directory:
        append(directory, b"b")
        home.fs.set_free_bytes(10)
        with pytest.raises(KafkaStorageError):
            append(directory, b"c" * 100)
        home.fs.set_free_bytes(None)
        append(directory, b"d")

    assert home.values("t-0") == [b"a", b"b", b"d"]
    assert home.is_marked


def test_a_closed_directory_is_of_no_more_use() -> None:
    """It holds no lock, so it must not load a log; a second close does nothing."""
    home = home_with_topic(b"a")
    directory = home.open()
    directory.close()
    directory.close()

    with pytest.raises(KafkaStorageError, match="are closed"):
        directory.partition("t", 0)
    with pytest.raises(KafkaStorageError, match="are closed"):
        directory.create_topic("u")


# Files that wait for deletion


def roll_and_expire(home: DataHome, directory: Logs) -> None:
    """Append, roll, and let retention delete what was before."""
    append(directory, b"old")
    log = directory.partition("t", 0).log
    log.roll()
    home.clock.advance(10)
    assert log.delete_old_segments() == 1


def test_what_was_renamed_deleted_goes_at_close() -> None:
    """A process that leaves cannot wait for ``file.delete.delay.ms``."""
    home = home_with_topic()
    with home.open(overrides={"retention.ms": "1"}) as directory:
        roll_and_expire(home, directory)
        waiting = [name for name in home.files("t-0") if name.endswith(".deleted")]

    assert waiting
    assert [name for name in home.files("t-0") if name.endswith(".deleted")] == []
    assert home.is_marked


def test_what_an_earlier_process_left_deleted_goes_when_its_log_is_used() -> None:
    """In the partitions that are touched; others are left alone."""
    home = home_with_topic()
    for number in (0, 1):
        home.write(f"t-{number}/{LOG}.deleted", "left")
    home.clock.advance(60_001)
    with home.open() as directory:
        append(directory, b"a")

    assert [f"{LOG}.deleted" in home.files(f"t-{n}") for n in (0, 1)] == [False, True]


@pytest.mark.parametrize("opened", ["logs", "manager"])
def test_an_error_of_closing_does_not_replace_one_of_the_body(opened: str) -> None:
    """Such as that a transaction is committed, and must not be repeated under another id."""
    home = home_with_topic(b"a")
    directory = home.open()
    append(directory, b"b")
    home.fs.fail("sync", ".kafka_cleanshutdown.tmp", IO_ERROR)

    with (
        pytest.raises(CommitUnfinished, match="of the body"),
        directory if opened == "logs" else directory.manager,
    ):
        raise CommitUnfinished("the error of the body")

    assert not home.is_marked
    assert home.values("t-0") == [b"a", b"b"]
