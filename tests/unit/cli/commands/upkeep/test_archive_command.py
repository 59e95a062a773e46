"""``tidelog archive``, and the commands that read what it has copied."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.archives import give_up_locally

import tidelog
import tidelog.arrow
from tidelog.errors import InvalidArgument
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any

SETTINGS = {"internal.segment.bytes": "400", "retention.ms": "-1"}


@pytest.fixture
def lake(cli: Cli, tmp_path: Path) -> str:
    """Return where an archive is of topic t, whose records 0 to 39 lie in two partitions."""
    cli.made(make_40)
    uri = (tmp_path / "lake").as_uri()
    assert cli.on("archive", "t", "--to", uri).code == 0
    return uri


def make_40(cli: Cli) -> None:
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        logs.create_topic("t", 2, config=SETTINGS)
        logs.create_topic("c", config={"cleanup.policy": "compact"})
    add(cli, range(40))


def add(cli: Cli, numbers: range) -> None:
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        for number in numbers:
            value = f"value {number}".encode()
            logs.append("t", value, key=b"k", timestamp=1000 + number, partition=number % 2)


def end_of(cli: Cli, uri: str, partition: int = 0) -> int:
    rows = cli("offsets", "t", "-p", partition, "-d", uri).rows
    end: int = rows[0]["logEndOffset"]
    return end


def test_without_obstore_the_extra_is_named(
    cli: Cli, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command that needs a store ends as others do whose extra is not installed."""
    monkeypatch.setitem(sys.modules, "obstore", None)

    outcomes = [cli.on("archive", "t", "--to", lake), cli("offsets", "t", "-d", lake)]

    text = "obstore is not installed: install tidelog with its extra, tidelog[store]"
    assert [(one.code, text in one.err) for one in outcomes] == [(2, True)] * 2


def test_what_is_closed_is_copied_once(cli: Cli, lake: str) -> None:
    """The rows say what was copied, and how far the archive is."""
    before = end_of(cli, lake)
    outcome = cli.on("archive", "t", "--to", lake, "--json")
    assert [row["copied"] for row in outcome.rows] == [[], []]
    add(cli, range(40, 60))

    outcome = cli.on("archive", "t", "--to", lake, "--json")

    first = outcome.rows[0]
    assert first["copied"][0]["baseOffset"] == before
    assert first["copied"][-1]["endOffset"] == first["archiveEndOffset"] == end_of(cli, lake)
    assert (first["archiveStartOffset"], first["logEndOffset"]) == (0, 30)
    assert first["waitingBytes"] > 0
    sizes = [one["sizeBytes"] for row in outcome.rows for one in row["copied"]]
    counts = dict(outcome.counts)
    assert counts.pop("storeRequests") > 0
    assert counts.pop("storeBytes") > sum(sizes)
    assert counts == {
        "partitions": 2,
        "segments": len(sizes),
        "copiedBytes": sum(sizes),
        "swept": 0,
        "truncated": 0,
        "missing": 0,
    }
    text = cli.on("archive", "t", "--to", lake).out
    assert text.startswith("t-0: copied 0 segments; archived: offsets 0 to ")


def test_compacted_topics_are_left_out(cli: Cli, lake: str) -> None:
    """With a note; one that is named is an error, and nothing is copied."""
    outcome = cli.on("archive", "--to", lake)
    assert outcome.code == 0
    assert "c: it is compacted, and a closed segment must not change" in outcome.err

    outcome = cli.on("archive", "c", "t", "--to", lake)
    assert outcome.code == 2
    assert outcome.err.startswith("tidelog archive: c: it is compacted")


def test_a_topic_of_unknown_policy_needs_one(cli: Cli, tmp_path: Path) -> None:
    """It could be compacted."""
    with tidelog.open(cli.data, config=SETTINGS) as logs:
        logs.create_topic("t")
    (cli.data / "tidelog.topics.json").unlink()
    to = "--to", (tmp_path / "lake").as_uri()

    outcome = cli.on("archive", *to)
    assert (outcome.code, "its cleanup.policy is unknown" in outcome.err) == (2, True)
    properties = tmp_path / "server.properties"
    properties.write_text("log.cleanup.policy=delete\n")
    with tidelog.open(cli.data, log_cleaner_enable=False):
        assert cli.on("archive", *to).code == 2
        assert cli.on("archive", *to, "--server-properties", properties).code == 0
    assert cli.on("archive", *to, "-o", "cleanup.policy=delete").code == 0


