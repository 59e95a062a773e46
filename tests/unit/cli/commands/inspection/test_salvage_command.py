"""``tidelog salvage`` and what ``tidelog recover`` keeps for it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.embedded.doors import open_briefly
from tidelog.env.system_files import SystemFiles

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any


def cut_files(data: Path) -> list[Path]:
    """Return the files that keep what was cut."""
    return list(data.glob("tidelog.*.cut"))


def test_what_recover_cuts_can_be_listed_and_read(torn: Cli) -> None:
    """Listed with what is in it; its records have the form of ``cat``; exit 1: bytes were bad."""
    recovered = torn.on("recover", "--full", "--json").rows[0]
    (file,) = cut_files(torn.data)
    (row,) = torn.on("salvage", "--json").rows
    code, out, err = torn.on("salvage", "t", "--records")

    assert recovered["losses"][0]["keptIn"] == str(file)
    assert (row["topic"], row["partition"], row["file"]) == ("t", 0, str(file))
    assert (row["records"], row["firstOffset"], row["lastOffset"]) == (1, 2, 2)
    assert (row["fromOffset"], row["sourceByte"]) == (1, recovered["losses"][0]["byte"])
    assert code == 1
    assert '"offset": 2, ' in out
    assert '"value": "c"' in out
    assert f"bytes from byte 0 of {file.name}: the CRC of a batch is wrong" in err


def test_the_list_can_be_read(torn: Cli) -> None:
    """One line a file, of the topics and partitions that are chosen."""
    torn.on("recover", "--full")

    line = torn.on("salvage", "-p", 0).out

    assert line.startswith("t-0: cut at offset 1 on ")
    assert "1 readable record in" in line
    assert torn.on("salvage", "-p", 1).out == ""
    assert torn("salvage", "-d", torn.data / "t-0").out == line
    assert "nothing that was cut off" in torn.on("salvage", "other").err


def test_a_plan_keeps_nothing(torn: Cli) -> None:
    """It names the file that would be written."""
    row = torn.on("plan", "recovery", "--full", "--json").rows[0]

    assert row["losses"][0]["keptIn"].endswith(".1.cut")
    assert not cut_files(torn.data)


def test_nothing_is_kept_on_request(torn: Cli) -> None:
    """``--no-keep`` deletes, as Kafka does."""
    assert torn.on("recover", "--full", "--no-keep").code == 1
    assert not cut_files(torn.data)
    assert torn.values() == ["a"]


def test_without_space_recover_ends_with_3(torn: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut then, and the message says how to continue."""
    before = torn.log_file().read_bytes()
    real = SystemFiles.open

    def full(self: SystemFiles, path: str, mode: Any = "r") -> Any:
        if path.endswith(".cut"):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return real(self, path, mode)

    with monkeypatch.context() as patched:
        patched.setattr(SystemFiles, "open", full)
        code, _, err = torn.on("recover", "--full")

    assert code == 3
    assert "--no-keep" in err
    assert torn.log_file().read_bytes() == before
    assert torn.on("recover", "--full").code == 1


def test_a_file_of_a_newer_release_is_refused(torn: Cli) -> None:
    """The others are listed; exit code 3."""
    torn.on("recover", "--full")
    (file,) = cut_files(torn.data)
    data = bytearray(file.read_bytes())
    data[-9] = 2
    file.with_name(file.name.replace(".1.cut", ".2.cut")).write_bytes(data)

    code, out, err = torn.on("salvage")

    assert code == 3
    assert out.count("\n") == 1
    assert "has version 2; this release reads up to 1" in err


def test_other_commands_do_not_mind_cut_files(torn: Cli) -> None:
    """They are the directory's own."""
    torn.on("recover", "--full")

    assert torn.on("verify").code == 0
    assert ".cut" not in torn.on("verify").out
    assert torn.on("describe").code == 0


