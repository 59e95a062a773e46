"""Who has a group, as ``tidelog groups --members`` and the admin calls of clients show it."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

import tidelog
from tidelog.cli.main import main
from tidelog.embedded.group_commits import delete_group
from tidelog.errors import KafkaError, NonEmptyGroup
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Validated
    from tests.machinery.brokers import Served

    from tidelog import JoinedLogs

HERE = "the process that holds the directory"
JOINED = f"process {os.getpid()} that has joined the one that holds the directory"


@pytest.fixture
def broker(broker: Served, joined: JoinedLogs) -> Iterator[Served]:
    """With groups that a client, a reader, a reader of a joined program, and nobody has."""
    broker.logs.create_topic("t")
    broker.logs.append("t", b"a")
    where = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
    consumer = Consumer({**where, "group.id": "client", "client.id": "me"})
    consumer.subscribe(["t"])
    assert consumer.poll(30) is not None
    with broker.logs.reader("t", group="left") as reader:
        reader.commit()
    with broker.logs.reader("t", group="here"), joined.reader("t", group="joined"):
        yield broker
    consumer.close()


def rows(data: Path, capsys: pytest.CaptureFixture[str], *groups: str) -> list[dict[str, Any]]:
    """Return what the command prints."""
    assert main(["groups", *groups, "--members", "--json", "-d", str(data)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_members_and_readers_are_shown_with_where_they_are(
    broker: Served, data: Path, capsys: pytest.CaptureFixture[str], validated: Validated
) -> None:
    """Also a reader that has committed nothing; without names all groups are shown."""
    assert broker.bootstrap
    found = rows(data, capsys, "client", "here", "joined", "left")

    names = "group", "state", "clientId", "clientHost"
    assert [tuple(row[name] for name in names) for row in found] == [
        ("client", "Stable", "me", "/127.0.0.1"),
        ("here", "Stable", "tidelog", HERE),
        ("joined", "Stable", "tidelog", JOINED),
        ("left", "Empty", None, None),
    ]
    assert [row["partitions"] for row in found] == [[["t", 0]], [["t", 0]], [["t", 0]], []]
    assert rows(data, capsys) == found
    validated("groups members", found)
    assert main(["groups", "--members", "-d", str(data)]) == 0
    assert re.search(r"/127.0.0.1 +t-0 *\n", capsys.readouterr().out)
    assert main(["groups", "nobody", "--members", "-d", str(data)]) != 0
    assert "there is no group nobody" in capsys.readouterr().err


@pytest.mark.parametrize("group", ["client", "here", "joined"])
@pytest.mark.parametrize("words", [["reset", "--to", "earliest"], ["delete"]])
def test_a_group_with_members_and_no_position_is_not_changed_because_of_them(
    broker: Served, data: Path, capsys: pytest.CaptureFixture[str], group: str, words: list[str]
) -> None:
    """Naming topics, as is asked for without members, would only lead to the same refusal."""
    assert broker.bootstrap
    assert main(["groups", words[0], group, *words[1:], "-d", str(data)]) == 3

    assert f"group '{group}' has members: nothing was set" in capsys.readouterr().err
    assert main(["groups", words[0], "nobody", *words[1:], "-d", str(data)]) == 2


def test_the_admin_calls_of_clients_show_readers(broker: Served) -> None:
    """With the same state, place and partitions."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = admin.describe_consumer_groups(["here"])["here"].result(30)

    assert [(one.client_id, one.host) for one in found.members] == [("tidelog", HERE)]
    assert found.state.name == "STABLE"
    (assigned,) = found.members[0].assignment.topic_partitions
    assert (assigned.topic, assigned.partition) == ("t", 0)


def test_a_directory_without_groups_is_reported(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, as without ``--members``."""
    with tidelog.open(data):
        assert main(["groups", "--members", "-d", str(data)]) == 0

    assert capsys.readouterr() == ("", "tidelog groups: no group has members or positions\n")


def test_without_a_process_no_group_has_members(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is said, and no error."""
    assert main(["groups", "--members", "-d", str(tmp_path)]) == 0

    shown = capsys.readouterr()
    assert shown.out == ""
    assert "no process holds" in shown.err


def test_a_position_that_is_committed_meanwhile_goes_with_its_group(
    broker: Served, data: Path
) -> None:
    """The process that holds the directory decides which there are, not an earlier look."""
    broker.logs.create_partitions("t", 2)
    with broker.logs.reader("t", group="g", partitions=[0]) as reader:
        reader.commit()
    seen = list(broker.logs.groups.committed("g"))
    with broker.logs.reader("t", group="g", partitions=[1]) as reader:
        reader.commit()

    delete_group(str(data), "g", seen)

    assert seen == [TopicPartition("t", 0)]
    assert broker.logs.groups.committed("g") == {}
    with pytest.raises(KafkaError, match="group id not found"):
        delete_group(str(data), "g", seen)
    with pytest.raises(NonEmptyGroup, match="group 'here' has"):
        delete_group(str(data), "here", seen)