@pytest.mark.parametrize("uri", ["gs://b/x", "lake", "s3://", "s3://key:word@b"])
def test_a_place_that_is_no_store_is_refused(cli: Cli, uri: str) -> None:
    """Before anything is opened; credentials are not repeated."""
    outcome = cli.on("archive", "--to", uri)

    assert (outcome.code, "word" in outcome.err) == (2, False)


@pytest.mark.parametrize("place", ["", "lake", "link/lake"])
@pytest.mark.parametrize("snapshot", [(), ("--snapshot", "s")])
def test_an_archive_lies_outside_of_its_directory(
    cli: Cli, tmp_path: Path, place: str, snapshot: tuple[str, ...]
) -> None:
    """A broker takes whatever is in a data directory for a log, and may not start."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t", config={"remote.storage.enable": "true"})
    (tmp_path / "link").symlink_to(cli.data)
    before = sorted(cli.data.iterdir())
    uri = ((tmp_path if "link" in place else cli.data) / place).as_uri()

    outcome = cli.on("archive", "--to", uri, *snapshot)

    assert outcome.code == 2
    assert "is in a data directory: name a place outside of it" in outcome.err
    with pytest.raises(InvalidArgument, match="is in a data directory"):
        tidelog.open(cli.data, tidelog_archive_uri=uri)
    assert sorted(cli.data.iterdir()) == before


def test_a_copy_of_the_directory_continues_only_if_told_to(
    cli: Cli, lake: str, tmp_path: Path
) -> None:
    """Then the first one does not."""
    shutil.copytree(cli.data, tmp_path / "copy")
    outcome = cli("archive", "t", "-d", tmp_path / "copy", "--to", lake)
    assert (outcome.code, "--continue" in outcome.err) == (3, True)

    assert cli("archive", "t", "-d", tmp_path / "copy", "--to", lake, "--continue").code == 0
    assert cli.on("archive", "t", "--to", lake).code == 3


LOOKS = {
    "list": ("list",),
    "offsets": ("offsets", "t"),
    "cat": ("cat", "t"),
    "cat of a time": ("cat", "t", "--since", "1010"),
    "describe": ("describe", "--json"),
    "picture": ("picture",),
    "verify": ("verify",),
    "txns": ("txns",),
    "table": ("table", "batches"),
    "sql": ("sql", "select count(*) from t"),
    "plan retention": ("plan", "retention"),
    "metrics": ("metrics",),
    "cleaner": ("cleaner", "status"),
}


@pytest.mark.parametrize("name", LOOKS)
def test_each_look_takes_an_archive(cli: Cli, lake: str, name: str) -> None:
    """As it takes a directory; one that is not there is named."""
    words = LOOKS[name]

    outcome = cli(*words, "-d", lake)
    assert (outcome.code, outcome.err) == (0, "")
    missing = cli(*words, "-d", f"{lake}/none")
    assert (missing.code, f"there is no archive at {lake}/none" in missing.err) == (2, True)


def test_records_are_those_of_the_log(cli: Cli, lake: str) -> None:
    """Up to the end of the archive, of all partitions or of the directory of one."""
    for partition in range(2):
        end = end_of(cli, lake, partition)
        expected = [row for row in cli.on("cat", "t", "-p", partition).rows if row["offset"] < end]
        assert cli("cat", "t", "-p", partition, "-d", lake).rows == expected
        assert cli("cat", f"{lake}/t-{partition}").rows == expected
        assert expected


CHANGES = [
    ("append", "t"),
    ("create", "x"),
    ("delete", "t"),
    ("alter", "t", "-o", "retention.ms=1"),
    ("retain",),
    ("compact",),
    ("recover",),
    ("delete-records", "t", "-p", "all", "--before", "1"),
    ("archive", "--to", "file:///nowhere"),
    ("to-kafka",),
    ("run",),
]


@pytest.mark.parametrize("words", CHANGES, ids=lambda words: words[0])
def test_nothing_writes_to_an_archive(
    cli: Cli, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Nor into a directory whose name is its URI."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    outcome = cli(*words, "-d", lake)

    assert outcome.code == 2
    assert f"{lake}" in outcome.err
    assert "an archive on an object store is only read" in outcome.err
    assert [*(tmp_path / "here").iterdir()] == []


def test_a_mirror_of_an_archive_is_a_directory_again(cli: Cli, lake: str, tmp_path: Path) -> None:
    """With the records at their offsets, to which more can be appended."""
    assert cli("mirror", "-d", lake, "--to", tmp_path / "back").code == 0

    assert cli("cat", "t", "-d", tmp_path / "back").rows == cli("cat", "t", "-d", lake).rows
    assert cli("append", "t", "-d", tmp_path / "back", "--format", "text", stdin="x\n").code == 0
    assert cli("mirror", "-d", cli.data, "--to", lake).code == 2


def test_programs_read_archives(cli: Cli, lake: str) -> None:
    """By every door for reading; a follower sees what is archived meanwhile."""
    logs = tidelog.open_directory_read_only(lake)
    follower = logs.follower("t", 0)
    values = [record.value for record in logs.read("t", 0)]
    assert sum(len(part.offset) for part in follower.columns()) == len(values)
    assert len(values) == end_of(cli, lake)
    with tidelog.open_read_only(f"{lake}/t-0") as log:
        assert [record.value for record in log.records()] == values
    table = tidelog.arrow.read_table(lake, "t", partitions=0)
    assert table["value"].to_pylist() == values
    assert [*follower.columns()] == []

    add(cli, range(40, 60))
    assert cli.on("archive", "t", "--to", lake).code == 0

    new = [offset for part in follower.columns() for offset in part.offset.tolist()]
    assert new == [*range(len(values), end_of(cli, lake))]
    assert new
    assert len([*logs.read("t", 0)]) == end_of(cli, lake)
    with pytest.raises(tidelog.TidelogError, match="an archive on an object store is only read"):
        tidelog.open(lake)


def test_a_snapshot_is_an_archive_of_its_own(cli: Cli, tmp_path: Path) -> None:
    """Of a compacted topic, too, whose settings it keeps; commands read it, and it is restored."""
    settings = {**SETTINGS, "cleanup.policy": "compact", "min.compaction.lag.ms": "60000"}
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        logs.create_topic("c", 2, config=settings)
        for number in range(60):
            key, value = b"key %d" % (number % 7), b"value %d" % number
            logs.append("c", value, key=key, timestamp=1000 + number, partition=number % 2)
    cli.on("compact", "c")
    lake = (tmp_path / "lake").as_uri()

    outcome = cli.on("archive", "c", "--to", lake, "--snapshot", "monday", "--json")

    assert outcome.code == 0
    assert outcome.counts["segments"] == sum(len(row["copied"]) for row in outcome.rows) > 2
    uri = f"{lake}/snapshots/monday"
    before = cli("cat", "c", "-p", "all", "-d", uri).rows
    assert before == cli.on("cat", "c", "-p", "all").rows != []
    target = tmp_path / "restored"
    assert cli("restore", uri, "--to", target).code == 0
    assert cli("cat", "c", "-p", "all", "-d", target).rows == before
    with tidelog.open(target) as logs:
        assert logs.topic("c").config.items() >= settings.items()
    assert cli("list", "-d", lake).rows == []


def test_where_only_snapshots_lie_they_are_named(topic: Cli, tmp_path: Path) -> None:
    """Each by the URI that restores and reads it."""
    topic.append("a")
    lake = (tmp_path / "lake").as_uri()
    for name in ("monday", "tuesday"):
        assert topic.on("archive", "--to", lake, "--snapshot", name).code == 0

    refused = topic("restore", lake, "--to", tmp_path / "restored")

    snapshots = f"{lake}/snapshots/monday, {lake}/snapshots/tuesday"
    assert refused.code == 2
    assert f"there is no archive at {lake}; snapshots there: {snapshots}\n" in refused.err


def test_a_snapshot_never_changes(cli: Cli, lake: str) -> None:
    """Its name is taken; no archive continues it; and what is appended is not in it."""
    to = ("archive", "t", "--to", lake)
    assert cli.on(*to, "--snapshot", "monday").code == 0
    uri = f"{lake}/snapshots/monday"
    before = cli("cat", "t", "-p", "all", "-d", uri).rows
    assert before == cli.on("cat", "t", "-p", "all").rows
    add(cli, range(40, 80))

    outcome = cli.on(*to, "--snapshot", "monday")
    assert outcome.code == 2
    assert "is there already, and a snapshot never changes: choose another name" in outcome.err
    for option in ("--continue", "--follow-start", "--sweep"):
        outcome = cli.on(*to, "--snapshot", "tuesday", option)
        assert outcome.code == 2
        assert f"{option} is for an archive that continues" in outcome.err
        outcome = cli.on("archive", "t", "--to", uri, option)
        assert outcome.code == 3
        assert "is a snapshot, which never changes" in outcome.err
    assert cli("cat", "t", "-p", "all", "-d", uri).rows == before
    assert cli.on(*to, "--snapshot", "tuesday").code == 0
    after = cli("cat", "t", "-p", "all", "-d", f"{lake}/snapshots/tuesday").rows
    assert len(after) > len(before)


def test_a_snapshot_has_no_position_of_a_group_before_its_record(cli: Cli, tmp_path: Path) -> None:
    """The positions are copied first, whatever the names of the topics: others write meanwhile."""
    with tidelog.open(cli.data) as logs:
        logs.create_topic("T")
        logs.append("T", b"1")
        with logs.reader("T", group="g") as reader:
            list(reader.read())
            reader.commit()

    outcome = cli.on("archive", "--to", (tmp_path / "l").as_uri(), "--snapshot", "s", "--json")

    assert [row["topic"] for row in outcome.rows] == ["__consumer_offsets", "T"]


def test_a_snapshot_has_whole_topics(cli: Cli, lake: str, tmp_path: Path) -> None:
    """Positions of groups can be in one, but not the metadata of a cluster; names stay names."""
    outcome = cli.on("archive", "t", "-p", "0", "--to", lake, "--snapshot", "monday")
    assert outcome.code == 2
    assert "a snapshot has whole topics, and partition 1 of t is not chosen" in outcome.err
    outcome = cli.on("archive", "--to", lake, "--snapshot", "../monday")
    assert outcome.code == 2
    assert "'../monday' is not the name of a snapshot" in outcome.err

    with tidelog.open(cli.data) as logs, logs.reader("t", group="g") as reader:
        assert next(reader.read()) is not None
        reader.commit()
    outcome = cli.on("archive", "--to", lake, "--snapshot", "all", "--json")
    assert outcome.code == 0
    assert {row["topic"] for row in outcome.rows} == {"t", "c", "__consumer_offsets"}
    ends = {(row["archiveEndOffset"], row["logEndOffset"]) for row in outcome.rows}
    assert all(archived == end for archived, end in ends)
    restored = str(tmp_path / "restored")
    assert cli("mirror", f"{lake}/snapshots/all", "--to", restored).code == 0
    there = cli("groups", "g", "-d", restored, "--json").rows
    assert there == cli.on("groups", "g", "--json").rows != []


def test_a_snapshot_ends_where_a_transaction_is_open(cli: Cli, lake: str) -> None:
    """It says what it lacks; without anything to take, the name is not used up."""
    fields: Any = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    data = build_batch([(1, None, b"open", ())], transactional=True, **fields)
    with tidelog.open(cli.data, transaction_partition_verification_enable=False) as logs:
        for topic in ("some", "none"):
            logs.create_topic(topic)
            log = logs.manager.partition(topic, 0).log
            if topic == "some":
                logs.append(topic, b"before")
                log.roll()
            log.append_as_leader(data)
    to = "--to", lake, "--snapshot"
    text = "are not in the snapshot: a transaction is open from offset"

    outcome = cli.on("archive", "some", *to, "some", "--json")
    assert (outcome.code, outcome.rows[0]["archiveEndOffset"]) == (0, 1)
    assert f"some-0: offsets 1 to 1 {text} 1 on" in outcome.err
    outcome = cli.on("archive", "none", *to, "none")
    assert outcome.code == 2
    assert f"none-0: offsets 0 to 0 {text} 0 on (`tidelog txns`); that is all" in outcome.err
    end = "txns", "abort", "none-0", "--producer-id", 7, "--execute"
    assert cli.on(*end).code == 0
    assert cli.on("archive", "none", *to, "none").code == 0


def test_a_snapshot_never_lacks_what_only_the_archive_has(cli: Cli, tmp_path: Path) -> None:
    """Such topics are refused, and left out of a snapshot of all; a mirror has the whole log."""
    settings = {**SETTINGS, "remote.storage.enable": "true", "local.retention.ms": "0"}
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        logs.create_topic("t", 2, config=settings)
        logs.create_topic("other")
        logs.append("other", b"value")
    add(cli, range(60))
    lake = (tmp_path / "lake").as_uri()
    give_up_locally(cli.data, lake)
    wanted = cli.on("cat", "t", "-p", "all").rows
    assert len(wanted) == 60
    snapshot = "--to", lake, "--snapshot"
    reason = "of t-0 are in its archive alone, and a snapshot is made of what the disk has"

    outcome = cli.on("archive", "t", *snapshot, "monday")
    assert (outcome.code, reason in outcome.err) == (2, True)
    outcome = cli.on("archive", *snapshot, "tuesday", "--json")
    assert reason in outcome.err
    assert [row["topic"] for row in outcome.rows] == ["other"]
    mirrored = str(tmp_path / "mirrored")
    assert cli("mirror", cli.data, "--to", mirrored).code == 0
    assert cli("archive", "t", "-d", mirrored, *snapshot, "monday").code == 0
    rows = cli("cat", "t", "-p", "all", "-d", f"{lake}/snapshots/monday").rows
    assert [row["value"] for row in rows] == [row["value"] for row in wanted]


def test_a_directory_that_was_put_back_takes_its_archive_with_it(cli: Cli, tmp_path: Path) -> None:
    """Its log begins in there; what the archive has from later on is removed on request."""
    settings = {**SETTINGS, "remote.storage.enable": "true", "local.retention.ms": "0"}
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        logs.create_topic("t", 2, config=settings)
    add(cli, range(60))
    lake = (tmp_path / "lake").as_uri()
    give_up_locally(cli.data, lake)
    shutil.copytree(cli.data, tmp_path / "older")
    add(cli, range(60, 120))
    assert cli.on("archive", "t", "--to", lake).code == 0
    shutil.rmtree(cli.data)
    shutil.copytree(tmp_path / "older", cli.data)
    add(cli, range(200, 240))
    wanted = cli.on("cat", "t", "-p", "all").rows
    assert len(wanted) == 100

    for options in ([], ["--continue"]):
        outcome = cli.on("archive", "t", "--to", lake, *options)
        assert outcome.code == 3
        assert cli.on("cat", "t", "-p", "all").rows == wanted
    outcome = cli.on("archive", "t", "--to", lake, "--continue", "--truncate", "--json")

    assert outcome.code == 0
    assert sum(row["truncated"] for row in outcome.rows) == outcome.counts["truncated"] > 0
    assert cli.on("cat", "t", "-p", "all").rows == wanted
    ends = {row["partition"]: row["archiveEndOffset"] for row in outcome.rows}
    archived = cli("cat", "t", "-p", "all", "-d", lake).rows
    assert archived == [row for row in wanted if row["offset"] < ends[row["partition"]]]
    add(cli, range(240, 280))
    give_up_locally(cli.data, lake)
    rows = cli.on("cat", "t", "-p", "all").rows
    assert [row["value"] for row in rows][-1] == "value 279"
    assert len(rows) == 140


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_what_all_partitions_lack_is_reported_once(
    cli: Cli, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With how many there are; one half of the credentials is none."""
    for each in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "half")
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t", 20)

    outcome = cli.on("archive", "--to", "s3://lake/x")

    error = outcome.err
    assert outcome.code == 3
    assert error.count("s3://lake/x") == 1
    assert "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in error
    assert error.endswith("role (20 partitions)\n")


