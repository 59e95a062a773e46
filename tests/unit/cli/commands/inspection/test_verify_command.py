"""``tidelog verify``."""

from __future__ import annotations

import errno
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.cli.commands.inspection.test_salvage_command import without_middle_segment

import tidelog
from tidelog.env.system_files import SYSTEM_FILES

if TYPE_CHECKING:
    from pathlib import Path

    from tidelog.env.system_files import SystemFiles

    Cli = Any


def test_a_sound_log_is_reported_as_sound(topic: Cli) -> None:
    """One line for each partition without findings, and a total; exit code 0.

    Both say how much was checked: without that, nothing found may mean that nothing was looked at.
    """
    topic.append("a", "b")
    size = topic.log_file().stat().st_size
    checked = f"1 segment, 1 batch, 2 records, {size} bytes, 1 index entry"

    assert topic.on("verify") == (
        0,
        f"t-0: sound ({checked})\n1 partition, 0 damaged; checked {checked}\n",
        "",
    )


def test_a_directory_that_cannot_be_listed_keeps_no_other_from_its_check(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is damage, as on a disk with a bad sector, and not the end of the command."""
    cli.on("create", "t", "-p", "2")

    listed = type(SYSTEM_FILES).list

    def with_bad_sector(self: SystemFiles, path: str) -> list[str]:
        if path.endswith("t-0"):
            raise OSError(errno.EIO, "Input/output error", path)
        return listed(self, path)

    monkeypatch.setattr(type(SYSTEM_FILES), "list", with_bad_sector)
    outcome = cli.on("verify")

    assert (outcome.code, outcome.err) == (1, "")
    assert "t-0: Input/output error" in outcome.out
    assert "t-1: sound" in outcome.out
    assert "2 partitions, 1 damaged" in outcome.out


def test_json_ends_with_how_much_was_checked(topic: Cli) -> None:
    """The last line has the counts, in health too."""
    empty = topic.on("verify", "--json").lines
    topic.append("a")

    size = topic.log_file().stat().st_size
    none = {"segments": 0, "batches": 0, "records": 0, "bytes": 0, "indexEntries": 0}
    some = {"segments": 1, "batches": 1, "records": 1, "bytes": size, "indexEntries": 1}
    assert empty == [{"counts": {"partitions": 1, "damaged": 0, "unanswered": 0, **none}}]
    assert topic.on("verify", "--json").counts == {
        "partitions": 1,
        "damaged": 0,
        "unanswered": 0,
        **some,
    }


def test_the_end_of_the_tour_of_the_readme_is_sound(cli: Cli, tmp_path: Path) -> None:
    """Short-lived writers, a service that is started and stopped, a move: nothing is unusual."""
    other = tmp_path / "disk2"
    with tidelog.open(cli.data, other) as logs:
        logs.create_topic("flights", partitions=4)
        for number in range(4):
            logs.partition("flights", number).append_records([(5, b"N14228", b"EWR-IAH", [])])
    cli.on("append", "flights", "--format", "json", stdin='{"key": "N14228", "value": "EWR"}\n')
    for _ in range(2):
        with tidelog.open(cli.data, other) as logs:
            logs.append("flights", b"once more")
        cli.on("append", "flights", stdin="a line\n")
    before = cli.on("verify", "--json")
    assert cli.on("move", "flights", "--to", other).code == 0
    after = cli("verify", "-d", other, "--json")

    for found in (before, after):
        assert (found.rows, found.code, found.counts["damaged"]) == ([], 0, 0)
    assert after.counts["records"] == 9


@pytest.mark.parametrize("named", [[], ["flights"]])
@pytest.mark.parametrize("command", [("verify",), ("table", "findings")])
def test_the_partitions_of_another_topic_of_the_name_are_damage(
    cli: Cli, tmp_path: Path, command: tuple[str, ...], named: list[str]
) -> None:
    """A disk that was away has kept what was deleted; each directory alone is sound."""
    away = tmp_path / "away"
    for path, count in ((cli.data, 1), (away, 2)):
        with tidelog.open(path) as logs:
            logs.create_topic("flights", partitions=count)
    (away / "meta.properties").unlink()  # it names another cluster

    done = cli(*command, *named, "-d", cli.data, "-d", away, "--json", "--allow-partial")

    rows = [row for row in done.rows if "the topic has" in row["what"]]
    assert [(row["severity"], row["topic"], row["partition"]) for row in rows] == [
        ("damage", "flights", 0),
        ("damage", "flights", 1),
    ]
    assert {row["file"] for row in rows} == {
        f"{away}/flights-{number}/partition.metadata" for number in (0, 1)
    }
    assert done.code == (1 if command == ("verify",) else 0)


def test_a_finding_has_its_place_and_a_remedy(topic: Cli) -> None:
    """Damage gives exit code 1; text and JSON have the file, byte, problem and remedy."""
    topic.append("a")
    log = topic.log_file()
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)

    text, rows = topic.on("verify"), topic.on("verify", "--json").rows

    assert text.code == 1
    assert f"damage: {log} byte 0: the CRC of a batch is wrong" in text.out
    assert rows[0]["severity"] == "damage"
    assert (rows[0]["topic"], rows[0]["partition"]) == ("t", 0)
    assert (rows[0]["file"], rows[0]["byte"]) == (str(log), 0)
    assert "recover" in rows[0]["remedy"]


@pytest.mark.parametrize("what", ["a missing segment", "a log start beyond the end"])
def test_a_remedy_names_rescue_where_that_mends_it(topic: Cli, tmp_path: Path, what: str) -> None:
    """All records that are there are in the copy, which is sound."""
    broken = without_middle_segment(topic)
    assert topic.on("delete", "t").code == 0
    if what == "a log start beyond the end":
        (broken.data / "log-start-offset-checkpoint").write_text("0\n1\nm 0 9\n")

    found = broken.on("verify", "--json").rows
    broken.on("rescue", "--to", tmp_path / "new")

    remedies = [row["remedy"] for row in found if row["severity"] == "damage"]
    assert all("`tidelog rescue`" in one for one in remedies)
    assert len(remedies) == (1 if what == "a missing segment" else 2)
    assert topic("verify", tmp_path / "new").code == 0
    assert topic("list", tmp_path / "new", "--json").rows[0]["logEndOffset"] == 3


def test_verify_changes_nothing(topic: Cli) -> None:
    """All files are as before, even those that opening the log would delete."""
    (topic.data / "t-0" / f"{7:020d}.index").write_bytes(b"")
    before = {path: path.read_bytes() for path in topic.data.rglob("*") if path.is_file()}

    topic.on("verify")

    assert before == {path: path.read_bytes() for path in topic.data.rglob("*") if path.is_file()}


def test_files_of_the_data_directory_are_checked_too(topic: Cli) -> None:
    """A checkpoint of a partition that no longer exists, and a wrong one of one that does."""
    topic.append("a")
    (topic.data / "replication-offset-checkpoint").write_text("0\n2\nt 0 9\ngone 3 5\n")

    text, rows = topic.on("verify"), topic.on("verify", "--json").rows

    assert text.code == 1
    assert "1 partition, 1 damaged" in text.out
    assert [(row["topic"], row["partition"], row["severity"]) for row in rows] == [
        ("t", 0, "damage"),
        ("gone", 3, "unusual"),
    ]
    assert "the log ends at 1" in rows[0]["what"]
    assert topic.on("verify", "t", "--json").rows == rows[:1]


@pytest.fixture
def beheaded(cli: Cli) -> Cli:
    """A topic of two partitions with records, and the directory of the first one is gone."""
    cli.on("create", "t", "-p", 2)
    cli.on("append", "t", "-p", 0, stdin="a\n")
    cli.on("append", "t", "-p", 1, stdin="b\n")
    shutil.rmtree(cli.data / "t-0")
    return cli


@pytest.mark.parametrize(
    "words",
    [
        ("describe",),
        ("verify",),
        ("picture",),
        ("cat", "t"),
        ("offsets", "t"),
        ("offsets", "t", "--at", "latest"),
        ("plan", "retention"),
    ],
    ids=str,
)
def test_a_partition_that_is_listed_and_not_there_is_reported(
    beheaded: Cli, words: tuple[str, ...]
) -> None:
    """By every look, which ends with 1: its records are lost."""
    outcome = beheaded.on(*words)

    assert outcome.code == 1
    assert "t-0" in outcome.err + outcome.out
    assert "missing" in outcome.err or "gone" in outcome.out


@pytest.mark.parametrize("words", [("cat", "t", "-p", 0), ("offsets", "t", "-p", 0)], ids=str)
def test_a_read_of_nothing_but_what_is_missing_fails(beheaded: Cli, words: tuple[str, ...]) -> None:
    """There is nothing to print."""
    outcome = beheaded.on(*words)

    assert (outcome.code, outcome.out) == (1, "")
    assert "t-0 is listed in tidelog.topics.json, but its directory is missing" in outcome.err


def test_of_one_partition_only_its_own_findings_count(cli: Cli) -> None:
    """Neither damage in another one nor a missing one ends it with 1, whether a topic is named."""
    cli.on("create", "t", "-p", "3")
    for number in range(3):
        cli.on("append", "t", "--format", "json", stdin=f'{{"value": "v", "partition": {number}}}')
    log_file = cli.data / "t-0" / f"{0:020d}.log"
    log_file.write_bytes(log_file.read_bytes()[:-1] + b"x")
    shutil.rmtree(cli.data / "t-2")

    for topic in ((), ("t",)):
        damaged, sound, missing = (
            cli.on("verify", *topic, "-p", number, "--json") for number in range(3)
        )

        assert (damaged.code, sound.code, missing.code) == (1, 0, 1)
        assert {(row["topic"], row["partition"]) for row in damaged.rows} == {("t", 0)}
        assert (sound.rows, sound.counts["partitions"], sound.counts["records"]) == ([], 1, 1)
        assert [row["partition"] for row in missing.rows] == [2]


def test_a_damaged_checkpoint_does_not_hide_a_missing_partition(beheaded: Cli) -> None:
    """The check continues: both are reported, and the partition that is there is read."""
    (beheaded.data / "replication-offset-checkpoint").write_text("x\n")
    (beheaded.data / "recovery-point-offset-checkpoint").write_text("0\n1\n")

    outcome = beheaded.on("verify", "--json")
    rows, total = outcome.rows, outcome.counts

    found = {(row["topic"], row["partition"], row["file"].rpartition("/")[2]) for row in rows}
    assert ("t", 0, "tidelog.topics.json") in found
    assert ("t", 1, "replication-offset-checkpoint") in found
    assert ("t", 1, "recovery-point-offset-checkpoint") in found
    assert total["records"] == 1


@pytest.mark.parametrize(
    "name",
    [
        *("recovery-point-offset-checkpoint", "replication-offset-checkpoint"),
        *("log-start-offset-checkpoint", "cleaner-offset-checkpoint", "tidelog.topics.json"),
        *("tidelog.transactions.json", "meta.properties"),
    ],
)
def test_files_of_a_directory_without_partitions_are_checked(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    """Its exit code is that of the findings; a directory of another kind is a mistake, 2."""
    tidelog.open(cli.data).close()
    sound = cli("verify", "-d", str(cli.data))
    (cli.data / name).write_bytes(b"garbage\n")
    damaged = cli("verify", "-d", str(cli.data))
    (tmp_path / "empty").mkdir()

    assert (sound.code, damaged.code) == (0, 1)
    assert sound.out.startswith("0 partitions, 0 damaged; ")
    assert f"damage: {cli.data / name}" in damaged.out
    assert cli("verify", "-d", str(tmp_path / "empty")).code == 2


def test_a_partition_that_the_catalogue_places_elsewhere_is_named(topic: Cli) -> None:
    """As after a copy of a directory; the records are sound."""
    catalogue = topic.data / "tidelog.topics.json"
    content = json.loads(catalogue.read_text())
    content["topics"][0]["partitions"]["0"] = "AAAAAAAAAAAAAAAAAAAABQ"
    catalogue.write_text(json.dumps(content))

    found = topic.on("verify")

    assert found.code == 0
    assert "t-0 lies here, but belongs in the directory with id AAAAAAAAAAAAAAAAAAAABQ" in found.out


def test_the_gaps_of_a_compacted_topic_are_sound_without_the_cleaners_checkpoint(
    cli: Cli, tmp_path: Path
) -> None:
    """Its settings say that records may be missing, as in a mirror that nobody has cleaned."""
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "80"}
    with tidelog.open(tmp_path / "data") as logs:
        logs.create_topic("c", config=settings)
        for number in range(5):
            logs.append("c", b"%d" % number, key=b"k")
        logs.compact("c")
    (tmp_path / "data" / "cleaner-offset-checkpoint").unlink()

    checked = cli("verify", tmp_path / "data")

    assert (checked.code, "damage:" in checked.out) == (0, False)


@pytest.mark.parametrize("setting", ["cleanup.polcy=compact", "cleanup.policy=compacted"])
def test_a_setting_that_is_none_is_refused(topic: Cli, setting: str) -> None:
    """Else a topic that is compacted would be checked as one that is not."""
    outcome = topic.on("verify", "-o", setting)

    assert (outcome.code, outcome.out) == (2, "")
    assert setting.partition("=")[0] in outcome.err
