"""``tidelog picture``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import fromstring

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any

BRIEF = """\
t-0: 2 offsets, 1 segment, 77 bytes
             0
segments    ├▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▶
             └ log start 0
                last stable offset, high watermark, log end, recovery point 2 ┘
checked: the end of each log, and that no segment is missing; batches and their
  checksums were not read: tidelog verify checks every byte
"""
EMPTY = """\
u-0: 0 offsets, 0 segments, 0 batches, 0 bytes
segments    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌▶
             └ log start, last stable offset, high watermark, log end 0
retention: would delete nothing, held by the active segment, which is empty
compaction: not compacted
"""


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no terminal of the machine decide."""
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def test_a_log_is_drawn_with_its_batches(topic: Cli) -> None:
    """Of 80 columns where there is no terminal, without colours."""
    topic.append("a", "b")

    code, drawn, errors = topic.on("picture", "--now", 0)

    assert (code, errors) == (0, "")
    lines = drawn.splitlines()
    assert lines[0].startswith("t-0: 2 offsets, 1 segment, 1 batch, 77 bytes; 2")
    assert lines[1:3] == BRIEF.splitlines()[1:3]
    assert lines[3] == "codecs       " + "N" * 66
    assert "codecs: n none (1 batch); in capitals: no other in the column" in lines
    assert lines[-2:] == ["retention: would delete nothing", "compaction: not compacted"]


def test_logs_are_separated_by_a_blank_line(topic: Cli) -> None:
    """In order; or only those that are named, or one partition directory."""
    topic.append("a", "b")
    topic.on("create", "u")

    both = topic.on("picture").out

    assert both == topic.on("picture", "u", "t").out
    assert both.endswith(f"\n\n{EMPTY}")
    assert topic.on("picture", "u").out == EMPTY
    assert topic("picture", topic.data / "u-0").out == EMPTY


def test_a_brief_picture_has_segments_and_offsets(topic: Cli) -> None:
    """No batches are read."""
    topic.append("a", "b")

    assert topic.on("picture", "--brief") == (0, BRIEF, "")