@pytest.fixture
def kept(cli: Cli, tmp_path: Path) -> str:
    """Return the archive in which topic t continues, whose disk still has all 60 records."""
    uri = (tmp_path / "lake").as_uri()
    settings = {**SETTINGS, "remote.storage.enable": "true"}
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        logs.create_topic("t", 2, config=settings)
    add(cli, range(60))
    give_up_locally(cli.data, uri)
    add(cli, range(60, 80))
    return uri


def on_disk(cli: Cli) -> list[str]:
    return sorted(str(path.relative_to(cli.data)) for path in cli.data.glob("t-*/*.log"))


LOCAL = ("-o", "local.retention.bytes=0")
WHOLE = ("-o", "retention.ms=1", "--now", "1045")


def test_what_is_archived_goes_by_local_retention_without_a_service(cli: Cli, kept: str) -> None:
    """From the disk, as planned; the archive keeps it, and what it has not stays here."""
    wanted, before = cli.on("cat", "t", "-p", "all").rows, on_disk(cli)
    ends = {row["partition"]: row["logEndOffset"] for row in cli("list", "-d", kept, "--json").rows}
    planned = cli.on("plan", "retention", "t", *LOCAL, "--json").rows

    outcome = cli.on("retain", "t", *LOCAL, "--json")

    assert (outcome.code, outcome.rows, outcome.err) == (0, planned, "")
    assert outcome.counts["deletedSegments"] == len(before) - len(on_disk(cli)) > 4
    assert [row["deleted"][-1]["endOffset"] for row in outcome.rows] == [ends[0], ends[1]]
    assert {row["logStartOffset"] for row in outcome.rows} == {0}
    assert cli.on("cat", "t", "-p", "all").rows == wanted
    assert len(wanted) == 80
    assert cli.on("retain", "t", *LOCAL, "--json").counts["deletedSegments"] == 0


