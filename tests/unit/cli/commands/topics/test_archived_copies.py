"""``tidelog mirror`` and ``to-kafka`` of a topic whose log begins in an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.archives import TIERED, give_up_locally

import tidelog

if TYPE_CHECKING:
    Cli = Any

LEFT_OUT = ["local.retention.ms", "remote.storage.enable"]


@pytest.fixture
def archived(cli: Cli) -> Cli:
    """A topic of 60 records, the first of which only the archive has, and two groups."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t", config=TIERED)
        for number in range(60):
            logs.append("t", b"value %d" % number)
        for group, offset in {"behind": 3, "done": 60}.items():
            with logs.reader("t", group=group) as reader:
                reader.seek("t", 0, offset)
                reader.commit()
    give_up_locally(cli.data, (cli.data.parent / "lake").as_uri())
    return cli


def test_a_mirror_says_that_it_has_what_the_archive_has(archived: Cli) -> None:
    """Only settings are left out."""
    words = ("mirror", archived.data, "--to", archived.data.parent / "copy")

    plan = archived(*words, "--dry-run")
    rows = archived(*words, "--dry-run", "--json").rows
    done = archived(*words)

    what = f"{', '.join(LEFT_OUT)}; records in the archive are copied, too\n"
    assert f"t: would leave out {what}" in plan.out
    assert f"t: left out {what}" in done.out
    assert "t-0: copied [0, 60)" in done.out
    assert [(row["archived"], row["settingsLeftOut"]) for row in rows] == [
        (False, []),
        (True, LEFT_OUT),
    ]


def test_a_hand_over_says_what_the_broker_does_not_get(archived: Cli) -> None:
    """Settings of archives, the beginning of the log, and groups that stand in it."""
    plan = archived.on("to-kafka", "--local-only", "--dry-run").out
    done = archived.on("to-kafka", "--local-only", "--json")

    assert f"\nt: would leave out {', '.join(LEFT_OUT)}\n" in plan
    _, topic, broker = done.lines[:3]
    assert topic["settingsLeftOut"] == LEFT_OUT
    assert not {*LEFT_OUT} & {*topic["settings"]}
    [later] = broker["begunLater"]
    first = later["localLogStartOffset"]
    assert (later["topic"], later["partition"], later["logStartOffset"]) == ("t", 0, 0)
    assert 3 < first < 60
    assert f"t-0 begins at {first} for Kafka, since [0, {first}) is only in its archive\n" in plan
    assert "groups with positions before that, so auto.offset.reset counts: behind\n" in plan
    assert broker["groupsBelow"] == ["behind"]