def test_the_width_can_be_chosen(topic: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """In columns, by an option or else by COLUMNS; at least 40."""
    topic.append("a")

    def width(*words: object) -> int:
        return max(len(line) for line in topic.on("picture", *words).out.splitlines())

    assert width("--width", 60) == 60
    monkeypatch.setenv("COLUMNS", "95")
    assert (width(), width("--width", 70), width("--width", 1)) == (95, 70, 40)
    monkeypatch.setenv("COLUMNS", "0")
    assert width() == 80


def test_ascii_is_enough(topic: Cli) -> None:
    """With --ascii nothing else is printed."""
    topic.append("a")

    assert topic.on("picture", "--ascii").out.isascii()
    assert not topic.on("picture").out.isascii()


def test_settings_and_time_decide_what_the_plans_take(topic: Cli) -> None:
    """As ``plan retention`` and ``plan compaction`` would, with -o and --now."""
    topic.append("a")
    topic.append("b")

    drawn = topic.on("picture", "-o", "retention.ms=1000", "--now", 4_000_000_000_000).out

    assert "\nretention    ━━━━" in drawn
    assert "retention: would delete 1 segment" in drawn


def test_an_invalid_setting_is_refused(topic: Cli) -> None:
    """Before anything is read."""
    outcome = topic.on("picture", "-o", "retention.ms=x")

    assert (outcome.code, outcome.out) == (2, "")


def test_json_has_what_is_drawn(topic: Cli) -> None:
    """The members of ``describe``, then those of the picture."""
    topic.append("a", "b")

    row = topic.on("picture", "--json").rows[0]

    described = topic.on("describe", "--json").rows[0]
    assert described == {name: row[name] for name in described}
    assert [span["codecs"] for span in row["batchSpans"]] == [{"none": 1}]
    assert (row["recoveryPoint"], row["tailBytes"], row["damagedRanges"]) == (2, 0, [])


def test_damage_ends_with_1(topic: Cli) -> None:
    """All logs are shown."""
    topic.append("a")
    topic.append("b")
    path = topic.log_file()
    path.write_bytes(path.read_bytes()[:-1] + b"X")
    topic.on("create", "u")
    (topic.data / "replication-offset-checkpoint").write_text("0\n2\nt 0 2\nu 0 0\n")

    outcome = topic.on("picture")

    assert outcome.code == 1
    assert "DAMAGED: offset 1 unreadable" in outcome.out
    assert EMPTY.splitlines()[1] in outcome.out


def test_an_svg_file_stands_alone(topic: Cli) -> None:
    """It is written whole, for all logs chosen; what was written is reported."""
    topic.append("a")
    topic.on("create", "u")
    path = topic.data.parent / "logs.svg"

    outcome = topic.on("picture", "--svg", path)

    data = path.read_bytes()
    assert outcome == (0, f"{path}: 2 logs, {len(data) / 1000:.1f} kB\n", "")
    texts = [each.text for each in fromstring(data).iter("{http://www.w3.org/2000/svg}text")]
    assert {"t-0", "u-0"} <= set(texts)
    assert sorted(os.listdir(path.parent)) == sorted([topic.data.name, path.name])


def test_a_file_is_replaced_only_on_request(topic: Cli, tmp_path: Path) -> None:
    """Without --force it stays as it is, before any log is read."""
    topic.append("a")
    path = tmp_path / "t.svg"
    path.write_text("mine")

    refused = topic.on("picture", "--svg", path)

    assert refused == (
        2,
        "",
        f"tidelog picture: {path} exists; --force replaces it\n",
    )
    assert path.read_text() == "mine"
    assert topic.on("picture", "--svg", path, "--force").code == 0
    assert path.read_text().startswith("<svg ")


def test_a_file_that_cannot_be_made_is_named_as_given(topic: Cli, tmp_path: Path) -> None:
    """Not as the temporary file by way of which it is written."""
    path = tmp_path / "missing" / "x.svg"

    outcome = topic.on("picture", "--svg", path)

    assert outcome.code == 2
    assert outcome.err == f"tidelog picture: {path}: No such file or directory\n"


def test_only_a_regular_file_is_replaced(topic: Cli, tmp_path: Path) -> None:
    """A directory, or a device, stays what it is, even with --force."""
    topic.append("a")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")

    for name in ("folder", "pipe"):
        assert topic.on("picture", "--svg", tmp_path / name, "--force").code in {2, 3}

    assert (tmp_path / "folder").is_dir()
    assert (tmp_path / "pipe").is_fifo()
    assert not list(tmp_path.glob("*.tmp"))


def test_a_link_keeps_pointing_at_what_is_written(topic: Cli, tmp_path: Path) -> None:
    """With --force the file behind it is replaced."""
    topic.append("a")
    (tmp_path / "real.svg").write_text("old")
    (tmp_path / "link.svg").symlink_to("real.svg")

    assert topic.on("picture", "--svg", tmp_path / "link.svg", "--force").code == 0

    assert (tmp_path / "link.svg").is_symlink()
    assert (tmp_path / "real.svg").read_text().startswith("<svg ")


def test_a_dash_is_standard_output(topic: Cli) -> None:
    """The file is printed, and nothing else."""
    topic.append("a")

    outcome = topic.on("picture", "--svg", "-")

    assert fromstring(outcome.out).tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize("words", [("--svg", "x", "--json"), ("--force",)])
def test_options_that_contradict_are_refused(topic: Cli, words: tuple[str, ...]) -> None:
    """Nothing is read or written."""
    assert topic.on("picture", *words).code == 2


def test_an_overview_has_a_strip_for_each_log(topic: Cli) -> None:
    """As text or as a drawing; the logs are drawn to one scale."""
    topic.append("a", "b")
    topic.on("create", "u")

    lines = topic.on("picture", "--overview", "--width", 50).out.splitlines()

    assert " ".join(lines[2:]).startswith("checked: the end of each log,")
    assert lines[:2] == [f"t-0 ├{'▒' * 31}▶   77 bytes", f"u-0 ├▶{' ' * 31}    0 bytes"]
    drawn = topic.on("picture", "--overview", "--svg", "-").out
    assert "77 bytes, 1 segment, offsets [0, 2)" in drawn


def test_an_svg_file_of_many_logs_is_an_overview(topic: Cli) -> None:
    """More than twelve are drawn without their batches."""
    topic.on("create", "many", "-p", 13)
    topic.append("a")

    drawn = topic.on("picture", "--svg", "-").out

    assert drawn.count('class="title ink"') == 1
    assert ">many-12<" in drawn
    assert "1 batch" not in drawn


def test_unreadable_notes_do_not_hide_the_log(topic: Cli) -> None:
    """A malformed checkpoint is reported, and the log is drawn without what it says."""
    topic.append("a")
    (topic.data / "cleaner-offset-checkpoint").write_text("x")

    outcome = topic.on("picture", "--json")

    assert outcome.rows[0]["recoveryPoint"] == 1
    assert "cleaner-offset-checkpoint" in outcome.err
