"""``tidelog run`` as a process, and commands beside it, each a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from tests.crash.test_service import COMMAND, read_until, service, tidelog_command
from tests.machinery.scale import scaled

import tidelog
from tidelog.cli.serving.service_requests import asked
from tidelog.embedded.doors import open_briefly
from tidelog.env.scheduler import ThreadScheduler
from tidelog.errors import DirectoryLocked

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

VARYING = {
    r"id \S{22}": "id",  # a topic's
    r"until \d{4}-\S+ \S+ UTC": "until then",  # by the time of change of an empty segment's file
}
SMALL = {"internal.segment.bytes": "600", "retention.ms": "-1", "segment.index.bytes": "4096"}
LARGE = 60
"""Partitions of a topic whose compaction takes seconds."""
NOW = ("--now", "1700000600000")
FIRST_MS = 1_700_000_000_000
CALM = ("-o", "log.cleaner.enable=false", "-o", "log.initial.task.delay.ms=3600000")
"""A service that neither retains nor compacts by itself."""


def prepare(data: Path) -> None:
    """Make topics: one to retain, one to compact, and one to shrink."""
    with tidelog.open(data, log_cleaner_enable=False) as logs:
        logs.create_topic("retained", 2, {**SMALL, "retention.bytes": "2000"})
        logs.create_topic("compacted", 1, {**SMALL, "cleanup.policy": "compact"})
        for name in ("retained", "compacted"):
            for number in range(80):
                key, time_ms = b"%d" % (number % 3), FIRST_MS + number
                logs.append(name, b"value %d" % number, key=key, timestamp=time_ms, partition=0)


COMMANDS = (
    ("create", "new", "-p", "3", "-o", "retention.ms=1000"),
    ("create", "new"),
    ("alter", "new", "-o", "retention.ms=2000", "--unset", "x"),
    ("alter", "new", "-o", "retention.ms=2000"),
    ("alter", "nobody", "-o", "retention.ms=2000"),
    ("delete-records", "retained", "-p", "0", "--before", "20"),
    ("delete-records", "retained", "-p", "0", "--before", "60", "--json"),
    ("retain", "retained", *NOW),
    ("retain", *NOW, "-o", "retention.bytes=700"),
    ("compact", "compacted", *NOW),
    ("compact", "--json", *NOW),
    ("delete", "new", "nobody"),
    ("delete", "new", "compacted"),
)


def test_every_command_ends_beside_a_service_as_without_one(tmp_path: Path) -> None:
    """With the same output, messages and exit code, one after another on the same directory."""
    alone, served = tmp_path / "alone", tmp_path / "served"
    for data in (alone, served):
        prepare(data)
    expected = [outcome(words, alone) for words in COMMANDS]
    with service("-d", served, *CALM) as process:
        found = [outcome(words, served) for words in COMMANDS]
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)

    assert found == expected
    assert {each[0] for each in expected} == {0, 2}
    assert (code, list(served.glob("tidelog.*.request*"))) == (0, [])


def outcome(words: tuple[str, ...], data: Path) -> tuple[int, str, str]:
    """Run a command; return its outcome without the id of a topic and the directory's name."""
    done = tidelog_command(*words, "-d", data)
    return done.returncode, plain(done.stdout, data), plain(done.stderr, data)


def plain(text: str, data: Path) -> str:
    """Return output without what differs from run to run."""
    for pattern, word in VARYING.items():
        text = re.sub(pattern, word, text)
    return text.replace(str(data), "DIR")


def test_a_damaged_log_is_recovered_beside_a_service(tmp_path: Path) -> None:
    """As without one: the same is cut and kept, and the log takes appends again."""
    alone, served = tmp_path / "alone", tmp_path / "served"
    with tidelog.open(alone) as logs:
        for topic in ("t", "u"):
            logs.create_topic(topic)
            for number in range(10):
                logs.append(topic, b"value %d" % number)
    path = alone / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 10 * 4 + 7] ^= 8
    path.write_bytes(data)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (alone / name).unlink()
    shutil.copytree(alone, served)
    words = "recover", "t", "u"

    expected = outcome(words, alone)
    with service("-d", served, *CALM) as process:
        found = outcome(words, served)
        with tidelog.open_read_only(served / "t-0") as log:
            values = [record.value for record in log.records()]
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)

    assert expected[0] == 1
    assert found[0] == 1
    lines = [
        [line for line in each[1].splitlines() if line.startswith(("t-0", "  "))]
        for each in (expected, found)
    ]
    assert lines[0] == lines[1]
    assert values == [b"value %d" % number for number in range(4)]
    assert code == 0
    assert (served / ".kafka_cleanshutdown").exists()


def test_partitions_move_beside_a_service(tmp_path: Path) -> None:
    """All of a topic by one command; it is repeatable."""
    first, second = tmp_path / "a", tmp_path / "b"
    with tidelog.open(first, second) as logs:
        logs.create_topic("t", 5)
        home = logs.partition("t", 0).log.directory.rpartition("/")[0]
        for number in range(5):
            logs.append("t", b"x" * 10_000, partition=number)
    target = str(second if home == str(first) else first)
    with service("-d", first, "-d", second):
        moved = tidelog_command("move", "t", "-d", home, "--to", target)
        read = tidelog_command("cat", "t", "-d", target)

    assert (moved.returncode, moved.stdout.count(f"moved to {target}")) == (0, 5), moved.stderr
    assert read.stdout.count('"offset"') == 5


