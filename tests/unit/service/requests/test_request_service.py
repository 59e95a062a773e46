"""A service carries out what other processes request by files, each at most once."""

from __future__ import annotations

import json
from contextlib import closing
from errno import EACCES, EIO, EISDIR, EMFILE, ENOSPC
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.manager_home import ManagerHome, fill, values

from tidelog.codec.checkpoint_file import MAX_FILE_BYTES
from tidelog.errors import UnknownTopicOrPartition
from tidelog.mailbox.answer import Answer
from tidelog.service.requests.carry_out import carry_out
from tidelog.service.requests.home import Home
from tidelog.service.requests.request import MAX_REQUEST_BYTES, Request
from tidelog.service.requests.request_arguments import ARGUMENTS
from tidelog.service.requests.request_service import KEPT_MS, MAX_CLAIMED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.service.log_service import LogService

BASE = f"tidelog.{'1' * 32}.request"
PATH = f"/a/{BASE}"
SOON_MS = 15_000
CREATE = {"topic": "new", "partitions": 2, "settings": {"retention.ms": "5"}}
TERMS: dict[str, Any] = {"settings": {}, "now_ms": None}


def content_of(home: ManagerHome, command: str, arguments: Mapping[str, Any]) -> bytes:
    """Return a request that may be begun in the next 15 seconds."""
    return Request(command, arguments, home.clock.now_ms() + SOON_MS).encoded()


def ask(
    home: ManagerHome, command: str, arguments: Mapping[str, Any], path: str = PATH
) -> Answer | None:
    """Let a service meet a request; return the answer, None if there is none."""
    home.fs.write(path, content_of(home, command, arguments))
    home.clock.advance(2_000)
    return answer_at(home, path)


def answer_at(home: ManagerHome, path: str = PATH) -> Answer | None:
    """Return the answer to a request."""
    if not home.fs.exists(f"{path}-answered"):
        return None
    return Answer.parsed(json.loads(home.fs.read(f"{path}-answered")))


def states(home: ManagerHome, path: str = "/a") -> list[str]:
    """Return the files of requests."""
    return [name for name in home.files(path) if ".request" in name]


@pytest.fixture
def home() -> ManagerHome:
    """Two directories."""
    return ManagerHome("/a", "/b", retention_ms=-1)


@pytest.fixture
def manager(home: ManagerHome) -> LogService:
    """A service with a topic t in /a."""
    manager = home.open()
    manager.create_topic("t", path="/a")
    fill(manager, "t", 0, 30)
    return manager


def test_a_topic_is_created_in_the_directory_of_the_request(
    home: ManagerHome, manager: LogService
) -> None:
    """As without the service, which may have several directories."""
    first = ask(home, "create", CREATE)
    second = ask(home, "create", {**CREATE, "topic": "other"}, f"/b/{BASE}")

    assert first is not None
    assert second is not None
    assert (first.result["topic"], first.result["partitions"]) == ("new", 2)
    places = {one.log.data_dir for one in manager.partitions("new")}
    others = {one.log.data_dir for one in manager.partitions("other")}
    assert (places, others) == ({"/a"}, {"/b"})
    assert manager.topic("new").config == {"retention.ms": "5"}
    assert states(home) == [f"{BASE}-answered"]


def test_settings_are_changed(home: ManagerHome, manager: LogService) -> None:
    """Open logs follow at once."""
    arguments = {"topic": "t", "settings": {"retention.ms": "7"}, "unset": []}
    answer = ask(home, "alter", arguments)

    assert answer is not None
    assert answer.result == {"topic": "t", "settings": {"retention.ms": "7"}, "unknown": []}
    assert manager.partition("t", 0).log.config.retention_ms == 7


def test_topics_are_deleted_all_or_none(home: ManagerHome, manager: LogService) -> None:
    """One that does not exist is found before anything is deleted."""
    refused = ask(home, "delete", {"topics": ["t", "nobody"]})
    home.fs.delete(f"{PATH}-answered")
    left = set(manager.topics())
    done = ask(home, "delete", {"topics": ["t"]})

    assert refused is not None
    assert done is not None
    assert (refused.error, refused.exit_code, left) == ("UnknownTopicOrPartition", 2, {"t"})
    assert done.result[0]["partitions"] == 1
    assert manager.topics() == {}