@pytest.mark.usefixtures("kept")
def test_what_only_the_archive_has_is_marked(cli: Cli) -> None:
    """In a description as in a plan, with sizes that add up."""
    assert "archive" not in cli.on("describe", "t", "-p", 0).out.split("\n", 4)[-1]
    assert cli.on("retain", "t", *LOCAL).code == 0

    (row,) = cli.on("describe", "t", "-p", 0, "--json").rows
    drawn = cli.on("describe", "t", "-p", 0).out
    (plan,) = cli.on("plan", "retention", "t", "-p", 0, *LOCAL, "--json").rows
    planned = cli.on("plan", "retention", "t", "-p", 0, *LOCAL).out

    away = [one for one in row["segments"] if not one["isOnDisk"]]
    size = sum(one["logBytes"] for one in away)
    assert 0 < len(away) < len(row["segments"])
    contents = cli.on("describe", "t", "-p", 0, "--segments").out
    assert [text.count("  in the archive only\n") for text in (drawn, contents)] == [len(away)] * 2
    assert f"segments: ▓ in the archive only, {size / 1000:,.1f} kB" in drawn
    assert plan["sizeBytes"] + size == row["sizeBytes"]
    assert f" kB on the disk, {size / 1000:,.1f} kB in the archive only\n" in planned
    assert planned.count("  kept in the archive") == len(away)
    assert "held by the archive, which gets it once it is closed; due now" in planned


