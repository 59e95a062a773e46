"""Pictures of logs that Kafka wrote, held against what Kafka says of their bytes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.golden.conftest import of_some_partitions
from tests.machinery.picture_rules import (
    SVG,
    check_picture,
    check_svg,
    check_text,
    has,
    place_of,
)

from tidelog.cli.main import main
from tidelog.codec.checkpoint_file import (
    LEADER_EPOCH_FILE,
    read_checkpoint,
    read_leader_epochs,
)
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.explain.describe import describe_log
from tidelog.explain.pictures.svg_picture import PLOT_LEFT, PLOT_WIDTH
from tidelog.explain.pictures.take_picture import take_picture
from tidelog.readonly.read_only_log import open_read_only

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.golden.conftest import Partition

    from tidelog.explain.pictures.log_picture import LogPicture

    Row = dict[str, Any]

OPEN = re.compile(r"producerId: (\d+) producerEpoch: (\d+) .*OptionalLong\[(\d+)\]")
ABORTED = re.compile(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+)")
ROUNDING = 0.011
"""Coordinates have two decimals."""


def picture_of(partition: Partition) -> LogPicture:
    """Return the picture of a partition, without plans."""
    path = str(partition.directory)
    return take_picture(
        lambda on_damage: open_read_only(path, fs=SYSTEM_FILES, on_damage=on_damage), describe_log
    )


def axis(partition: Partition) -> dict[str, int]:
    """Return where each file begins on the axis."""
    starts, position = {}, 0
    for name, data in partition.contents(".log").items():
        starts[name] = position
        position += len(data)
    return starts


def batches_shown(partition: Partition) -> list[Row]:
    """Return the batches of Kafka's listing that lie between log start and log end."""
    start = partition.state["logStartOffset"]
    return [row for row in partition.batches if row["lastOffset"] >= start and row["valid"]]


def test_each_leader_epoch_is_drawn_where_the_broker_noted_it(partition: Partition) -> None:
    """Those that have offsets in the log, beginning at the log start."""
    path = str(partition.directory / LEADER_EPOCH_FILE)
    noted = read_leader_epochs(SYSTEM_FILES, path)
    start, end = (partition.state[name] for name in ("logStartOffset", "logEndOffset"))
    held = [(epoch, max(first, start)) for epoch, first in noted if first < end]
    expected = {first: (epoch, first, 1) for epoch, first in held}

    picture = picture_of(partition)

    drawn = [(one.leader_epoch, one.start_offset, one.epochs) for one in picture.epochs]
    assert list(expected.values()) == drawn
    ticks = [
        title.text or ""
        for title in check_svg(picture).iter(f"{SVG}title")
        if (title.text or "").startswith("leader epoch ")
    ]
    assert len(ticks) == len(picture.shown_epochs)


def test_each_batch_is_drawn_where_kafka_finds_it(partition: Partition) -> None:
    """With its offsets, bytes, codec and producer; a marker counts as such."""
    starts, rows = axis(partition), batches_shown(partition)

    picture = picture_of(partition)

    assert len(rows) == len(picture.spans)
    assert [
        (starts[row["file"]] + row["position"], row["size"], row["lastOffset"] + 1) for row in rows
    ] == [(span.position, span.size_bytes, span.end_offset) for span in picture.spans]
    assert [
        (
            {row["compression"]: 1},
            {row["producerId"]: 1} if row["producerId"] >= 0 else {},
            int(row["control"]),
            int(row["transactional"] and not row["control"]),
        )
        for row in rows
    ] == [(span.codecs, span.producers, span.markers, span.transactional) for span in picture.spans]
    modern = [n for n, row in enumerate(rows) if row["magic"] == 2]
    assert [rows[n]["baseOffset"] for n in modern] == [
        picture.spans[n].start_offset for n in modern
    ]


@of_some_partitions
def test_every_form_of_a_picture_keeps_the_rules(partition: Partition) -> None:
    """Text keeps to any width, the drawing is well-formed and to scale."""
    picture = picture_of(partition)

    check_picture(picture)
    for width in (40, 57, 80, 200):
        check_text(picture, width, is_ascii=width == 57)
    check_svg(picture)


