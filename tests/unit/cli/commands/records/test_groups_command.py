"""``tidelog groups``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.machinery.transactions import begin_with_position, end_transaction

import tidelog
from tidelog.codec.messages.keyed_message import write_value
from tidelog.embedded.doors import open_briefly
from tidelog.readonly.group_positions import (
    GROUP_NUMBER,
    OFFSETS_TOPIC,
    Position,
    group_key,
    position_records,
)
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    Cli = Any


def commit(cli: Cli, group: str, topic: str, count: int) -> None:
    """Read some records of a topic for a group, and commit its position."""
    with tidelog.open(cli.data) as logs, logs.reader(topic, group=group) as reader:
        records = reader.read()
        for _ in range(count):
            next(records)
        reader.commit()


def test_positions_are_shown_with_the_lag(topic: Cli) -> None:
    """By group and partition; or only of the groups that are named."""
    topic.append("a", "b", "c")
    topic.on("create", "u")
    topic.append("x", topic="u")
    commit(topic, "g", "t", 1)
    commit(topic, "h", "u", 1)

    rows = topic.on("groups", "--json").rows
    lines = topic.on("groups", "g").out.splitlines()

    assert [(row["group"], row["topic"], row["offset"], row["lag"]) for row in rows] == [
        ("g", "t", 1, 2),
        ("h", "u", 1, 0),
    ]
    assert lines[0].split()[:3] == ["group", "partition", "offset"]
    assert lines[1].split()[:5] == ["g", "t-0", "1", "3", "2"]
    assert len(lines) == 2


def test_positions_are_shown_up_to_the_log_end(topic: Cli) -> None:
    """Beside a writer those that it has not checkpointed yet are seen, too, and the lag."""
    topic.append("a", "b", "c")
    commit(topic, "g", "t", 1)
    commit(topic, "g", "t", 1)
    path = topic.data / "replication-offset-checkpoint"
    path.write_text("0\n2\n__consumer_offsets 0 1\nt 0 2\n")

    lines = topic.on("groups", "g").out.splitlines()
    at_end = topic.on("groups", "g", "--up-to", "logEnd").out.splitlines()

    assert lines[1].split()[:5] == ["g", "t-0", "1", "2", "1"]
    assert at_end[0].split()[3:6] == ["log", "end", "lag"]
    assert at_end[1].split()[:5] == ["g", "t-0", "2", "3", "1"]
    refused = topic.on("groups", "delete", "g", "--up-to", "logEnd")
    assert (refused.code, "--up-to is for" in refused.err) == (2, True)


def test_partitions_of_members_are_shown_before_they_have_a_position(cli: Cli) -> None:
    """As by Kafka's tool, with ``-``; what a leader has sent malformed says nothing."""
    cli.on("create", "t", "-p", "3")
    cli.on("create", "s")
    cli.append("a", topic="s")
    commit(cli, "g", "s", 1)
    store_members(cli, "g", assigned(1), b"\0")
    store_members(cli, "h", assigned(2))
    store_members(cli, "left")

    rows = cli.on("groups", "--json").rows
    lines = [line.split()[:5] for line in cli.on("groups", "h").out.splitlines()]
    planned = cli.on("groups", "delete", "g", "--json").rows

    found = [[row[name] for name in ("group", "topic", "partition", "offset")] for row in rows]
    assert found == [["g", "s", 0, 1], ["g", "t", 1, None], ["h", "t", 2, None]]
    assert lines[1:] == [["h", "t-2", "-", "0", "-"]]
    assert [row["topic"] for row in planned] == ["s"]


def assigned(number: int) -> bytes:
    """Return the assignment of a partition of topic t, as leaders of groups send it."""
    return b"\0\0" + b"\0\0\0\1\0\1t\0\0\0\1" + number.to_bytes(4) + b"\xff" * 4


def store_members(cli: Cli, group: str, *assignments: bytes) -> None:
    """Store what a coordinator does of a group with members that have these assignments."""
    member = {
        "memberId": "m",
        "groupInstanceId": None,
        "clientId": "c",
        "clientHost": "127.0.0.1",
        "rebalanceTimeout": 1,
        "sessionTimeout": 1,
        "subscription": b"",
    }
    values = {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": "m",
        "currentStateTimestamp": 1,
        "members": [{**member, "assignment": one} for one in assignments],
    }
    value = write_value("group", GROUP_NUMBER, 3, values)
    with tidelog.open(cli.data) as logs:
        home = logs.manager.partition(OFFSETS_TOPIC, 0)
        home.append_records([(1, group_key(group), value, ())])