def test_what_has_expired_goes_from_the_archive_without_a_service(cli: Cli, kept: str) -> None:
    """By the limits of the whole log, which begins later then, here and for all who read it."""
    assert cli.on("retain", "t", *LOCAL).code == 0

    planned = cli.on("plan", "retention", "t", *WHOLE, "--json").rows
    outcome = cli.on("retain", "t", *WHOLE, "--json")

    same = ("logStartOffset", "logEndOffset", "sizeBytes", "freedBytes", "deleted")
    assert [[row[name] for name in same] for row in outcome.rows] == [
        [row[name] for name in same] for row in planned
    ]
    starts = [row["logStartOffset"] for row in outcome.rows]
    assert min(starts) > 0
    assert outcome.rows[0]["deleted"][0]["baseOffset"] == 0
    for directory in (cli.data, kept):
        rows = cli("list", "-d", directory, "--json").rows
        assert [row["logStartOffset"] for row in rows] == starts


@pytest.mark.parametrize("words", [["--dry-run"], []])
def test_records_are_deleted_in_the_archive_later(cli: Cli, words: list[str]) -> None:
    """Of a topic that a service archives; its command deletes files of the disk."""
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        logs.create_topic("u", config={**SETTINGS, "remote.storage.enable": "true"})
        logs.append_all("u", [b"x" * 300] * 5)

    told = [cli.on("delete-records", topic, "-p", 0, "--before", 2, *words) for topic in "tu"]

    assert [" bytes; in the archive a day later\n" in one.out for one in told] == [False, True]