def test_a_topic_that_a_failing_disk_has_a_part_of_is_reported_as_deleted(
    home: ManagerHome, manager: LogService
) -> None:
    """The other topics are deleted, too; the error of the disk comes at the end."""
    manager.create_topic("u", 2, is_spread=True)
    home.fs.fail("rename", "/b/u-0", OSError(EIO, "the disk failed"))
    answer = ask(home, "delete", {"topics": ["u", "t"]})

    assert answer is not None
    assert answer.error == "KafkaStorageError"
    assert "the disk failed" in answer.text
    assert [(row["topic"], row["partitions"]) for row in answer.result] == [("u", 2), ("t", 1)]
    assert manager.topics() == {}


def test_a_topic_that_is_not_deleted_keeps_those_named_after_it(
    home: ManagerHome, manager: LogService
) -> None:
    """It is not reported; the request can be repeated without those that are."""
    manager.create_topic("u", path="/a")
    manager.create_topic("v", path="/b")
    manager.take_dir_offline("/b", OSError(EIO, "the disk failed"))
    answer = ask(home, "delete", {"topics": ["u", "v", "t"]})

    assert answer is not None
    assert answer.error == "KafkaStorageError"
    assert [row["topic"] for row in answer.result] == ["u"]
    assert answer.text.endswith("not deleted: v, t; delete them alone")
    assert set(manager.topics()) == {"t", "v"}


def test_a_topic_made_again_while_those_before_it_are_deleted_stays(
    home: ManagerHome, manager: LogService
) -> None:
    """Its records are not those that were to be deleted; the request is refused for its name."""
    before = manager.create_topic("u", path="/a")

    def make_again(_: object) -> None:
        manager.delete_topic("u")
        manager.create_topic("u", path="/b")

    with pytest.raises(UnknownTopicOrPartition, match="topic u was deleted"):
        carry_out(Home(manager, home.machine(), "/a", make_again), "delete", {"topics": ["t", "u"]})

    assert set(manager.topics()) == {"u"}
    assert manager.topic("u").topic_id != before.topic_id


def test_records_are_deleted_in_all_partitions_or_in_none(
    home: ManagerHome, manager: LogService
) -> None:
    """If one refuses the offset, nothing was deleted."""
    manager.create_topic("u", 2)
    fill(manager, "u", 0, 5)
    arguments = {"partitions": {"u": [0, 1]}, "before": 3, **TERMS}
    refused = ask(home, "delete-records", arguments)
    home.fs.delete(f"{PATH}-answered")
    starts = [one.log.log_start_offset for one in manager.partitions("u")]
    done = ask(home, "delete-records", {**arguments, "partitions": {"u": [0]}})

    assert refused is not None
    assert done is not None
    assert (refused.error, refused.exit_code, starts) == ("InvalidArgument", 2, [0, 0])
    assert "nothing was deleted" in refused.text
    assert [row["logStartOffset"] for row in done.result] == [3]


def test_retention_by_other_limits_leaves_the_settings_alone(
    home: ManagerHome, manager: LogService
) -> None:
    """The limits of a request hold for it alone; appends beside it never see them."""
    log = manager.partition("t", 0).log
    config, before = log.config, len(log.segments)
    seen: list[object] = []
    retain = log.retain

    def watched(now_ms: int | None = None, limits: Any = None) -> Any:
        seen.append(log.config)
        return retain(now_ms, limits)

    log.retain = watched  # type: ignore[assignment, method-assign]  # to look in the middle
    terms = {**TERMS, "settings": {"retention.bytes": "1"}, "server_properties": None}
    answer = ask(home, "retain", {"partitions": {"t": [0]}, "are_named": True, **terms})

    assert answer is not None
    assert answer.result["notes"] == []
    assert len(answer.result["logs"][0]["deleted"]) >= before - 1 > 1
    assert (log.config, seen) == (config, [config])


def test_a_log_is_compacted_by_another_policy_for_once(
    home: ManagerHome, manager: LogService
) -> None:
    """Records without a key may be appended meanwhile and afterwards."""
    terms = {**TERMS, "settings": {"cleanup.policy": "compact"}, "server_properties": None}
    answer = ask(home, "compact", {"partitions": {"t": [0]}, **terms})

    assert answer is not None
    [row] = answer.result
    assert (row["isCompacted"], row["recordsRead"] > row["recordsKept"]) == (True, True)
    assert not manager.partition("t", 0).log.config.is_compacted
    assert len(values(manager, "t", 0)) < 30


