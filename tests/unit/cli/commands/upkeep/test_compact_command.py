"""``tidelog compact``, ``tidelog plan compaction`` and ``tidelog cleaner status``."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.cleaner.failed_cleanings_file import FILE_NAME
from tidelog.cleaner.rewriting.filter_result import ExplainedDrop
from tidelog.cleaner.stats import DropCause
from tidelog.cli.commands.upkeep.dropped_lines import DroppedLines
from tidelog.embedded.doors import open_briefly
from tidelog.manager.metrics.metrics_file import MetricsFiles
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tests.conftest import Validated

    Cli = Any

SETTINGS = ("-o", "cleanup.policy=compact", "-o", "internal.segment.bytes=90")


@pytest.fixture
def dirty(cli: Cli) -> Cli:
    """A compacted topic of one record a segment: a, b, a, a tombstone for b, and an active one."""
    return cli.made(make_dirty)


def make_dirty(cli: Cli) -> None:
    assert cli.on("create", "t", *SETTINGS, "-o", "delete.retention.ms=1000").code == 0
    for key, value in (("a", "1"), ("b", "1"), ("a", "2"), ("b", None), ("c", "1")):
        line = json.dumps({"key": key, "value": value, "timestamp": 1_700_000_000_000})
        assert cli.on("append", "t", "--format", "json", stdin=line + "\n").code == 0


def test_a_range_that_compaction_has_emptied_is_explained(dirty: Cli) -> None:
    """With the bounds of the gap, and only if nothing is left in the range."""
    assert dirty.on("compact", "t").code == 0
    gap = "t-0: offsets 0 to 1 hold no record: compaction"

    counted = dirty.on("offsets", "t", "--count", "--from", 1, "--to", 2, "-p", 0)
    shown = dirty.on("cat", "t", "--from", 0, "--to", 1)
    more = dirty.on("cat", "t", "--from", 1, "--to", 3)
    chosen = dirty.on("cat", "t", "--from", 1, "--to", 2, "--key", "b")

    assert (counted.rows[0]["count"]["gaps"], counted.err) == (1, f"tidelog offsets: {gap}\n")
    assert (shown.code, shown.out, shown.err) == (0, "", f"tidelog cat: {gap}\n")
    assert (len(more.rows), more.err, chosen.err) == (1, "", "")


def test_a_gap_that_is_long_is_named_as_far_as_it_was_looked_at(cli: Cli) -> None:
    """A thousand offsets on either side."""
    assert cli.on("create", "t", "-o", "cleanup.policy=compact").code == 0
    lines = '{"key": "a", "value": "x"}\n' * 5_000
    assert cli.on("append", "t", "--format", "json", stdin=lines).code == 0
    cli.on("alter", "t", "-o", "segment.ms=1")
    assert cli.on("append", "t", "--format", "json", stdin='{"key": "b"}\n').code == 0
    assert cli.on("compact", "t").code == 0

    shown = cli.on("cat", "t", "--from", 2_000, "--to", 2_001)

    text = "t-0: at least offsets 1,000 to 3,000 hold no record: compaction"
    assert shown.err == f"tidelog cat: {text}\n"


@pytest.mark.parametrize("more", [(), ("--records",), ("--key", "k")], ids=" ".join)
def test_a_plan_goes_on_past_a_damaged_partition(cli: Cli, more: tuple[str, ...]) -> None:
    """It plans the others, names the damage, and ends with 1."""
    assert cli.on("create", "t", "-p", 3, *SETTINGS).code == 0
    for _ in range(3):
        lines = "".join(f'{{"partition": {n}, "key": "k"}}\n' for n in range(3))
        assert cli.on("append", "t", "--format", "json", stdin=lines).code == 0
    path = cli.log_file("t-1")
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")

    outcome = cli.on("plan", "compaction", "--json", *more)

    sound = [cli.on("plan", "compaction", "--json", *more, "-p", n).rows for n in (0, 2)]
    assert (outcome.code, outcome.rows) == (1, [*sound[0], *sound[1]])
    assert outcome.err.startswith("tidelog plan: t-1: the CRC of a batch is wrong at byte 0 of ")
    assert outcome.err.count("\n") == 1


def test_a_plan_prints_what_would_be_dropped_and_keeps_it(dirty: Cli) -> None:
    """It has the ratios, what limits cleaning, and the records by cause; nothing is written."""
    before = sorted(path.name for path in (dirty.data / "t-0").iterdir())

    outcome = dirty.on("plan", "compaction", "--json")

    row = outcome.rows[0]
    assert outcome.code == 0
    assert row["dropped"] == {"superseded": 2}
    assert (row["dirtyRatio"], row["heldBy"]) == (1.0, "the active segment")
    assert 0 < row["trueDirtyRatio"] < 1
    assert row["oldestTombstone"] == 1_700_000_000_000
    assert (row["recordsRead"], row["recordsKept"]) == (4, 2)
    assert before == sorted(path.name for path in (dirty.data / "t-0").iterdir())
    assert not (dirty.data / FILE_NAME).exists()


def test_compaction_does_what_its_plan_printed(dirty: Cli) -> None:
    """The same records are dropped, the checkpoint is written, replaced files are deleted."""
    plan = dirty.on("plan", "compaction", "--now", 10**13, "--json").rows[0]

    done = dirty.on("compact", "--now", 10**13, "--json").rows[0]

    assert {**plan, "oldestTombstone": None} == done
    assert dirty.values() == ["2", None, "1"]
    assert (dirty.data / "cleaner-offset-checkpoint").read_text("ascii") == "0\n1\nt 0 4\n"
    assert list((dirty.data / "t-0").glob("*.deleted")) == []


def test_a_tombstone_is_dropped_when_its_time_has_passed(dirty: Cli) -> None:
    """By the time that ``--now`` gives: it sets the delete horizon, and later passes it."""
    dirty.on("compact", "--now", 10**13)
    line = json.dumps({"key": "a", "value": "3"})
    dirty.on("append", "t", "--format", "json", stdin=line + "\n")
    dirty.on("append", "t", "--format", "json", stdin=line + "\n")

    outcome = dirty.on("compact", "--now", 10**13 + 1000, "--json")

    assert outcome.rows[0]["dropped"] == {"superseded": 1, "tombstone expired": 1}


def test_a_topic_that_is_not_compacted_is_left_alone(cli: Cli) -> None:
    """Without compact in its policy nothing is done; the output explains why."""
    cli.on("create", "t")
    cli.append("a")

    outcome = cli.on("compact")

    assert outcome.code == 0
    assert "t: not compacted: its cleanup.policy is delete; -o cleanup.policy=" in outcome.out
    assert cli.on("plan", "compaction", "--json").rows[0]["cleanupPolicy"] == "delete"


def test_a_topic_of_an_unknown_policy_is_left_alone(cli: Cli) -> None:
    """As of a broker's directory whose settings nothing names."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t")
        logs.append("t", b"v")
    (cli.data / "tidelog.topics.json").unlink()

    outcome = cli.on("plan", "compaction")

    assert "t: not compacted: its cleanup.policy is unknown; -o cleanup.policy=" in outcome.out