def test_fifty_requests_at_once_are_all_answered(tmp_path: Path) -> None:
    """Each that asks gets the answer to its own request."""
    prepare(tmp_path)
    count = scaled(50)
    results: dict[int, Any] = {}

    def ask(number: int) -> None:
        arguments = {"topic": f"t{number}", "partitions": 1, "settings": {}}
        results[number] = asked("create", str(tmp_path), arguments, lambda: locked(tmp_path))

    with service("-d", tmp_path, *CALM):
        tasks = [partial(ask, number) for number in range(count)]
        ThreadScheduler(1).run_all("ask", tasks, count)

    assert {number: row["topic"] for number, row in results.items()} == {
        number: f"t{number}" for number in range(count)
    }
    with tidelog.open(tmp_path) as logs:
        assert len(logs.topics()) == count + 2
    assert list(tmp_path.glob("tidelog.*.request*")) == []


def locked(data: Path) -> NoReturn:
    """Find the directory locked, as each of the fifty does."""
    raise DirectoryLocked(str(data / ".lock"))


def begin(*words: object) -> subprocess.Popen[str]:
    """Start a command."""
    given = [*COMMAND, *map(str, words)]
    return subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def large_compacted(data: Path) -> None:
    """Write a topic whose compaction takes seconds: many partitions of several segments each."""
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "600"}
    with tidelog.open(data, log_cleaner_enable=False) as logs:
        logs.create_topic("large", LARGE, settings)
        for number in range(LARGE):
            for value in range(20):
                key = b"%d" % (value % 3)
                logs.append("large", b"value %d" % value, key=key, partition=number)


def test_a_long_command_delays_no_other(tmp_path: Path) -> None:
    """Topics are created and retained while a log is compacted."""
    large_compacted(tmp_path)
    with service("-d", tmp_path, *CALM) as process:
        compacting = begin("compact", "large", "-d", tmp_path)
        read_until(process, "request-claimed")
        created = tidelog_command("create", "t", "-d", tmp_path)
        retained = tidelog_command("retain", "t", "-d", tmp_path)
        out, err = compacting.communicate(timeout=600)

    assert (created.returncode, retained.returncode) == (0, 0)
    assert (compacting.returncode, err) == (0, "")
    assert len(re.findall(r"^large-\d+: dropped", out, re.MULTILINE)) == LARGE


def test_a_service_that_is_killed_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    """The command ends with 3 and the advice to look; the next service clears the claim."""
    large_compacted(tmp_path)
    with service("-d", tmp_path, *CALM) as process:
        compacting = begin("compact", "large", "-d", tmp_path)
        read_until(process, "request-claimed")
        process.kill()
        process.wait(120)
        _, err = compacting.communicate(timeout=600)
    with service("-d", tmp_path, *CALM) as process:
        created = tidelog_command("create", "t", "-d", tmp_path)
        left = list(tmp_path.glob("tidelog.*.request*"))

    assert (compacting.returncode, "look with tidelog describe" in err) == (3, True)
    assert (created.returncode, left) == (0, [])


def test_a_service_that_is_stopped_answers_first(tmp_path: Path) -> None:
    """A compaction is aborted, the command says why, and the directory is marked as clean."""
    large_compacted(tmp_path)
    with service("-d", tmp_path, *CALM) as process:
        compacting = begin("compact", "large", "-d", tmp_path)
        read_until(process, "request-claimed")
        process.send_signal(signal.SIGTERM)
        service_code = process.wait(120)
        compacting.communicate(timeout=120)

    assert (service_code, compacting.returncode in {0, 3}) == (0, True)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert list(tmp_path.glob("tidelog.*.request*")) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_command_withdraws_its_request(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """The holder here takes no requests, as a short-lived writer."""
    prepare(tmp_path)
    holder = open_briefly(tmp_path)
    try:
        asking = begin("create", "t", "-d", tmp_path)
        while not list(tmp_path.glob("tidelog.*.request")):
            assert asking.poll() is None
        asking.send_signal(number)
        asking.communicate(timeout=120)
        ended = asking.returncode
        left = list(tmp_path.glob("tidelog.*.request*"))
    finally:
        holder.close()

    assert (ended, left) == (code, [])


def test_a_short_lived_writer_is_waited_for(tmp_path: Path) -> None:
    """The command carries the work out itself once the lock is free."""
    prepare(tmp_path)
    holder = open_briefly(tmp_path)
    asking = begin("create", "t", "-d", tmp_path)
    while not list(tmp_path.glob("tidelog.*.request")):
        assert asking.poll() is None
    holder.close()
    out, err = asking.communicate(timeout=120)

    assert (asking.returncode, out.startswith("t: 1 partition"), err) == (0, True, "")


def test_entries_that_only_look_like_requests_harm_nothing(tmp_path: Path) -> None:
    """A pipe, a link out of the directory, a directory, a large file; others are answered."""
    data = tmp_path / "data"
    prepare(data)
    secret = tmp_path / "secret.json"
    request = {"command": "delete", "arguments": {"topics": ["retained"]}, "deadline_ms": 1 << 60}
    secret.write_text(json.dumps({"version": 1, **request}))
    os.mkfifo(data / f"tidelog.{'1' * 32}.request")
    (data / f"tidelog.{'2' * 32}.request").symlink_to(secret)
    (data / f"tidelog.{'3' * 32}.request").mkdir()
    with (data / f"tidelog.{'4' * 32}.request").open("wb") as file:
        file.truncate(1 << 40)
    (data / f"tidelog.{'5' * 32}.request-answered").symlink_to(secret)
    (data / f"tidelog.{'6' * 32}.request-claimed").symlink_to(secret)
    with service("-d", data) as process:
        created = tidelog_command("create", "t", "-d", data)
        described = tidelog_command("describe", "retained", "-d", data)
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)

    assert (created.returncode, described.returncode, code) == (0, 0, 0)
    assert secret.exists()
    assert (data / "retained-0").is_dir()