@pytest.mark.usefixtures("kept")
def test_without_an_archive_to_ask_nothing_goes(cli: Cli, tmp_path: Path) -> None:
    """It may be the only copy: an archive that is gone, and one that there never was."""
    before = on_disk(cli)
    (tmp_path / "lake").rename(tmp_path / "gone")

    lost = cli.on("retain", "t", *LOCAL)
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        logs.create_topic("u", config={**SETTINGS, "remote.storage.enable": "true"})
        logs.append_all("u", [b"x" * 300] * 5)
    never = cli.on("retain", "u", *LOCAL)
    made = (tmp_path / "made").as_uri()
    assert cli.on("archive", "u", "--to", made).code == 0
    not_taken_over = cli.on("retain", "u", *LOCAL)

    assert lost.code == 3
    assert "it was deleted, or put back from an older copy" in lost.err
    assert on_disk(cli) == before
    assert never.code == 0
    assert "u-0: deleted no segments" in never.out
    assert "nothing of u-0 is archived yet" in never.err
    assert "before tidelog run -o tidelog.archive.uri=URI has copied it" in never.err
    assert "the archive that tidelog archive has made of u-0 does not count" in not_taken_over.err
    assert f"before tidelog run -o tidelog.archive.uri={made} has taken it" in not_taken_over.err