@pytest.mark.parametrize("command", [("compact",), ("plan", "compaction")])
def test_a_log_of_one_segment_has_nothing_to_clean(cli: Cli, command: tuple[str, ...]) -> None:
    """The active segment is never cleaned; its size is shown, and what begins the next one."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t", config={"cleanup.policy": "compact"})
        for value in (b"1", b"2"):
            logs.append("t", value, key=b"a")
    size = (cli.data / "t-0" / f"{0:020d}.log").stat().st_size

    (line, _) = cli.on(*command).out.splitlines()

    assert line == (
        f"t-0: nothing to clean from offset 0 on, limited by the active segment ({size} bytes),"
        " which is never cleaned: an append begins the next one once segment.bytes or segment.ms"
        " is reached, and tidelog roll at once"
    )


def test_status_shows_ratio_limit_and_failures(dirty: Cli) -> None:
    """A log whose cleaning failed in a service is shown with its error; exit code 1."""
    well = dirty.on("cleaner", "status")
    failure = {"topic": "t", "partition": 0, "error": "CorruptMessage: bad", "times": 3}
    failure |= {"first_ms": 1, "last_ms": 2, "retry_ms": 3}
    (dirty.data / FILE_NAME).write_text(json.dumps([failure]), "utf-8")

    failed = dirty.on("cleaner", "status")

    assert well.code == 0
    assert "t-0: clean up to 0, 100% dirty" in well.out
    assert failed.code == 1
    assert "failed 3 times, last with CorruptMessage: bad" in failed.out


def test_a_cleaning_by_hand_ends_a_failure(dirty: Cli) -> None:
    """A log that a service could not clean and a command could is no longer listed as failed."""
    times = {"error": "CorruptMessage: bad", "times": 3, "first_ms": 1, "last_ms": 2, "retry_ms": 3}
    failures = [{"topic": topic, "partition": 0, **times} for topic in ("t", "u")]
    (dirty.data / FILE_NAME).write_text(json.dumps(failures), "utf-8")

    dirty.on("compact")

    assert dirty.on("cleaner", "status").code == 0
    left = json.loads((dirty.data / FILE_NAME).read_text("utf-8"))
    assert [row["topic"] for row in left["failures"]] == ["u"]


def test_status_is_known_beside_a_writer(dirty: Cli) -> None:
    """It takes no lock, and the logs are only read."""
    before = dirty.on("cleaner", "status", "--json").rows
    with open_briefly(dirty.data) as logs:
        logs.partition("t", 0)

        beside = dirty.on("cleaner", "status", "--json")

    assert (beside.code, beside.rows) == (0, before)


def test_status_shows_the_cleaner_of_a_running_service(dirty: Cli, validated: Validated) -> None:
    """Its last cleaning, how full its map was, and threads that have ended; null without one."""
    alone = dirty.on("cleaner", "status", "--json")
    with tidelog.open(dirty.data, min_cleanable_dirty_ratio=1.0) as logs:
        files = MetricsFiles(logs.manager)
        files.start()
        beside = dirty.on("cleaner", "status", "--json")
        text = dirty.on("cleaner", "status").out
        files.stop()

    assert alone.lines[-1]["service"] is None
    assert beside.lines[-1]["service"]["deadThreads"] == 0
    assert text.splitlines()[-1].startswith("running service: cleaned last ")
    assert text.splitlines()[-1].endswith("; 0 threads ended with an error")
    validated("cleaner status", [*alone.lines, *beside.lines])


def test_status_is_what_a_compaction_begins_with(dirty: Cli) -> None:
    """Read-only logs are examined by the rules of the cleaner."""
    words = ("-o", "min.compaction.lag.ms=5", "--json")
    [status] = dirty.on("cleaner", "status", *words).rows

    [done] = dirty.on("compact", *words).rows

    of_cleanings = {name for name, value in status.items() if value in (None, {})} - {"failure"}
    assert {"recordsRead", "dropped", "endOffset"} <= of_cleanings
    assert status == dict.fromkeys(of_cleanings) | {"dropped": {}} | {
        name: done[name] for name in status.keys() - of_cleanings
    }


def test_a_plan_names_transaction_indexes_that_opening_rebuilds(cli: Cli) -> None:
    """After a power cut one may lack entries, whose records a cleaning drops; the plan names it."""
    assert cli.on("create", "t", *SETTINGS).code == 0
    with tidelog.open(cli.data, transaction_partition_verification_enable=False) as logs:
        row = (1_700_000_000_000, b"k", b"v", ())
        producer: dict[str, Any] = {"producer_id": 9, "producer_epoch": 3}
        batch = build_batch([row], transactional=True, base_sequence=0, **producer)
        ended: dict[str, Any] = {"is_commit": False, "timestamp": row[0], "coordinator_epoch": 1}
        logs.partition("t", 0).append(batch)
        marker = build_marker(**producer, **ended)
        origin = AppendOrigin.COORDINATOR
        logs.partition("t", 0).append(marker, origin, transaction_version=1)
    index = next(path for path in (cli.data / "t-0").glob("*.txnindex") if path.stat().st_size)

    sound = cli.on("plan", "compaction")
    (cli.data / ".kafka_cleanshutdown").unlink()
    (cli.data / "recovery-point-offset-checkpoint").unlink()
    still_sound = cli.on("plan", "compaction")
    index.write_bytes(b"")
    lacking = cli.on("plan", "compaction")

    assert "missing in" not in sound.err + still_sound.err
    assert f"t-0: aborted transactions of the log are missing in {index.name}" in lacking.err


def test_a_plan_ends_with_1_where_a_partition_is_missing(dirty: Cli) -> None:
    """What it held is lost, whatever a cleaning would do to the others."""
    assert dirty.on("create", "u").code == 0
    for path in (dirty.data / "u-0").iterdir():
        path.unlink()
    (dirty.data / "u-0").rmdir()

    outcome = dirty.on("plan", "compaction")

    assert outcome.code == 1
    assert "u-0 is listed in tidelog.topics.json, but its directory is missing" in outcome.err


def test_the_last_line_has_the_sums_of_all_logs(dirty: Cli) -> None:
    """In text, and in JSON with the counts; those of a cleaning are those of its plan."""
    assert dirty.on("create", "u", *SETTINGS).code == 0
    assert dirty.on("create", "plain").code == 0
    for value in ("1", "2", "3"):
        line = json.dumps({"key": "a", "value": value})
        assert dirty.on("append", "u", "--format", "json", stdin=line + "\n").code == 0

    plan = dirty.on("plan", "compaction", "--json")
    text = dirty.on("plan", "compaction").out
    done = dirty.on("compact", "--json")

    read = sum(row["bytesRead"] or 0 for row in plan.rows)
    freed = read - sum(row["bytesKept"] or 0 for row in plan.rows)
    assert plan.counts == done.counts
    assert done.counts == {
        "partitions": 3,
        "recordsRead": 6,
        "droppedRecords": 3,
        "bytesRead": read,
        "freedBytes": freed,
        "missing": 0,
    }
    last = f"total: would drop 3 of 6 records, {freed} bytes of {read} bytes, of 3 partitions"
    assert text.splitlines()[-1] == last


@pytest.mark.parametrize("operation", ["retention", "recovery"])
def test_records_are_named_by_the_plan_of_a_compaction_only(dirty: Cli, operation: str) -> None:
    """No other plan drops records one by one."""
    outcome = dirty.on("plan", operation, "--records")

    assert outcome.code == 2
    assert "--records is for plan compaction" in outcome.err


def test_a_plan_names_each_record_and_what_supersedes_it(dirty: Cli, validated: Validated) -> None:
    """After the line of their partition, by offset; the total is the last line."""
    assert dirty.on("create", "plain").code == 0

    text = dirty.on("plan", "compaction", "--records").out.splitlines()
    outcome = dirty.on("plan", "compaction", "--records", "--json")

    freed, read = outcome.counts["freedBytes"], outcome.counts["bytesRead"]
    assert text[2:] == [
        "  offset 0: superseded by offset 2, key a",
        "  offset 1: superseded by offset 3, key b",
        f"total: would drop 2 of 4 records, {freed} bytes of {read} bytes, of 2 partitions",
    ]
    place = {"topic": "t", "partition": 0, "cause": "superseded"}
    assert outcome.rows[2:] == [
        {**place, "offset": 0, "supersededBy": 2, "key": "a"},
        {**place, "offset": 1, "supersededBy": 3, "key": "b"},
    ]
    validated("plan compaction", outcome.lines)


def test_a_plan_says_of_each_record_of_a_key_what_becomes_of_it(
    dirty: Cli, validated: Validated
) -> None:
    """Dropped, the last one, a tombstone, or not cleaned yet; by text and as JSON."""
    for key, value in (("a", "3"), ("d", "1")):
        line = json.dumps({"key": key, "value": value, "timestamp": 1_700_000_000_000})
        dirty.on("append", "t", "--format", "json", stdin=line + "\n")

    text = dirty.on("plan", "compaction", "--key", "a").out.splitlines()
    tombstone = dirty.on("plan", "compaction", "--key", "b").out.splitlines()[1:-1]
    newest = dirty.on("plan", "compaction", "--key", "ZA==", "--encoding", "base64").out
    outcome = dirty.on("plan", "compaction", "--key", "a", "--json")

    assert text[1:-1] == [
        "  offset 0: superseded by offset 5, key a",
        "  offset 2: superseded by offset 5, key a",
        "  offset 5: stays: the last record below 6 that has the key",
    ]
    assert tombstone == [
        "  offset 1: superseded by offset 3, key b",
        "  offset 3: stays: a tombstone, kept for delete.retention.ms after it is first cleaned",
    ]
    limit = "not cleaned yet: the cleaning ends at 6, limited by the active segment"
    assert newest.splitlines()[1:-1] == [f"  offset 6: stays: {limit}"]
    assert [row.get("staysAs") for row in outcome.rows[1:]] == [None, None, "last of its key"]
    validated("plan compaction", outcome.lines)


def test_a_plan_says_until_when_a_tombstone_stays(dirty: Cli) -> None:
    """Once it was cleaned, its batch has a time, after which it is dropped."""
    dirty.on("compact", "--now", 1_800_000_000_000)

    text = dirty.on("plan", "compaction", "--key", "b").out.splitlines()
    row = dirty.on("plan", "compaction", "--key", "b", "--json").rows[1]

    when = "2027-01-15 08:00:01 UTC"
    assert text[1:-1] == [f"  offset 3: stays: a tombstone, which a cleaning after {when} drops"]
    assert (row["staysAs"], row["until"]) == ("tombstone", 1_800_000_001_000)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("retention", "--key", "a"), "--key is for plan compaction"),
        (("compaction", "--key", "a", "--records"), "--key those of one"),
        (("compaction", "--encoding", "hex"), "--encoding says how the KEY"),
        (("compaction", "--key", "zz", "--encoding", "hex"), "not valid hex"),
    ],
)
def test_a_plan_refuses_options_that_say_nothing(
    dirty: Cli, words: tuple[str, ...], reason: str
) -> None:
    """They would be ignored."""
    outcome = dirty.on("plan", *words)

    assert outcome.code == 2
    assert reason in outcome.err


def test_an_expired_tombstone_is_superseded_by_nothing(dirty: Cli) -> None:
    """Its cause is the time that has passed since it was first cleaned."""
    dirty.on("compact", "--now", 10**13)
    for _ in range(2):
        line = json.dumps({"key": "wyk=", "value": "", "keyEncoding": "base64"})
        dirty.on("append", "t", "--format", "json", stdin=line + "\n")
    now = ("--now", 10**13 + 1000)

    rows = dirty.on("plan", "compaction", "--records", "--json", *now).rows[1:]
    cleaned = dirty.on("compact", "--json", *now).rows[0]

    assert [(row["offset"], row["cause"], row["supersededBy"]) for row in rows] == [
        (3, "tombstone expired", None)
    ]
    assert cleaned["dropped"] == {"tombstone expired": 1}


def test_a_key_that_is_not_text_is_shown_in_base64(cli: Cli) -> None:
    """As wherever keys are shown; and no sign of a key reaches the terminal unescaped."""
    assert cli.on("create", "t", *SETTINGS).code == 0
    for key in ({"key": "wyk=", "keyEncoding": "base64"}, {"key": "\x1b[2J"}) * 2:
        line = json.dumps({**key, "value": "v"})
        assert cli.on("append", "t", "--format", "json", stdin=line + "\n").code == 0

    text = cli.on("plan", "compaction", "--records").out.splitlines()[1:-1]
    rows = cli.on("plan", "compaction", "--records", "--json").rows[1:]

    assert text == ["  offset 0: superseded by offset 2, key in base64 wyk="]
    assert [(row["key"], row["keyEncoding"]) for row in rows] == [("wyk=", "base64")]


def test_a_log_that_is_read_again_has_its_lines_once() -> None:
    """What was found before is forgotten; that also holds for what is no longer in memory."""
    key = TopicPartition("t", 0)
    drops = [ExplainedDrop(at, DropCause.KEYLESS) for at in range(60_000)]
    first: Any = SimpleNamespace(explained=lambda: drops)
    second: Any = SimpleNamespace(explained=lambda: drops[7:8])
    with DroppedLines(Namespace(json=False)) as lines:
        lines.begin(key)(first)
        lines.begin(key)(second)
        printed = io.StringIO()
        with redirect_stdout(printed):
            lines.print()

    assert printed.getvalue() == "  offset 7: no key\n"