def test_a_topic_that_was_deleted_has_no_lag(topic: Cli) -> None:
    """Also if there is another one of its name now: the position was not committed for it."""
    topic.append("a")
    commit(topic, "g", "t", 1)
    topic.on("delete", "t")

    gone = topic.on("groups", "--json").rows
    is_gone = topic.on("groups")
    topic.on("create", "t")
    again = topic.on("groups", "--json").rows
    is_another = topic.on("groups")

    assert [(row["highWatermark"], row["lag"]) for row in (*gone, *again)] == [(None, None)] * 2
    assert [row["isOfAnotherTopic"] for row in (*gone, *again)] == [False, True]
    assert (is_gone.out.splitlines()[1].split()[3:5], is_gone.err) == (["unknown"] * 2, "")
    assert is_another.out.splitlines()[1].split()[3:6] == ["another", "topic", "unknown"]
    assert is_another.err == (
        "tidelog groups: 1 position is of another topic of its name, which was deleted, or restored"
        " without --keep-ids, and does not count: tidelog groups reset GROUP --to current keeps"
        " each after a restore, --to earliest begins a new topic\n"
    )


def test_a_position_in_a_restored_topic_of_another_id_can_be_kept(topic: Cli) -> None:
    """It is written again, with the id of the topic, though the offset stays."""
    topic.append("a", "b")
    commit(topic, "g", "t", 1)
    topic.on("delete", "t")
    topic.on("create", "t")
    topic.append("a", "b")

    planned = topic.on("groups", "reset", "g", "--to", "current", "--json")
    topic.on("groups", "reset", "g", "--to", "current", "--execute")
    again = topic.on("groups", "reset", "g", "--to", "current")

    (row,) = topic.on("groups", "--json").rows
    assert [(one["offset"], one["newOffset"]) for one in planned.rows] == [(1, 1)]
    assert "t-0 is of another topic of its name, and counts in this one then" in planned.err
    assert "another topic" not in again.err
    assert (row["offset"], row["lag"], row["isOfAnotherTopic"]) == (1, 1, False)


def test_a_group_without_positions_is_wrong_usage(topic: Cli) -> None:
    """Named in the error."""
    outcome = topic.on("groups", "nobody")

    assert outcome[:2] == (2, "")
    assert "has no positions of group nobody" in outcome.err


def positions(cli: Cli) -> dict[tuple[str, str, int], int]:
    """Return all positions."""
    rows = cli.on("groups", "--json").rows
    return {(row["group"], row["topic"], row["partition"]): row["offset"] for row in rows}


def test_a_directory_without_groups_is_reported(topic: Cli) -> None:
    """On stderr, so that no output is not taken for a failure; as JSON there are the counts."""
    outcome = topic.on("groups")

    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == f"tidelog groups: no group has committed a position in {topic.data}\n"
    assert topic.on("groups", "--json").err == ""


def test_beside_a_writer_it_is_said_that_positions_show_later(topic: Cli) -> None:
    """Kafka cannot be asked for its high watermark, and that in the files is some seconds old."""
    with open_briefly(topic.data):  # it does not listen either
        every, named = topic.on("groups"), topic.on("groups", "g")

    assert (every.code, named.code) == (0, 2)
    assert every.err.endswith(
        "; the process that writes it shows new positions after some seconds: try again\n"
    )
    assert "has no positions of group g; the process that writes it" in named.err


def test_a_reset_is_planned_and_then_carried_out(topic: Cli) -> None:
    """To the ends, an offset, or a time; in the partitions that have positions, or of topics."""
    topic.append("a", "b", "c")
    commit(topic, "g", "t", 2)

    planned = topic.on("groups", "reset", "g", "--to", "earliest")
    assert planned.code == 0
    assert planned.out.splitlines()[1].split() == ["g", "t-0", "2", "0"]
    assert planned.out.splitlines()[-1] == "nothing was changed; --execute does it"
    assert positions(topic) == {("g", "t", 0): 2}

    for where, offset in (
        (["--to", "earliest"], 0),
        (["--to", "latest"], 3),
        (["--to-offset", "1"], 1),
        (["--to", "2000-01-01"], 0),
        (["--to", "2100-01-01"], 3),
    ):
        (row,) = topic.on("groups", "reset", "g", *where, "--execute", "--json").rows
        assert (row["newOffset"], row["executed"]) == (offset, True)
        assert positions(topic) == {("g", "t", 0): offset}

    (row,) = topic.on("groups", "reset", "h", "t", "--to", "latest", "--execute", "--json").rows
    assert (row["offset"], row["newOffset"]) == (None, 3)
    assert positions(topic) == {("g", "t", 0): 3, ("h", "t", 0): 3}