def test_partitions_are_moved_and_then_answered(home: ManagerHome, manager: LogService) -> None:
    """More of them than move at the same time; a repetition finds them moved."""
    manager.create_topic("m", 9, path="/a")
    arguments = {"partitions": {"m": list(range(9))}, "target": "/b"}
    home.fs.write(PATH, content_of(home, "move", arguments))
    home.clock.advance(1_000)
    moving = sum(manager.get_log("m", n, is_future=True) is not None for n in range(9))
    during = answer_at(home)
    home.clock.advance(5_000)
    done = answer_at(home)
    home.fs.delete(f"{PATH}-answered")
    again = ask(home, "move", arguments)

    assert (moving <= 4, during) == (True, None)
    assert done == again == Answer([])
    assert {one.log.data_dir for one in manager.partitions("m")} == {"/b"}


def test_a_move_that_is_given_up_is_reported(home: ManagerHome, manager: LogService) -> None:
    """So is one to a directory that the service does not have: no path outside is touched."""
    outside = ask(home, "move", {"partitions": {"t": [0]}, "target": "/elsewhere"})
    home.fs.delete(f"{PATH}-answered")
    home.fs.write(PATH, content_of(home, "move", {"partitions": {"t": [0]}, "target": "/b"}))
    manager.tasks.answer_requests()
    manager._mover.step = lambda key: None  # type: ignore[method-assign]  # it takes its time  # noqa: ARG005 - mypy wants the name
    home.clock.advance(0)
    during = answer_at(home)
    manager._mover.cancel(next(iter(manager._registry.futures())))
    home.clock.advance(2_000)
    given_up = answer_at(home)

    assert outside is not None
    assert outside.error == "LogDirNotFound"
    assert not home.fs.exists("/elsewhere")
    assert during is None
    assert given_up is not None
    assert "was not moved: the move was cancelled" in given_up.text


def test_a_move_whose_source_fails_is_answered(home: ManagerHome, manager: LogService) -> None:
    """Its copy stays, as it may be all that is left, and nobody continues it."""
    home.fs.write(PATH, content_of(home, "move", {"partitions": {"t": [0]}, "target": "/b"}))
    path = f"/b/{BASE}"
    home.fs.rename(PATH, path)
    home.fs.fail("pread", "/a/t-0/00000000000000000000.log", OSError(EIO, "bad"), count=9)
    home.clock.advance(5_000)
    answer = answer_at(home, path)

    assert manager.live_dirs == ["/b"]
    assert manager.get_log("t", 0, is_future=True) is not None
    assert answer is not None
    assert "t-0 was not moved: " in answer.text


def test_moves_are_listed_limited_and_cancelled(home: ManagerHome, manager: LogService) -> None:
    """By requests of their own."""
    manager._mover.step = lambda key: None  # type: ignore[method-assign]  # it takes its time  # noqa: ARG005 - mypy wants the name
    manager.move_partition("t", 0, "/b")
    answers = []
    for command, arguments in (
        ("throttle-moves", {"bytes_per_second": 500}),
        ("list-moves", {}),
        ("cancel-moves", {"partitions": {"t": [0]}}),
        ("list-moves", {}),
        ("cancel-moves", {"partitions": {"t": [0]}}),
    ):
        answer = ask(home, command, arguments)
        assert answer is not None
        answers.append(answer)
        home.fs.delete(f"{PATH}-answered")

    limited, listed, cancelled, none, refused = answers
    [row] = listed.result
    assert limited == Answer({"limitBytesPerSecond": 500})
    assert (row["topic"], row["partition"], row["from"], row["to"]) == ("t", 0, "/a", "/b")
    assert row["limitBytesPerSecond"] == 500
    assert cancelled == Answer([{"topic": "t", "partition": 0}])
    assert none == Answer([])
    assert "t-0: not being moved" in refused.text


