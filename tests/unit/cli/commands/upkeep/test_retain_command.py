"""``tidelog retain``, ``tidelog plan retention`` and ``tidelog delete-records``."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.embedded.doors import open_briefly
from tidelog.env.system_files import SystemFiles

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile, OpenMode

    Cli = Any

SMALL = ("-o", "internal.segment.bytes=80", "-o", "retention.bytes=100")
NEVER = ("-o", "retention.ms=-1")


@pytest.fixture
def rolled(cli: Cli) -> Cli:
    """A topic of four segments with a record each; size retention keeps about one."""
    return cli.made(make_rolled)


def make_rolled(cli: Cli) -> None:
    assert cli.on("create", "t", *SMALL, *NEVER).code == 0
    for value in ("a", "b", "c", "d"):
        cli.append(value)


def segments(cli: Cli) -> list[int]:
    """Return the base offsets of the segments on disk."""
    return sorted(int(path.stem) for path in (cli.data / "t-0").glob("*.log"))


def test_a_plan_names_the_segments_and_the_reason_and_keeps_them(rolled: Cli) -> None:
    """The segments that retention would delete are printed; none is deleted."""
    outcome = rolled.on("plan", "retention", "--json")

    assert outcome.code == 0
    deleted = outcome.rows[0]["deleted"]
    assert [segment["baseOffset"] for segment in deleted] == [0, 1]
    assert {segment["reason"] for segment in deleted} == {"log retention size 100 breach"}
    assert segments(rolled) == [0, 1, 2, 3]


def test_retention_does_what_its_plan_printed_and_frees_the_disk(rolled: Cli) -> None:
    """The same segments are deleted, and their files by the end of the command."""
    plan = rolled.on("plan", "retention", "--json").rows
    done = rolled.on("retain", "--json").rows

    assert plan == done
    assert segments(rolled) == [2, 3]
    assert list((rolled.data / "t-0").glob("*.deleted")) == []
    assert rolled.values() == ["c", "d"]


def test_the_time_can_be_given(rolled: Cli) -> None:
    """Age counts to ``--now``; a setting of ``-o`` overrides the topic's."""
    later = ("--now", 10**15, "-o", "retention.ms=1000", "--json")

    rows = rolled.on("plan", "retention", *later).rows

    assert len(rows[0]["deleted"]) == 4


def test_settings_that_are_not_known_delete_nothing(rolled: Cli) -> None:
    """A log that Kafka wrote has settings that are in no file: they must be given."""
    (rolled.data / "tidelog.topics.json").unlink()

    refused = rolled.on("retain")
    given = rolled.on("retain", "-o", "retention.bytes=-1", "-o", "retention.ms=-1")

    assert (refused.code, given.code) == (2, 0)
    assert "retention.ms" in refused.err
    assert segments(rolled) == [0, 1, 2, 3]


def test_deleted_records_free_the_segments_below(rolled: Cli) -> None:
    """The log starts at the offset; segments wholly below it are deleted; readers see the rest."""
    outcome = rolled.on("delete-records", "t", "-p", "all", "--before", 2, "--json")

    assert outcome.code == 0
    assert outcome.rows[0]["logStartOffset"] == 2
    assert segments(rolled) == [2, 3]
    assert rolled.values() == ["c", "d"]


def test_records_that_are_deleted_and_still_on_the_disk_are_named(cli: Cli) -> None:
    """They are in the file of the segment in which the log starts, until all of it is below."""
    assert cli.on("create", "t", "-o", "retention.ms=-1").code == 0
    cli.append("a", "b", "c")
    words = ("delete-records", "t", "-p", 0, "--before")

    text = cli.on(*words, 1).out
    plan = cli.on(*words, 2, "--json", "--dry-run").rows
    done = cli.on(*words, 2, "--json").rows

    assert plan == done
    start = done[0]["startSegment"]
    assert (start["baseOffset"], start["endOffset"]) == (0, 3)
    assert "stay in the file of the segment [0, 3):\n  it is deleted as a whole" in text
    assert b"a" in cli.log_file().read_bytes()