def test_a_time_after_all_records_is_named(topic: Cli) -> None:
    """The position is set all the same: what comes next is as late."""
    topic.append("a")
    commit(topic, "g", "t", 0)

    outcome = topic.on("groups", "reset", "g", "--to", "2100-01-01", "--execute")

    text = "t-0 has no record at or after 2100-01-01 00:00:00 UTC: its position is the end"
    assert (outcome.code, text in outcome.err) == (0, True)
    assert positions(topic) == {("g", "t", 0): 1}


def test_groups_are_deleted_with_their_positions(topic: Cli) -> None:
    """After a look at what that is; their names may be those of the words of this command."""
    topic.append("a")
    for group in ("g", "h", "delete"):
        commit(topic, group, "t", 1)

    assert "would be set to" in topic.on("groups", "delete", "g", "h").out
    assert len(positions(topic)) == 3
    rows = topic.on("groups", "delete", "g", "h", "--execute", "--json").rows
    assert [(row["group"], row["newOffset"]) for row in rows] == [("g", None), ("h", None)]
    assert positions(topic) == {("delete", "t", 0): 1}
    assert topic.on("groups", "delete").out.split()[6:8] == ["committed", "delete"]


def test_a_deleted_group_gets_nothing_back_from_a_transaction(topic: Cli) -> None:
    """Neither the position that it had nor those that the transaction has set."""
    topic.on("create", "u")
    topic.append("a")
    commit(topic, "g", "t", 1)
    with tidelog.open(topic.data) as logs:
        home = logs.partition(OFFSETS_TOPIC, 0)
        begin_with_position(home, 7, TopicPartition("u", 0), 0)
        begin_with_position(home, 8, TopicPartition("t", 0), 0)

    rows = topic.on("groups", "delete", "g", "--execute", "--json").rows

    assert [(row["topic"], row["offset"]) for row in rows] == [("t", 1), ("u", None)]
    with tidelog.open(topic.data) as logs:
        for producer_id in (7, 8):
            end_transaction(logs.partition(OFFSETS_TOPIC, 0), producer_id, is_commit=True)
        assert logs.group_positions() == {}
    assert positions(topic) == {}


def test_a_group_that_is_read_is_not_changed(topic: Cli) -> None:
    """Its reader would continue where it is, and commit that."""
    topic.append("a")
    commit(topic, "g", "t", 1)
    with tidelog.open(topic.data) as logs, logs.reader("t", group="g"):
        for words in (["reset", "g", "--to", "earliest"], ["delete", "g"]):
            outcome = topic.on("groups", *words, "--execute")
            assert outcome.code != 0
            assert "group" in outcome.err
    assert positions(topic) == {("g", "t", 0): 1}


def test_what_cannot_be_set_is_wrong_usage(topic: Cli) -> None:
    """Offsets that are not there, two places, groups and topics that are unknown."""
    topic.append("a")
    commit(topic, "g", "t", 1)
    for words, reason in (
        (["reset", "g", "--to-offset", "9"], "t-0 has offsets from 0 to 1, and not 9"),
        (["reset", "g", "--to-offset", "1", "--to", "latest"], "give one of them"),
        (["reset", "h", "--to", "latest"], "no positions of group h"),
        (["reset", "g", "u", "--to", "latest"], "u"),
        (["reset", "g", "--to", "someday"], "someday"),
        (["reset", "\udcff", "t", "--to", "latest"], "is not the name of a group"),
        (["reset", "g"], "groups reset needs --to WHERE or --to-offset OFFSET"),
        (["delete", "g", "h"], "no positions of group h"),
        (["g", "--execute"], "belong to groups reset and delete"),
        (["g", "--to", "latest"], "belong to groups reset and delete"),
        (["g", "-p", "0"], "belong to groups reset and delete"),
        (["delete", "g", "-p", "0"], "groups delete deletes all positions"),
        (["delete", "g", "--to", "latest"], "groups delete deletes all positions"),
        (["reset", "g", "-p", "1", "--to", "latest"], "no positions of group g in a partition 1"),
        (["reset", "g", "t", "-p", "1", "--to", "latest"], "t-1"),
        (["reset", "h", "t", "--to", "current"], "no positions of group h in t"),
    ):
        outcome = topic.on("groups", *words)
        assert (outcome.code, reason in outcome.err) == (2, True), (words, outcome)