def test_a_program_retains_what_its_archive_has(cli: Cli, kept: str) -> None:
    """As the command does; a process with an archive of its own looks at that all the time."""
    before = on_disk(cli)
    with tidelog.open(cli.data, log_cleaner_enable=False) as logs:
        logs.alter_topic("t", {"local.retention.bytes": "0"})

        deleted = logs.retain("t")

        assert min(len(gone) for gone in deleted.values()) > 2
        assert logs.retain("t") == {("t", 0): [], ("t", 1): []}
        assert len(list(logs.read("t", 0))) == 40
    assert len(before) - len(on_disk(cli)) == sum(map(len, deleted.values()))
    assert len(cli("cat", "t", "-p", "all", "-d", kept).rows) < 80


def test_what_a_command_asks_of_a_store_is_counted(cli: Cli, lake: str) -> None:
    """A line with ``-v``, numbers with ``--json``; nothing of a command that uses no store."""
    verbose = cli("cat", "t", "-p", 0, "-d", lake, "-v").err
    rows = cli("list", "-d", lake, "--json").out.splitlines()

    assert " to the store (" in verbose
    assert " received, 0 bytes sent" in verbose
    counted = json.loads(rows[-1])["counts"]
    assert counted["storeRequests"] > counted["partitions"]
    assert counted["storeBytes"] > 0
    assert "storeRequests" not in cli.on("list", "--json").out
    assert "to the store" not in cli.on("list", "-v").err


def test_restore_says_what_is_missing_and_who_takes_the_topics_for_new_ones(
    cli: Cli, lake: str, tmp_path: Path
) -> None:
    """Records after the archive's end; without --keep-ids, streams and groups know other ids."""
    plain = cli("restore", lake, "--to", tmp_path / "plain")
    kept = cli("restore", lake, "--to", tmp_path / "kept", "--keep-ids")

    for outcome in (plain, kept):
        assert outcome.code == 0
        assert "each log ends where its archive ends" in outcome.err
    assert "restore with --keep-ids" in plain.err
    assert "--keep-ids" not in kept.err


def test_a_store_that_cannot_be_made_is_named(cli: Cli, lake: str, tmp_path: Path) -> None:
    """A file has the place of its directory; the system's error names neither."""
    (tmp_path / "file").touch()
    uri = (tmp_path / "file" / "lake").as_uri()
    assert cli.on("archive", "t", "--to", lake).code == 0

    outcome = cli.on("archive", "t", "--to", uri)

    assert outcome.code == 3
    assert outcome.err.startswith(f"tidelog archive: {uri}: Not a directory")


def test_a_damaged_chain_keeps_no_others_from_being_looked_at(
    cli: Cli, lake: str, tmp_path: Path
) -> None:
    """Verify and list report each, and the exit code is that of damage."""
    (chain,) = (tmp_path / "lake").glob("*/1/m/*1")
    chain.write_bytes(b"damaged")

    verified = cli("verify", lake, "--json")
    listed = cli("list", lake, "--json")
    topics = cli("list", lake, "--topics")

    checked = cli("verify", lake).out.rpartition("; checked ")[2]
    assert checked.startswith("4 segments")
    found = [row for row in verified.rows if "severity" in row]
    assert [(row["partition"], row["severity"]) for row in found] == [(1, "damage")]
    assert str(chain.name) in found[0]["what"]
    assert [verified.code, listed.code, topics.code] == [1, 1, 1]
    assert cli("verify", lake, "t").out.endswith("2 partitions, 1 damaged; checked " + checked)
    assert [(row["partition"], row["damage"] is None) for row in listed.rows] == [
        (0, True),
        (1, False),
    ]
    assert [row["logEndOffset"] for row in listed.rows] == [end_of(cli, lake), 0]


def test_an_archive_takes_no_second_topic_of_a_name(cli: Cli, lake: str, tmp_path: Path) -> None:
    """Neither could be read: one that was restored, or created again, needs another place."""
    add(cli, range(40, 60))
    back = tmp_path / "back"
    assert cli("restore", lake, "--to", back).code == 0
    archived = cli("offsets", "t", "-d", lake).out

    outcome = cli("archive", "t", "--to", lake, "-d", back)

    assert (outcome.code, outcome.out) == (3, "")
    assert f"{lake} has another topic named t, with the id " in outcome.err
    assert cli("offsets", "t", "-d", lake).out == archived
    assert cli("archive", "t", "--to", f"{lake}2", "-d", back).code == 0
    assert cli.on("archive", "t", "--to", lake).code == 0

    assert "internal.segment.bytes=400" in cli("describe", lake).out


