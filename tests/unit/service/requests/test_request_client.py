"""A process asks the holder of a directory to act, and learns how it ends in every case."""

from __future__ import annotations

from errno import EIO, ENOSPC
from typing import NoReturn

import pytest
from tests.machinery.requesting import FIRST_PID, Requesting, ServiceDied

from tidelog.errors import (
    DirectoryLocked,
    InvalidTopic,
    OutcomeUnknown,
    RequestFailed,
    RequestNotTaken,
)
from tidelog.mailbox.letter import Letter
from tidelog.service.requests.request_client import WAIT_MS


def test_without_a_holder_nothing_is_asked() -> None:
    """The command is carried out at once, and no file is written."""
    asking = Requesting()
    asking.stop()
    result = asking.create("new")

    assert (result["partitions"], asking.here, asking.requests()) == (1, 1, [])
    assert asking.home.clock.elapsed_ms() == 0


def test_a_service_is_asked() -> None:
    """Its answer is the result, which is that of the command itself."""
    asking = Requesting()
    result = asking.create("new")

    assert (result["topic"], asking.here, asking.requests()) == ("new", 0, [])
    assert "new" in asking.manager.topics()


def test_the_error_of_a_service_is_that_of_the_command() -> None:
    """With the name of its class, its text and the exit code."""
    asking = Requesting()
    with pytest.raises(RequestFailed) as caught:
        asking.create("a/b")
    asking.stop()
    with pytest.raises(InvalidTopic) as alone:
        asking.create("a/b")

    error = caught.value
    assert (error.error, str(error), error.exit_code) == ("InvalidTopic", str(alone.value), 2)
    assert asking.requests() == []


def test_a_writer_that_ends_is_waited_for() -> None:
    """The request is withdrawn, and the command carried out by the process itself."""
    asking = Requesting()
    asking.deafen()
    asking.after(5_000, asking.stop)
    result = asking.create("new")

    assert (result["topic"], asking.here, asking.requests()) == ("new", 1, [])
    assert 5_000 <= asking.home.clock.elapsed_ms() <= 5_200


def test_a_holder_that_takes_no_request_is_not_waited_for_forever() -> None:
    """Nothing was done, and the request is withdrawn, so that nobody carries it out later."""
    asking = Requesting()
    asking.deafen()
    with pytest.raises(RequestNotTaken, match="took no request within 15 s"):
        asking.create("new")

    assert asking.requests() == []
    assert WAIT_MS <= asking.home.clock.elapsed_ms() <= WAIT_MS + 200
    assert asking.waiting == [FIRST_PID]


def test_a_holder_that_takes_the_request_soon_is_not_spoken_of() -> None:
    """Only one that is silent for two seconds."""
    asking = Requesting()
    asking.deafen()
    asking.after(1_500, asking.stop)
    asking.create("new")

    assert asking.waiting == []


def test_writers_that_take_turns_are_waited_for_no_longer() -> None:
    """The time is that of all together."""
    asking = Requesting()
    asking.deafen()
    asking.is_contended = True
    for number in range(1, 40):
        asking.after(number * 1_000, asking.next_holder)
    with pytest.raises(RequestNotTaken):
        asking.create("new")

    assert asking.requests() == []
    assert asking.home.clock.elapsed_ms() <= WAIT_MS + 1_500


def test_a_holder_that_cannot_be_seen_is_waited_for_no_longer() -> None:
    """As one on another host: the lock seems to be free each time, and is not."""
    asking = Requesting()
    asking.stop()
    asking.is_contended = True
    with pytest.raises(RequestNotTaken):
        asking.create("new")

    assert (asking.requests(), asking.here) == ([], 0)
    assert WAIT_MS <= asking.home.clock.elapsed_ms() <= WAIT_MS + 200


def test_kafka_is_not_waited_for() -> None:
    """It never takes a request."""
    asking = Requesting(program="java")
    with pytest.raises(RequestNotTaken, match="Java"):
        asking.create("new")

    assert (asking.requests(), asking.home.clock.elapsed_ms()) == ([], 0)


def test_a_request_that_a_full_disk_does_not_take_reports_the_way_on() -> None:
    """What was asked, that nothing was done, and what helps; nothing of it stays on the disk."""
    asking = Requesting()
    asking.home.fs.fail("pwrite", ".tmp", OSError(ENOSPC, "No space left on device"))
    with pytest.raises(RequestNotTaken) as refused:
        asking.create("new")

    assert (asking.requests(), asking.here, asking.begun) == ([], 0, 0)
    assert "new" not in asking.manager.topics()
    assert str(refused.value) == (
        "/a is in use by process 1000; one process at a time may write, any may read. A request to"
        " create, which that process would carry out, could not be written to /a: No space left on"
        " device. Nothing was done; free some space there, or stop that process and repeat the"
        " command, which then needs no request"
    )