def test_a_position_beyond_the_end_has_a_negative_lag(cli: Cli) -> None:
    """As Kafka's tool shows it, and what helps is named: zero would look like a healthy group."""
    fill(cli, 1)
    place(cli, {0: 9614})

    (row,) = cli.on("groups", "--json").rows
    outcome = cli.on("groups")

    assert (row["highWatermark"], row["lag"]) == (3, -9611)
    assert outcome.out.splitlines()[1].split()[3:5] == ["3", "-9,611"]
    assert outcome.err == (
        "tidelog groups: 1 position is beyond the end of its log, which was restored or has lost"
        " records: see tidelog groups reset GROUP --to current\n"
    )


def test_one_partition_is_set_alone(cli: Cli) -> None:
    """Those of the others stay."""
    fill(cli, 3)
    place(cli, {0: 2, 1: 2, 2: 2})

    rows = cli.on("groups", "reset", "g", "t", "-p", "1", "--to-offset", "1", "--json").rows
    cli.on("groups", "reset", "g", "-p", "2", "--to", "earliest", "--execute")

    assert [(row["partition"], row["newOffset"]) for row in rows] == [(1, 1)]
    assert positions(cli) == {("g", "t", 0): 2, ("g", "t", 1): 2, ("g", "t", 2): 0}


def test_only_positions_outside_their_log_are_moved_to_current(cli: Cli) -> None:
    """After a restore: to the end or the start; the others stay, with their leader epochs."""
    fill(cli, 4)
    with tidelog.open(cli.data) as logs:
        logs.delete_records("t", 1, 2)
    place(cli, {0: 1, 1: 1, 2: 9612})

    planned = cli.on("groups", "reset", "g", "t", "--to", "current", "--json").rows
    outcome = cli.on("groups", "reset", "g", "--to", "current", "--execute")

    assert outcome.code == 0
    assert [(row["offset"], row["newOffset"]) for row in planned] == [(1, 1), (1, 2), (9612, 3)]
    rows = cli.on("groups", "--json").rows
    assert [(row["offset"], row["leaderEpoch"]) for row in rows] == [(1, 0), (2, -1), (3, -1)]


def fill(cli: Cli, partitions: int) -> None:
    """Create topic t, with three records in each partition."""
    cli.on("create", "t", "-p", partitions)
    for number in range(partitions):
        words = "append", "t", "-p", number, "--format", "text"
        assert cli.on(*words, stdin="a\nb\nc\n").code == 0


def place(cli: Cli, offsets: dict[int, int]) -> None:
    """Set positions of group g in topic t, wherever they are."""
    found = {
        TopicPartition("t", number): Position(offset, 0, "", 1000, None)
        for number, offset in offsets.items()
    }
    with tidelog.open(cli.data) as logs:
        logs.create_topic(OFFSETS_TOPIC)
        home = logs.manager.partition(OFFSETS_TOPIC, 0)
        home.append_records(position_records("g", found))


def test_positions_in_deleted_topics_keep_no_group_from_being_set(topic: Cli) -> None:
    """They are named, and stay: after a restore, some topics may be missing."""
    topic.append("a", "b")
    topic.on("create", "u")
    topic.append("x", topic="u")
    commit(topic, "g", "t", 1)
    commit(topic, "g", "u", 1)
    topic.on("delete", "u")

    outcome = topic.on("groups", "reset", "g", "--to", "latest", "--execute", "--json")

    assert (outcome.code, [(row["topic"], row["newOffset"]) for row in outcome.rows]) == (
        0,
        [("t", 2)],
    )
    assert outcome.err == (
        f"tidelog groups: {topic.data} has no partition u-0: its position stays as it is\n"
    )
    topic.on("delete", "t")
    assert topic.on("groups", "reset", "g", "--to", "current").code == 2


def test_groups_that_were_deleted_before_one_that_is_read_are_printed(topic: Cli) -> None:
    """Else the error would pass for the whole result."""
    topic.append("a", "b")
    commit(topic, "g", "t", 1)
    commit(topic, "h", "t", 1)

    with tidelog.open(topic.data) as logs, logs.reader("t", group="h"):
        outcome = topic.on("groups", "delete", "g", "h", "--execute", "--json")

    assert (outcome.code, [row["group"] for row in outcome.rows]) == (3, ["g"])
    assert [row["group"] for row in topic.on("groups", "--json").rows] == ["h"]