HOSTILE: dict[str, bytes] = {
    "not JSON": b"{",
    "not UTF-8": b"\xff\xfe\x00",
    "nested without end": b"[" * 200_000,
    "not an object": b"[1]",
    "empty": b"",
    "without a version": json.dumps({"command": "create", "arguments": CREATE}).encode(),
    "an old version": b'{"version": 0}',
    "a version of another type": b'{"version": "1"}',
    "with more": json.dumps({**json.loads(Request("delete", {}, 0).encoded()), "x": 1}).encode(),
    "a command of another type": b'{"version":1,"command":[],"arguments":{},"deadline_ms":9e18}',
    "a deadline of another type": Request("create", CREATE, 2.5e18).encoded(),  # type: ignore[arg-type]  # refused
    "an unknown command": Request("rm", {}, 1 << 60).encoded(),
    "a path as topic": Request("create", {**CREATE, "topic": "../x"}, 1 << 60).encoded(),
    "no partition": Request("create", {**CREATE, "partitions": 0}, 1 << 60).encoded(),
    "too many partitions": Request("create", {**CREATE, "partitions": 1 << 40}, 1 << 60).encoded(),
    "a partition that is not there": Request(
        "move", {"partitions": {"t": [-1]}, "target": "/b"}, 1 << 60
    ).encoded(),
    "past its deadline": Request("create", CREATE, 5).encoded(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_a_valid_request_is_refused(
    home: ManagerHome, manager: LogService, name: str
) -> None:
    """With an answer, and without any other effect."""
    home.fs.write(PATH, HOSTILE[name])
    before = manager.topics()
    home.clock.advance(2_000)
    answer = answer_at(home)

    assert answer is not None
    assert (answer.exit_code, answer.result) == (2, [])
    assert (manager.topics(), manager.live_dirs) == (before, ["/a", "/b"])
    assert states(home) == [f"{BASE}-answered"]


GOOD: dict[str, Any] = {
    "topic": "t",
    "topics": ["t"],
    "partitions": {"t": [0]},
    "settings": {},
    "unset": [],
    "follow": [],
    "birth": {},
    "before": 0,
    "now_ms": None,
    "to": "file:///lake",
    "takes_over": False,
    "follows_start": False,
    "sweeps": False,
    "truncates": False,
    "snapshot": None,
    "are_named": True,
    "keep": True,
    "server_properties": None,
    "target": "/b",
    "bytes_per_second": 500,
    "producer_id": 1,
    "first_offset": 0,
}
BAD: tuple[Any, ...] = (0.0, True, "0", None, [], [0], ["t"], {}, {"t": 0}, {"t": ["0"]}, 1 << 70)


@pytest.mark.parametrize("command", ARGUMENTS)
def test_an_argument_of_another_type_is_refused(
    home: ManagerHome, manager: LogService, command: str
) -> None:
    """A float or a bool equals some number, and would make a directory that no start can read."""
    good = {name: GOOD[name] for name in ARGUMENTS[command]}
    if command == "create":
        good["partitions"] = 1
    refused = 0
    for name, check in ARGUMENTS[command].items():
        for value in BAD:
            if check(value):
                continue
            answer = ask(home, command, {**good, name: value})
            assert answer is not None
            assert answer.error == "InvalidArgument", (name, value)
            home.fs.delete(f"{PATH}-answered")
            refused += 1
    later = {"birth", "follow"}  # requests of the release before lack them
    needed = [name for name in good if name not in later]
    other = {n: good[n] for n in needed[1:]} if good else {"one": "too many"}
    missing = ask(home, command, other)

    assert missing is not None
    assert missing.error == "InvalidArgument"
    assert refused >= 7 * len(ARGUMENTS[command])
    assert len(values(manager, "t", 0)) == 30


def test_a_request_of_a_newer_release_is_left_alone(home: ManagerHome, manager: LogService) -> None:
    """It may mean what this release does not know."""
    content = json.loads(content_of(home, "create", CREATE))
    data = json.dumps({**content, "version": 2}).encode()
    home.fs.write(PATH, data)
    home.clock.advance(2 * KEPT_MS)

    assert (states(home), home.fs.read(PATH)) == ([BASE], data)
    assert "new" not in manager.topics()


def test_a_file_that_is_far_too_large_is_not_read(home: ManagerHome, manager: LogService) -> None:
    """It is left alone, and the requests beside it are answered."""
    large = PATH.replace("1", "0")
    with closing(home.fs.open(large, "w")) as file:
        file.truncate(MAX_REQUEST_BYTES + 1)
    answer = ask(home, "create", CREATE)

    assert (answer is not None, home.fs.exists(large)) == (True, True)
    assert "new" in manager.topics()


@pytest.mark.parametrize(
    "name",
    [
        "tidelog.request",
        f"tidelog.{'1' * 31}.request",
        f"tidelog.{'G' * 32}.request",
        f"tidelog.{'1' * 32}.request-other",
        f"x{BASE}",
        f"{BASE}\n",
        f"{BASE}.tmp",
    ],
)
def test_a_file_of_another_name_is_not_a_request(
    home: ManagerHome, manager: LogService, name: str
) -> None:
    """Nothing else is read or renamed."""
    home.fs.write(f"/a/{name}", content_of(home, "create", CREATE))
    home.clock.advance(2_000)

    assert states(home) == ([name] if ".request" in name else [])
    assert "new" not in manager.topics()


def test_a_directory_of_such_a_name_harms_nothing(home: ManagerHome, manager: LogService) -> None:
    """Neither where a request should be, nor where its answer goes."""
    home.fs.make_directory(PATH)
    other = PATH.replace("1", "0")
    home.fs.make_directory(f"{other}-answered/full")
    home.fs.write(other, content_of(home, "create", CREATE))
    home.clock.advance(2 * KEPT_MS)

    assert manager.live_dirs == ["/a", "/b"]
    assert "new" in manager.topics()
    assert home.fs.exists(PATH)


def test_a_claim_is_durable_before_anything_is_done(home: ManagerHome, manager: LogService) -> None:
    """A power cut must not bring back a request that was carried out."""
    home.fs.write(PATH, content_of(home, "create", CREATE))
    before = len(home.fs.operations)
    home.clock.advance(2_000)
    names = [(one.name, one.path) for one in home.fs.operations[before:]]
    renamed = names.index(("rename", PATH))
    synced = names.index(("sync_directory", "/a"), renamed)
    created = next(n for n, (name, path) in enumerate(names) if path.startswith("/a/new-"))

    assert renamed < synced < created
    assert "new" in manager.topics()


def test_a_claim_of_a_service_that_has_ended_is_cleared(home: ManagerHome) -> None:
    """Nobody knows how far it came: it is not carried out again."""
    home.fs.make_directory("/a")
    home.fs.write(f"{PATH}-claimed", content_of(home, "create", CREATE))
    with home.open() as manager:
        home.clock.advance(2_000)

        assert (states(home), manager.topics()) == ([], {})


def test_what_nobody_takes_is_deleted_after_ten_minutes(
    home: ManagerHome, manager: LogService
) -> None:
    """Answers, and files that a process began to write before it was killed; not before."""
    ask(home, "create", CREATE)
    home.fs.write(PATH.replace("1", "0") + ".tmp", b"half of")
    home.clock.advance(KEPT_MS - 10_000)
    before = states(home)
    home.clock.advance(12_000)

    assert (len(before), states(home)) == (2, [])
    assert "new" in manager.topics()


@pytest.mark.parametrize(
    ("operation", "error"),
    [("open", EMFILE), ("open", ENOSPC), ("rename", ENOSPC), ("rename", EMFILE)],
)
def test_a_lack_that_passes_delays_a_request(
    home: ManagerHome, manager: LogService, operation: str, error: int
) -> None:
    """It is claimed by the next pass, and the directory stays online."""
    home.fs.fail(operation, BASE, OSError(error, "for now"))
    home.fs.write(PATH, content_of(home, "create", CREATE))
    manager.tasks.answer_requests()
    first = states(home)
    home.clock.advance(2_000)

    assert (first, states(home)) == ([BASE], [f"{BASE}-answered"])
    assert manager.live_dirs == ["/a", "/b"]


def test_a_request_that_may_not_be_read_is_left_alone(
    home: ManagerHome, manager: LogService
) -> None:
    """Its file is not the disk."""
    home.fs.fail("open", BASE, OSError(EACCES, "not permitted"), count=9)
    home.fs.write(PATH, content_of(home, "create", CREATE))
    home.clock.advance(5_000)

    assert (states(home), manager.live_dirs) == ([BASE], ["/a", "/b"])


def test_an_answer_waits_for_space(home: ManagerHome, manager: LogService) -> None:
    """What was done is not done again, and the process that asked waits."""
    home.fs.fail("open", "answered.tmp", OSError(ENOSPC, "full"), count=3)
    home.fs.write(PATH, content_of(home, "create", CREATE))
    home.clock.advance(1_500)
    during = states(home), set(manager.topics())
    home.clock.advance(4_000)
    answer = answer_at(home)

    assert during == ([f"{BASE}-claimed"], {"t", "new"})
    assert answer is not None
    assert (answer.error, states(home)) == ("", [f"{BASE}-answered"])


@pytest.mark.parametrize("error", [EIO, EISDIR])
def test_an_answer_that_fails_says_something_about_the_disk_or_nothing(
    home: ManagerHome, manager: LogService, error: int
) -> None:
    """After EIO the directory goes offline, with its logs; other errors are of the file alone."""
    home.fs.fail("rename", "answered.tmp", OSError(error, "failed"))
    ask(home, "create", CREATE)

    assert manager.live_dirs == (["/b"] if error == EIO else ["/a", "/b"])


@pytest.mark.parametrize("error", [EIO, EMFILE])
def test_a_claim_that_is_not_durable_is_not_carried_out(
    home: ManagerHome, manager: LogService, error: int
) -> None:
    """The request is refused; a failed fsync takes the directory offline, no lack of resources."""
    home.fs.write(PATH, content_of(home, "create", {**CREATE, "topic": "lost"}))
    home.fs.fail("sync_directory", "/a", OSError(error, "failed"))
    manager.tasks.answer_requests()
    home.clock.advance(5_000)
    answer = answer_at(home)

    assert manager.live_dirs == (["/b"] if error == EIO else ["/a", "/b"])
    assert answer is not None
    assert "nothing was done" in answer.text
    assert "lost" not in manager.topics()


def test_requests_beyond_those_in_hand_wait(home: ManagerHome, manager: LogService) -> None:
    """A thousand files do not become a thousand tasks at once; all are answered in the end."""
    count = 3 * MAX_CLAIMED
    for number in range(count):
        arguments = {"topic": "t", "settings": {"retention.ms": str(number)}, "unset": []}
        home.fs.write(f"/a/tidelog.{number:032x}.request", content_of(home, "alter", arguments))
    manager.tasks.answer_requests()
    claimed = sum(name.endswith("-claimed") for name in states(home))
    home.clock.advance(10_000)

    assert claimed == MAX_CLAIMED
    assert sum(name.endswith("-answered") for name in states(home)) == count


def test_a_result_that_is_too_large_is_reported(home: ManagerHome, manager: LogService) -> None:
    """The command was carried out, and the process that asked is not left waiting."""
    topic = manager.topic("t")
    manager.alter_topic = lambda *_args: _huge(topic)  # type: ignore[method-assign]  # a long one
    answer = ask(home, "alter", {"topic": "t", "settings": {}, "unset": []})

    assert answer is not None
    assert "too large" in answer.text


def _huge(topic: Any) -> Any:
    return topic.changed(config={"x": "y" * MAX_FILE_BYTES})


def test_an_unforeseen_error_is_an_answer_too(home: ManagerHome, manager: LogService) -> None:
    """No error leaves a process waiting, nor ends the service."""

    def fail(*_args: object) -> None:
        raise ZeroDivisionError("unforeseen")

    manager.alter_topic = fail  # type: ignore[assignment, method-assign]  # a fault
    answer = ask(home, "alter", {"topic": "t", "settings": {}, "unset": []})
    after = ask(home, "create", CREATE, PATH.replace("1", "0"))

    assert answer is not None
    assert (answer.error, answer.text, answer.exit_code) == ("ZeroDivisionError", "unforeseen", 3)
    assert after is not None
    assert after.error == ""


def test_a_stop_answers_what_was_claimed(home: ManagerHome, manager: LogService) -> None:
    """What was not begun is refused: the command may be repeated."""
    home.fs.write(PATH, content_of(home, "create", CREATE))
    manager.tasks.answer_requests()
    manager.shutdown()
    answer = answer_at(home)

    assert answer is not None
    assert (answer.error, "nothing was done" in answer.text) == ("KafkaStorageError", True)
    assert states(home) == [f"{BASE}-answered"]
    with home.open() as again:
        assert "new" not in again.topics()


def test_a_stop_during_a_move_is_reported(home: ManagerHome, manager: LogService) -> None:
    """The next start continues it."""
    manager._mover._run_step = lambda key: None  # type: ignore[method-assign]  # it takes its time  # noqa: ARG005 - mypy wants the name
    arguments = {"partitions": {"t": [0]}, "target": "/b"}
    home.fs.write(PATH, content_of(home, "move", arguments))
    home.clock.advance(2_000)
    manager.shutdown()
    answer = answer_at(home)
    with home.open() as again:
        home.clock.advance(2_000)

        assert again.partition("t", 0).log.data_dir == "/b"
    assert answer is not None
    assert "the next start continues the move" in answer.text


def test_a_pass_lists_each_directory_once(home: ManagerHome, manager: LogService) -> None:
    """However many kinds of files it looks for."""
    traced = home.fs.trace()
    manager.tasks.answer_requests()

    assert [one.path for one in traced if one.name == "list"] == ["/a", "/b"]
    assert len(traced) == 2