def test_the_total_counts_the_offsets_that_readers_no_longer_see(rolled: Cli) -> None:
    """Also where no file is freed, and not again those of an earlier deletion."""
    rolled.on("create", "one", *NEVER)
    rolled.append("a", "b", "c", topic="one")
    words = ("delete-records", "one", "-p", "all", "--before")

    planned = rolled.on(*words, 2, "--dry-run").out.splitlines()[-1]
    done = rolled.on(*words, 2).out.splitlines()[-1]
    again = rolled.on(*words, 3, "--json")
    freed = rolled.on("delete-records", "t", "-p", "all", "--before", 2).out.splitlines()[-1]

    amounts = "at most 2 records of 1 partition: on the disk"
    assert planned == f"total: would delete {amounts} 0 segments, 0 bytes"
    assert done == f"total: deleted {amounts} 0 segments, 0 bytes"
    assert freed == f"total: deleted {amounts} 2 segments, 138 bytes"
    assert (again.rows[0]["logStartOffsetBefore"], again.rows[0]["logStartOffset"]) == (2, 3)
    assert (again.counts["hiddenOffsets"], again.counts["deletedOffsets"]) == (1, 0)


def test_the_active_segment_stays_though_all_its_records_are_deleted(rolled: Cli) -> None:
    """As in Kafka; closed ones are deleted, and then there is nothing to name."""
    words = ("delete-records", "t", "-p", 0, "--before")

    none_left = rolled.on(*words, 3, "--json").rows[0]["startSegment"]
    text = rolled.on(*words, 4).out

    assert none_left is None
    assert "once the log starts at 4 and the segment is closed (tidelog roll)" in text
    assert segments(rolled) == [3]


def test_all_records_are_deleted_by_a_word(rolled: Cli) -> None:
    """The high watermark; -1, which Kafka takes for it, is refused with the word."""
    refused = rolled.on("delete-records", "t", "-p", 0, "--before", "-1")
    assert (refused.code, "highWatermark" in refused.err) == (2, True)
    assert rolled.values() == ["a", "b", "c", "d"]
    assert rolled.on("delete-records", "t", "-p", 0, "--before", "latest").code == 0
    assert rolled.values() == []


def test_the_partition_whose_records_are_deleted_is_said(rolled: Cli) -> None:
    """By its number, or all."""
    refused = rolled.on("delete-records", "t", "--before", 4)

    assert (refused.code, "--partition" in refused.err) == (2, True)
    assert rolled.values() == ["a", "b", "c", "d"]
    assert rolled.on("delete-records", "t", "-p", "all", "--before", 4).code == 0
    assert rolled.values("-p", "all") == []


@pytest.mark.parametrize("before", [5, -2])
def test_an_offset_outside_the_log_is_refused(rolled: Cli, before: int) -> None:
    """There is nothing to delete above the high watermark: the usage is wrong."""
    assert rolled.on("delete-records", "t", "-p", "all", "--before", before).code == 2
    assert rolled.values() == ["a", "b", "c", "d"]


def test_a_compacted_topic_keeps_its_records(cli: Cli) -> None:
    """Deleting records of a topic that is only compacted is refused."""
    assert cli.on("create", "t", "-o", "cleanup.policy=compact").code == 0

    outcome = cli.on("delete-records", "t", "-p", "all", "--before", 0)

    assert (outcome.code, "compacted" in outcome.err) == (2, True)


def test_deleting_records_can_be_planned(rolled: Cli) -> None:
    """``--dry-run`` prints the same, and deletes nothing."""
    plan = rolled.on("delete-records", "t", "-p", "all", "--before", 2, "--json", "--dry-run")
    kept = segments(rolled)
    done = rolled.on("delete-records", "t", "-p", "all", "--before", 2, "--json")

    assert plan == done
    assert (kept, segments(rolled)) == ([0, 1, 2, 3], [2, 3])


def test_a_deletion_is_planned_beside_a_writer(rolled: Cli) -> None:
    """As one without a writer: nothing is opened for writing, or changed."""
    words = ("delete-records", "t", "-p", "all", "--before", 3, "--json", "--dry-run")
    before = rolled.on(*words)
    with open_briefly(rolled.data) as logs:
        logs.partition("t", 0)

        beside = rolled.on(*words)
        too_far = rolled.on("delete-records", "t", "-p", "all", "--before", 5, "--dry-run")

    assert (beside.code, beside.rows) == (0, before.rows)
    assert [segment["baseOffset"] for segment in beside.rows[0]["deleted"]] == [0, 1, 2]
    assert (too_far.code, too_far.out) == (2, "")
    assert "t-0: offset 5 is out of range: the log holds [0, 4]; nothing was" in too_far.err
    assert segments(rolled) == [0, 1, 2, 3]


