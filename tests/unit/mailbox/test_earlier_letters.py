"""Letters that earlier releases left are taken, and what this release leaves is as theirs was."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from tests.machinery.manager_home import ManagerHome, values
from tests.machinery.staging import stage

from tidelog.errors import InvalidTopic, MessageTooLarge
from tidelog.mailbox.answer import VERSION, Answer
from tidelog.mailbox.letter import State
from tidelog.service.requests.request import REQUESTS, Request, RequestFiles
from tidelog.staging.journal import NewTopic
from tidelog.staging.manifest_names import MANIFESTS
from tidelog.staging.ready import ReadyFiles, ReadyManifest
from tidelog.staging.ready_expiry import LEFTOVER_MS
from tidelog.testing import CrashFileSystem

LETTERS: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parents[2] / "golden" / "own" / "mailbox" / "letters.json").read_text("utf-8")
)
FAR_MS = 1 << 60
RECORDS = [b"first", b"second"]


def files_of(what: str) -> dict[str, bytes]:
    """Return the files of a letter by name."""
    return {name: b64decode(data) for name, data in LETTERS[what].items()}


def put(fs: CrashFileSystem, what: str, path: str = "/a") -> list[str]:
    """Put the files of a letter into a directory; return their paths."""
    for name, data in files_of(what).items():
        fs.write(f"{path}/{name}", data)
    return [f"{path}/{name}" for name in files_of(what)]


def met(what: str) -> tuple[ManagerHome, Any]:
    """Return a service that has met a letter in /a; the topic t lies there, too."""
    home = ManagerHome("/a", "/b", retention_ms=-1)
    manager = home.open()
    manager.create_topic("t", path="/a")
    put(home.fs, what)
    home.clock.advance(2_000)
    return home, manager


def letters_in(home: ManagerHome) -> list[str]:
    """Return the files of letters in /a."""
    names = home.files("/a")
    return [name for name in names if REQUESTS.find([name]) or MANIFESTS.find([name])]


def test_a_request_is_carried_out_and_answered_in_the_form_that_it_expects() -> None:
    """The process that asked is of that release, and refuses members that it does not know."""
    home, manager = met("a request")
    [name] = letters_in(home)
    answer = json.loads(home.fs.read(f"/a/{name}"))

    assert (len(list(manager.partitions("asked"))), name[-9:]) == (2, "-answered")
    assert manager.topic("asked").config["retention.ms"] == "5"
    assert answer.keys() == {"version", "result", "error", "text", "exit_code"}
    assert answer["result"]["topic"] == "asked"


def test_a_request_that_a_service_of_that_release_had_taken_is_not_taken_again() -> None:
    """That service has ended, and nobody knows how far it came."""
    home, _ = met("a request that was claimed")

    assert letters_in(home) == []


@pytest.mark.parametrize("state", ["ready", "claimed"])
def test_a_manifest_is_committed(state: str) -> None:
    """A claimed one, too: the process that claimed it has ended, and left no journal."""
    home, manager = met(f"a manifest: {state}")

    assert values(manager, "new", 1) == RECORDS
    assert letters_in(home) == []


@pytest.mark.parametrize("state", ["withdrawn", "refused"])
def test_a_manifest_that_was_withdrawn_or_refused_is_swept(state: str) -> None:
    """Nothing of it is committed."""
    home, manager = met(f"a manifest: {state}")
    before = letters_in(home)
    home.clock.set_time_of_day(home.clock.now_ms() + LEFTOVER_MS)
    home.clock.advance(400_000)

    assert (len(before), letters_in(home)) == (1, [])
    assert "new" not in manager.topics()


def test_answers_are_read() -> None:
    """Of a request, and the refusal of a commit, with the error's own class and values."""
    fs = CrashFileSystem()
    fs.make_directory("/a")
    answers = []
    for what in ("an answer", "an answer that is an error"):
        [path] = put(fs, what)
        stem = path.removeprefix("/a/").removesuffix(".request-answered")
        letter = RequestFiles(fs, "/a", stem)
        answers.append(letter.read(State.ANSWERED, VERSION, Answer.parsed))
    refused = next(path for path in put(fs, "a manifest: refused") if path.endswith(".refused"))
    stem = refused.removeprefix("/a/").removesuffix(".refused")
    error = ReadyFiles(fs, "/a", stem).refusal()

    assert answers[0] == Answer({"topic": "t", "settings": {}, "unknown": []})
    assert answers[1] == Answer([1, "two"], "InvalidTopic", "a/b", 2)
    assert isinstance(error, MessageTooLarge)
    assert error.args == ("a staged batch", 7, 5, "max.message.bytes")


def test_what_this_release_leaves_is_what_that_one_left() -> None:
    """To the byte, so that each reads what the other leaves; a refusal has further members."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    arguments = {
        "topic": "asked",
        "partitions": 2,
        "settings": {"retention.ms": "5"},
        "birth": {"cleanup.policy": "delete"},
    }
    new = NewTopic("new", UUID(int=4), 2, {"retention.ms": "-1"})
    some = {("new", 1): RECORDS}
    transaction = stage(
        *(fs, "/data", "golden", some), rng=Random(5), topic_ids={}, new_topics=[new]
    )
    [name] = files_of("a manifest: refused").keys() - files_of("a manifest: ready").keys()
    refused = ReadyFiles(fs, "/data", name.removesuffix(".refused"))
    refused.refuse(MessageTooLarge("a staged batch", 7, 5, "max.message.bytes"))
    theirs = json.loads(files_of("a manifest: refused")[name])
    ours = json.loads(fs.read(f"/data/{name}"))

    assert Request("create", arguments, FAR_MS).encoded() in files_of("a request").values()
    manifest = ReadyManifest(transaction, FAR_MS).encoded()
    assert manifest in files_of("a manifest: ready").values()
    answer = Answer.of_error(InvalidTopic("a/b"), [1, "two"]).encoded()
    assert answer in files_of("an answer that is an error").values()
    assert theirs.items() <= ours.items()