@pytest.mark.parametrize(
    "words",
    [
        ("describe",),
        ("txns",),
        ("metrics",),
        ("offsets",),
        ("picture", "--brief"),
        ("picture", "--overview"),
        ("plan", "retention"),
        ("plan", "compaction"),
        ("table", "batches"),
        ("table", "plan_retention"),
    ],
    ids=" ".join,
)
def test_what_looks_at_each_partition_goes_on_past_a_damaged_chain(
    cli: Cli, lake: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """It shows the others as before, names the damage once, and ends with the code of damage."""
    (chain,) = (tmp_path / "lake").glob("*/0/m/*1")
    chain.write_bytes(b"damaged")

    outcome = cli(*words, "-d", lake)

    assert outcome.code == 1
    assert outcome.err.count("tidelog ") == outcome.err.count(chain.name) == 1
    assert f"tidelog {words[0]}: t-0: " in outcome.err
    if words == ("metrics",):
        assert f'log_end_offset{{topic="t",partition="1"}} {end_of(cli, lake, 1)}' in outcome.out
    else:
        alone = cli(*words, "-p", "1", "-d", lake)
        assert (alone.code, alone.err) == (0, "")
        assert outcome.out == alone.out.replace("t: 1 partition,", "t: 2 partitions,")


def test_records_beside_a_damaged_chain_are_printed(cli: Cli, lake: str, tmp_path: Path) -> None:
    """Exit code 1, and an error that names the object; a query gives nothing, as it may count."""
    (chain,) = (tmp_path / "lake").glob("*/0/m/*1")
    chain.write_bytes(b"damaged")

    shown, past = cli("cat", "t", "-d", lake), cli("cat", "t", "--skip-damage", "-d", lake)
    counted = cli("sql", "SELECT count(*) FROM t", "-d", lake)

    assert shown.out == past.out == cli("cat", "t", "-p", "1", "-d", lake).out
    assert (counted.code, counted.out) == (1, "")
    for outcome in (shown, past, counted):
        assert (outcome.code, outcome.err.count("\n")) == (1, 1)
        assert chain.name in outcome.err


def test_both_topics_of_one_name_are_verified(cli: Cli, lake: str, tmp_path: Path) -> None:
    """A topic that was deleted, and the one created in its place: by their ids, which are named."""
    cli.on("delete", "t")
    with tidelog.open(cli.data) as logs:
        logs.create_topic("t", 2, config=SETTINGS)
    add(cli, range(40))
    other = tmp_path / "other"
    assert cli.on("archive", "t", "--to", other.as_uri()).code == 0
    shutil.copytree(other, tmp_path / "lake", dirs_exist_ok=True)

    verified, listed = cli("verify", lake), cli("list", lake, "--json")

    names = sorted({row["topic"] for row in listed.rows})
    assert (verified.code, listed.code, len(names)) == (0, 0, 2)
    assert verified.out.count(": sound (4 segments") == 4
    assert f"two topics named t: {' and '.join(names)}" in verified.err
    for name in names:
        assert len(cli("cat", name, "-p", "all", "-d", lake).rows) == 30
    assert "two topics named t" in cli("verify", lake, "t").err


def test_a_restoration_that_fails_names_what_it_leaves(cli: Cli, lake: str, tmp_path: Path) -> None:
    """It takes space on the disk; the command can be repeated once the cause is gone."""
    firsts = [min((tmp_path / "lake").glob(f"*/{number}/s/*")) for number in (0, 1)]
    kept = [one.read_bytes() for one in firsts]
    for one in firsts:
        one.unlink()
    back = tmp_path / "back"

    outcome = cli("restore", lake, "--to", back)
    for one, data in zip(firsts, kept, strict=True):
        one.write_bytes(data)

    assert (outcome.code, outcome.out) == (1, "")
    unfinished, gone = outcome.err.splitlines()
    assert unfinished == (
        f"tidelog restore: {back}.restoring is unfinished: repeat the command, or delete that"
    )
    assert gone.endswith(f"{firsts[0].name} is gone, and the archive has not removed it")
    assert cli("restore", lake, "--to", back).code == 0