def test_a_deletion_is_planned_while_the_writer_deletes_segments(
    rolled: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is gone when it is read is looked for again; no directory is offline for it."""
    is_deleted = False
    really_open = SystemFiles.open

    with open_briefly(rolled.data) as logs:
        logs.partition("t", 0)

        def open_after_a_deletion(self: SystemFiles, path: str, mode: OpenMode = "r") -> OpenFile:
            nonlocal is_deleted
            if path.endswith(f"{0:020}.log") and not is_deleted:
                is_deleted = True
                logs.delete_records("t", 0, 2)
            return really_open(self, path, mode)

        monkeypatch.setattr(SystemFiles, "open", open_after_a_deletion)
        plan = rolled.on("delete-records", "t", "-p", "all", "--before", 3, "--json", "--dry-run")

    assert (plan.code, plan.err, is_deleted) == (0, "", True)
    assert [segment["baseOffset"] for segment in plan.rows[0]["deleted"]] == [2]


def test_records_are_deleted_in_all_partitions_or_in_none(cli: Cli) -> None:
    """The error names the partition that refuses."""
    cli.on("create", "t", "-p", 2)
    cli.on("append", "t", "-p", 0, stdin="a\nb\n")
    cli.on("append", "t", "-p", 1, stdin="c\n")

    outcome = cli.on("delete-records", "t", "-p", "all", "--before", 2)

    assert outcome[:2] == (2, "")
    assert "delete-records: t-1: offset 2 is out of range: the log holds [0, 1]" in outcome.err
    assert cli.values() == ["a", "b", "c"]


def test_what_acts_on_a_directory_is_planned_for_it(cli: Cli) -> None:
    """Though a topic lies in part in another one: only a topic that is named is to be whole."""
    assert cli.on("create", "t", "-p", 2, "-o", "cleanup.policy=compact,delete").code == 0
    assert cli.on("move", "t", "-p", 1, "--to", cli.data.with_name("second")).code == 0

    for plan, act in ((("plan", "retention"), "retain"), (("plan", "compaction"), "compact")):
        planned, done = cli.on(*plan, "--json"), cli.on(act, "--json")
        assert (planned.code, len(planned.rows)) == (done.code, len(done.rows)) == (0, 1)
        assert (cli.on(*plan, "t").code, cli.on(act, "t").code) == (2, 2)


def test_a_plan_is_a_table_with_dates(rolled: Cli) -> None:
    """Offsets and sizes are in columns; segments that are kept show until when."""
    lines = rolled.on("plan", "retention", "-o", "retention.ms=3600000").out.splitlines()

    assert lines[0].startswith("t-0: would delete 2 segments, 138 bytes; left [2, 4), 138 bytes")
    assert lines[1] == "  [0, 1)  69 bytes  log retention size 100 breach"
    assert lines[3].startswith("  [2, 3)  69 bytes  kept until 20")
    assert " UTC or until the log is " in lines[3]
    assert " UTC (later with each append) or until 100 bytes follow it" in lines[4]


def test_a_plan_says_where_no_limit_is_set(rolled: Cli) -> None:
    """Else it would not be known why records of any age are still there."""
    words = "-o", "retention.ms=-1", "-o", "retention.bytes=-1"
    lines = rolled.on("plan", "retention", *words).out.splitlines()

    why = "kept, limited by neither retention.ms nor retention.bytes"
    assert [line.partition("bytes  ")[2] for line in lines[1:5]] == [why] * 4


def test_a_plan_is_made_beside_a_writer(rolled: Cli) -> None:
    """It takes no lock, loads nothing, and names what it names without one."""
    before = rolled.on("plan", "retention", "--json")
    with open_briefly(rolled.data) as logs:
        logs.partition("t", 0)

        beside = rolled.on("plan", "retention", "--json")

    assert (beside.code, beside.rows) == (0, before.rows)


def test_a_log_that_does_not_open_keeps_no_other_from_retention(rolled: Cli) -> None:
    """What was deleted is printed; the error comes at the end."""
    for topic in ("s", "u"):
        rolled.on("create", topic, *SMALL, *NEVER)
        for value in ("a", "b", "c", "d"):
            rolled.append(value, topic=topic)
    (rolled.data / "t-0" / "leader-epoch-checkpoint").write_text("garbage\n", "ascii")

    outcome = rolled.on("retain", "--json")

    deleted = {row["topic"]: len(row["deleted"]) for row in outcome.rows}
    assert (outcome.code, deleted) == (1, {"s": 2, "u": 2})
    assert "t-0/leader-epoch-checkpoint" in outcome.err
    assert segments(rolled) == [0, 1, 2, 3]


COMMANDS = [
    ("plan", "retention"),
    ("retain",),
    ("compact", "-o", "cleanup.policy=compact"),
    ("delete-records", "t", "-p", "all", "--before", 0),
    ("delete-records", "t", "-p", "all", "--before", 0, "--dry-run"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_partition_is_named_with_code_1(cli: Cli, command: tuple[object, ...]) -> None:
    """All these commands do so in the same words; they deal with the other partitions."""
    cli.on("create", "t", "-p", 2)
    shutil.rmtree(cli.data / "t-1")

    outcome = cli.on(*command, "--json")

    gone = "t-1 is listed in tidelog.topics.json, but its directory is missing"
    assert (outcome.code, f"tidelog {command[0]}: {gone}" in outcome.err) == (1, True)
    assert [row["partition"] for row in outcome.rows] == [0]
    assert outcome.counts["missing"] == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_where_all_partitions_are_missing_nothing_is_done(
    cli: Cli, command: tuple[object, ...]
) -> None:
    """They are named; the directory is not opened, which would make them again."""
    cli.on("create", "t")
    shutil.rmtree(cli.data / "t-0")

    outcome = cli.on(*command, "--json")

    assert (outcome.code, outcome.rows, outcome.counts["missing"]) == (1, [], 1)
    assert "t-0 is listed in tidelog.topics.json, but its directory is missing" in outcome.err
    assert not (cli.data / "t-0").exists()


DAY_MS = 86_400_000


@pytest.mark.parametrize("days", [9, 5])
def test_what_outlives_its_retention_is_named_with_its_segment(cli: Cli, days: int) -> None:
    """Keep 3 days keeps 9, as segments roll after 7: which is waited for, and until when.

    A closed segment is due once its newest record has expired; the active one is closed first.
    """
    cli.on("create", "t", "-o", f"retention.ms={3 * DAY_MS}")
    for day in range(days + 1):
        line = f'{{"value": "v", "timestamp": {day * DAY_MS}}}\n'
        assert cli.on("append", "t", "--format", "json", stdin=line).code == 0
    now = ("--now", days * DAY_MS + 60_000)

    [row] = cli.on("plan", "retention", *now, "--json").rows
    text = cli.on("plan", "retention", *now).out

    is_closed = days == 9
    assert row["deleted"] == []
    assert row["late"] == {
        "baseOffset": 0,
        "endOffset": 8 if is_closed else 6,
        "oldestMs": 0,
        "dueMs": (10 if is_closed else 8) * DAY_MS + 1,
        "closingMs": None if is_closed else 7 * DAY_MS,
    }
    due = "1970-01-11" if is_closed else "1970-01-09"
    assert "  waits for [0, " in text
    assert "its oldest records, of 1970-01-01 00:00:00 UTC, are past retention.ms" in text
    assert f"once its newest record is, too: after {due}" in text
    assert ("until one after 1970-01-08 00:00:00 UTC (segment.ms)" in text) is not is_closed


def test_a_log_without_expired_records_waits_for_none(cli: Cli) -> None:
    """Neither in the plan nor in what retention has done."""
    cli.on("create", "t", "-o", f"retention.ms={3 * DAY_MS}")
    cli.append("a")

    for command in (("plan", "retention"), ("retain",)):
        assert cli.on(*command, "--json").rows[0]["late"] is None
        assert "waits for" not in cli.on(*command).out


@pytest.mark.parametrize("operation", [("plan", "retention"), ("retain",)])
def test_the_last_line_has_the_sums_of_all_logs(rolled: Cli, operation: tuple[str, ...]) -> None:
    """In text, and in JSON with the counts; those of a retention are those of its plan."""
    assert rolled.on("create", "u", *SMALL, *NEVER).code == 0
    for value in ("a", "b", "c"):
        rolled.append(value, topic="u")
    plan = rolled.on("plan", "retention", "--json")
    text = rolled.on("plan", "retention").out

    done = rolled.on(*operation, "--json")

    segments = [one for row in done.rows for one in row["deleted"]]
    freed = sum(row["freedBytes"] for row in done.rows)
    sums = {"deletedSegments": 3, "deletedOffsets": 3, "freedBytes": freed}
    assert len(segments) == 3
    assert done.counts == plan.counts == {"partitions": 2, **sums, "missing": 0}
    last = f"total: would delete 3 segments of 2 partitions, {freed} bytes, at most 3 records"
    assert text.splitlines()[-1] == last


def test_without_partitions_there_is_no_sum(topic: Cli) -> None:
    """As text nothing is printed where nothing is there."""
    assert topic.on("delete", "t").code == 0

    outcome = topic.on("plan", "retention")

    assert outcome[:2] == (0, "")