@pytest.mark.parametrize("number", [0, 1])
def test_the_picture_of_a_transaction_topic_is_right_to_the_offset(
    number: int, named_partition: Callable[[str, str], Partition]
) -> None:
    """Transactions are those of Kafka's indexes and snapshot, marks those of its checkpoints."""
    partition = named_partition("transactions", f"txn-mix-{number}")
    dumps = sorted(partition.directory.parent.glob(f"dump/{partition.name}.*"))
    snapshot = [path for path in dumps if path.name.endswith("snapshot.txt")][-1]
    aborted = {
        tuple(map(int, found))
        for path in dumps
        if path.name.endswith("txnindex.txt")
        for found in ABORTED.findall(path.read_text("utf-8"))
    }
    opened = [tuple(map(int, found)) for found in OPEN.findall(snapshot.read_text("utf-8"))]
    state = partition.state

    picture = picture_of(partition)

    assert len(aborted) >= 10
    assert aborted == {
        (txn.producer_id, txn.first_offset, txn.last_offset)
        for txn in picture.transactions
        if not txn.is_open
    }
    assert opened == [
        (txn.producer_id, txn.producer_epoch, txn.first_offset)
        for txn in picture.transactions
        if txn.is_open
    ]
    assert (picture.aborted, picture.opened) == (len(aborted), 1)
    assert {name: mark.offset for mark in picture.marks for name in mark.names} == {
        "log start": state["logStartOffset"],
        "last stable offset": opened[0][2],
        "high watermark": state["highWatermark"],
        "log end": state["logEndOffset"],
    }


@pytest.mark.parametrize("number", [0, 1])
def test_transactions_are_drawn_from_their_first_byte_to_the_marker(
    number: int, named_partition: Callable[[str, str], Partition]
) -> None:
    """To a hundredth of a unit; the mark of the last stable offset is where its batch begins."""
    partition = named_partition("transactions", f"txn-mix-{number}")
    starts, rows = axis(partition), partition.batches
    picture = picture_of(partition)
    begins = {row["baseOffset"]: starts[row["file"]] + row["position"] for row in rows}
    ends = {
        row["lastOffset"]: begins[row["baseOffset"]] + row["size"]
        for row in rows  # of magic 2
    }

    root = check_svg(picture)

    def x(position: int) -> float:
        return PLOT_LEFT + PLOT_WIDTH * position / picture.total_bytes

    drawn: dict[tuple[bool, float], float] = {}
    for element in root.iter(f"{SVG}rect"):
        if has(element, "txn-"):
            left, width = place_of(element)
            drawn[has(element, "txn-open"), round(left, 1)] = left + width
    expected = {
        (txn.is_open, round(x(begins[txn.first_offset]), 1)): x(
            picture.total_bytes if txn.last_offset is None else ends[txn.last_offset]
        )
        for txn in picture.transactions
    }
    assert len(expected) == len(picture.transactions) == len(drawn)
    assert drawn == pytest.approx(expected, abs=2 * ROUNDING)
    stable = picture.facts.last_stable_offset
    lines = [
        float(element.attrib["d"][1:].split()[0])
        for element in root.iter(f"{SVG}path")
        if has(element, "m-stable")
    ]
    assert lines == pytest.approx([x(begins[stable])] * len(lines), abs=ROUNDING)
    assert len(lines) == 2


def test_the_recovery_point_is_that_of_the_checkpoint(
    named_partition: Callable[[str, str], Partition], capsys: pytest.CaptureFixture[str]
) -> None:
    """It comes from Kafka's file, as the other offsets that are pointed at."""
    above = named_partition("transactions", "txn-mix-0").directory.parent
    lines = read_checkpoint(SYSTEM_FILES, str(above / "recovery-point-offset-checkpoint"))

    assert main(["picture", "--json", "-d", str(above)]) == 0

    *rows, _counts = map(json.loads, capsys.readouterr().out.splitlines())
    assert lines == {(row["topic"], row["partition"]): row["recoveryPoint"] for row in rows}


@pytest.mark.parametrize("case", ["flip-middle", "flip-old", "garbage-tail", "segment-missing"])
def test_damage_is_drawn_and_what_lies_behind_it(
    case: str, named_partition: Callable[[str, str], Partition]
) -> None:
    """All batches around the damaged bytes are drawn."""
    partition = named_partition(f"crash/{case}/before", f"dmg-{case}-0")

    picture = picture_of(partition)

    check_picture(picture)
    check_svg(picture)
    drawn = check_text(picture, 80)
    shown = sum(span.size_bytes for span in picture.spans)
    bad = sum(span.size_bytes for span in picture.damaged)
    assert shown + bad + picture.tail_bytes == picture.total_bytes
    assert (case == "segment-missing") != bool(bad + picture.tail_bytes)
    words = {"garbage-tail": "UNFINISHED", "segment-missing": "2026"}
    assert words.get(case, "DAMAGED: offsets") in drawn