def test_a_request_that_a_failing_disk_may_have_lost_is_open() -> None:
    """Where it can be taken back it was not taken; else it is not known."""
    asking = Requesting()
    asking.home.fs.fail("sync_directory", "/a", OSError(EIO, "bad disk"), skipped=1)
    with pytest.raises(RequestNotTaken, match=r"bad disk\. Nothing was done; mend that, or stop"):
        asking.create("new")
    asking.home.fs.fail("sync_directory", "/a", OSError(EIO, "bad disk"), 2, skipped=1)
    with pytest.raises(OutcomeUnknown, match=r"syncing /a failed: bad disk; .* may have taken"):
        asking.create("new")


def test_a_lock_on_another_directory_is_reported() -> None:
    """As on the target of a move: no request in this directory would help."""
    asking = Requesting()

    def locked() -> NoReturn:
        raise DirectoryLocked("/elsewhere/.lock", 7)

    with pytest.raises(DirectoryLocked, match="/elsewhere is in use"):
        asking.ask("move", {}, locked)
    assert asking.requests() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_withdraws_a_request(error: type[BaseException]) -> None:
    """Ctrl-C and SIGTERM leave nothing that could be carried out."""
    asking = Requesting()
    asking.deafen()
    asking.after(300, lambda: asking.interrupt(error))
    with pytest.raises(error):
        asking.create("new")

    assert (asking.requests(), asking.left) == ([], 0)


def test_an_interrupt_as_soon_as_a_request_is_there_withdraws_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes right after the rename; the service would carry out what nobody waits for."""
    asking, place = Requesting(), Letter.place

    def interrupted(letter: Letter) -> NoReturn:
        place(letter)
        raise KeyboardInterrupt

    monkeypatch.setattr(Letter, "place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asking.create("new")

    assert asking.requests() == []
    asking.home.clock.advance(2_000)
    assert "new" not in asking.manager.topics()


def test_an_interrupt_after_the_claim_is_reported() -> None:
    """The service carries the request out."""
    asking = Requesting()
    asking.manager.create_topic = lambda *_args, **_how: asking.interrupt(KeyboardInterrupt)  # type: ignore[method-assign]  # in the middle
    with pytest.raises(KeyboardInterrupt):
        asking.create("new")

    assert asking.left == 1


def test_a_service_that_ends_before_it_answers_leaves_the_outcome_unknown() -> None:
    """The claim shows that it began; nobody carries the request out a second time."""
    asking = Requesting()
    asking.manager.create_topic = lambda *_args, **_how: asking.die()  # type: ignore[method-assign]  # in the middle
    with pytest.raises(OutcomeUnknown, match="look with tidelog describe"):
        asking.create("new")

    claims = asking.requests()
    asking.restart()
    asking.home.clock.advance(2_000)
    assert [name.rpartition("-")[2] for name in claims] == ["claimed"]
    assert asking.requests() == []
    assert "new" not in asking.manager.topics()


def test_a_move_whose_outcome_is_unknown_is_looked_for_by_its_copy() -> None:
    """The next start continues it; ``describe`` shows the partition at its source meanwhile."""
    asking = Requesting()
    asking.manager.create_topic("t", path="/a")
    asking.manager.move_partition = lambda *_args: asking.die()  # type: ignore[method-assign]  # in the middle
    with pytest.raises(OutcomeUnknown, match="look with tidelog move --list --to DIR"):
        asking.ask("move", {"partitions": {"t": [0]}, "target": "/b"})


def test_a_service_that_is_followed_by_another_leaves_the_outcome_unknown() -> None:
    """The next one clears the claim."""
    asking = Requesting()

    def die(*_args: object, **_how: object) -> None:
        asking.kill()
        asking.restart()
        raise ServiceDied

    asking.manager.create_topic = die  # type: ignore[assignment, method-assign]  # in the middle
    with pytest.raises(OutcomeUnknown):
        asking.create("new")
    asking.home.clock.advance(2_000)

    assert asking.requests() == []


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"version": 2}', b'{"version":1,"text":5,"exit_code":0}']
)
def test_an_answer_that_cannot_be_read_leaves_the_outcome_unknown(content: bytes) -> None:
    """Such as one of a newer release, or of somebody else."""
    asking = Requesting()
    asking.deafen()

    def answer() -> None:
        [name] = asking.requests()
        asking.home.fs.rename(f"/a/{name}", f"/a/{name}-claimed")
        asking.home.fs.write(f"/a/{name}-answered", content)
        asking.home.fs.delete(f"/a/{name}-claimed")

    asking.after(500, answer)
    with pytest.raises(OutcomeUnknown, match="answer"):
        asking.create("new")
    assert asking.requests() == []