def test_a_plan_names_what_is_lost(torn: Cli) -> None:
    """Offsets first and last, what readers saw, missing partitions; exit code 1."""
    (torn.data / "replication-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    (row,) = torn.on("plan", "recovery", "--full", "--json").rows
    text = torn.on("plan", "recovery", "--full").out

    assert (row["firstLostOffset"], row["lastLostOffset"], row["highWatermark"]) == (1, 2, 3)
    assert "offsets 1 to 2 would be lost: 1 readable record; readers have seen" in text


def test_a_plan_names_bytes_that_it_does_not_check(topic: Cli) -> None:
    """What was flushed is believed, and ``--full`` looks there."""
    topic.append("a")

    assert "below the recovery point not checked (--full checks them)" in (
        topic.on("plan", "recovery").out
    )
    assert "not checked" not in topic.on("plan", "recovery", "--full").out


def test_a_full_plan_does_not_advise_itself(cli: Cli) -> None:
    """Segments after the cut are not checked by a full recovery either: they are removed."""
    small = ("-o", "internal.segment.bytes=100", "-o", "retention.ms=-1")
    assert cli.on("create", "t", *small).code == 0
    for value in ("a", "b", "c"):
        cli.append(value)
    data = bytearray(cli.log_file().read_bytes())
    data[-1] ^= 1
    cli.log_file().write_bytes(data)

    plan = cli.on("plan", "recovery", "--full")

    assert plan.code == 1
    assert "2 segments would be removed" in plan.out
    assert "--full checks them" not in plan.out


def test_a_missing_partition_is_a_loss(topic: Cli) -> None:
    """The catalogue lists it; the others are recovered."""
    assert topic.on("create", "u").code == 0
    for path in (topic.data / "u-0").iterdir():
        path.unlink()
    (topic.data / "u-0").rmdir()

    for words in (["plan", "recovery"], ["recover"]):
        code, out, err = topic.on(*words)
        assert code == 1
        assert out.startswith("t-0: ")
        assert "u-0 is listed in tidelog.topics.json, but its directory is missing" in err
    assert topic.on("recover", "u").code == 1


def test_cat_skips_damage_on_request(torn: Cli) -> None:
    """One line on stderr names what is skipped; exit code 1."""
    (torn.data / "replication-offset-checkpoint").unlink()
    code, _, err = torn.on("cat", "t", "--skip-damage")

    assert code == 1
    assert torn.values("--skip-damage") == ["a", "c"]
    assert "offset 1: the CRC of a batch is wrong" in err
    assert torn.on("cat", "t", "--skip-damage", "--follow").code == 2


def without_middle_segment(topic: Cli) -> Cli:
    """Leave a log of three segments, of which the middle one is gone."""
    assert topic.on("create", "m", "-o", "segment.bytes=1048576").code == 0
    for value in ("a", "b", "c"):
        topic.append(value * 600_000, topic="m")
    (topic.data / "m-0" / f"{1:020d}.log").unlink()
    return topic


def test_a_missing_segment_is_a_loss_to_cat_and_recover(topic: Cli) -> None:
    """A read over the hole names it; so do recovery and its plan; exit code 1."""
    topic = without_middle_segment(topic)

    code, out, err = topic.on("cat", "m")
    assert (code, out.count("\n")) == (1, 2)
    assert "m-0: no segment holds offset 1: a file seems to be lost" in err
    assert topic.on("cat", "m", "--from", 2).code == 0
    plan = topic.on("plan", "recovery", "m")
    assert plan.code == 1
    assert "no segment holds offset 1" in plan.out
    recovered = topic.on("recover", "m", "--json")
    assert recovered.code == 1
    assert recovered.rows[0]["holes"] == [{"startOffset": 1, "endOffset": 2}]


@pytest.mark.parametrize(
    "words", [["cat", "u"], ["offsets"], ["describe"], ["plan", "retention"], ["cleaner", "status"]]
)
def test_every_look_names_a_missing_partition(topic: Cli, words: list[str]) -> None:
    """The catalogue lists it; exit code 1, whatever else is there."""
    assert topic.on("create", "u", "--partitions", 2).code == 0
    for path in (topic.data / "u-0").iterdir():
        path.unlink()
    (topic.data / "u-0").rmdir()

    outcome = topic.on(*words)

    assert outcome.code == 1
    assert "u-0 is listed in tidelog.topics.json, but its directory is missing" in outcome.err


HOLE = "no segment holds offset 1: a file seems to be lost"


@pytest.mark.parametrize("words", [["describe", "m"], ["picture", "m"], ["offsets", "m"]], ids=str)
def test_every_look_names_a_missing_segment(topic: Cli, words: list[str]) -> None:
    """Without reading records; exit code 1."""
    outcome = without_middle_segment(topic).on(*words)

    assert outcome.code == 1
    assert HOLE in outcome.out + outcome.err


def test_the_facts_of_a_log_name_its_holes(topic: Cli) -> None:
    """As JSON, with an exclusive end."""
    (row,) = without_middle_segment(topic).on("describe", "m", "--json").rows

    assert row["holes"] == [{"startOffset": 1, "endOffset": 2, "mayBeCompacted": False}]


def test_a_plan_beside_a_writer_names_a_missing_segment(topic: Cli) -> None:
    """It reads the log instead of loading it."""
    topic = without_middle_segment(topic)
    with open_briefly(topic.data):
        code, out, err = topic.on("plan", "recovery", "m")

    assert code == 1
    assert HOLE in out
    assert "another process is writing" in err


def test_holes_that_compaction_leaves_are_not_losses(topic: Cli) -> None:
    """Those of a compacted topic, and those below the cleaner's checkpoint."""
    topic = without_middle_segment(topic)
    (topic.data / "cleaner-offset-checkpoint").write_text("0\n1\nm 0 2\n")
    looks = [["describe", "m"], ["offsets", "m"], ["cat", "m"], ["plan", "recovery", "m"]]

    assert [topic.on(*words).code for words in looks] == [0, 0, 0, 0]
    (topic.data / "cleaner-offset-checkpoint").write_text("0\n0\n")
    assert [topic.on(*words).code for words in looks] == [1, 1, 1, 1]
    assert topic.on("alter", "m", "-o", "cleanup.policy=compact").code == 0
    assert [topic.on(*words).code for words in looks] == [0, 0, 0, 0]


def test_a_hole_in_a_copied_partition_may_be_compacted(topic: Cli) -> None:
    """Nothing beside it shows the policy of its topic; the message names that cause too."""
    topic = without_middle_segment(topic)
    for name in ("tidelog.topics.json", "cleaner-offset-checkpoint"):
        (topic.data / name).unlink(missing_ok=True)

    outcome = topic.on("offsets", "m")

    assert outcome.code == 1
    assert f"{HOLE}, unless the topic is compacted" in outcome.err


def test_recovery_and_its_plan_end_with_the_same_code(torn: Cli) -> None:
    """1 where records are cut, and 0 once the log is whole again."""
    assert torn.on("plan", "recovery", "--full").code == 1
    assert torn.on("recover", "--full").code == 1
    assert torn.on("plan", "recovery", "--full").code == 0
    assert torn.on("recover", "--full").code == 0


def test_a_file_that_cannot_be_opened_does_not_hide_the_others(torn: Cli) -> None:
    """As a link to itself; a link to nothing is not a file. Exit code 3."""
    torn.on("recover", "--full")
    (file,) = cut_files(torn.data)
    for number, target in ((2, file.name.replace(".1.cut", ".2.cut")), (3, "missing")):
        file.with_name(file.name.replace(".1.cut", f".{number}.cut")).symlink_to(target)

    code, out, err = torn.on("salvage")

    assert (code, out.count("\n")) == (3, 1)
    assert "Too many levels of symbolic links" in err
