"""``tidelog cat --format arrow`` and ``parquet``, and ``--output``, for any form."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.arrow import file_bytes
from tidelog.arrow.schema import SCHEMA_WITH_HEADERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Any
    Run = Callable[..., "Printed"]

FORMS = ("arrow", "parquet")


class Printed(NamedTuple):
    """What a command printed as bytes, and how it ended."""

    code: int
    data: bytes


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Printed]:
    """Run a command of which standard output is not text."""

    def run(cli: Cli, *words: object) -> Printed:
        data = io.BytesIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", io.TextIOWrapper(data, write_through=True))
            return Printed(cli.on(*words).code, data.getvalue())

    return run


@pytest.fixture
def records(cli: Cli) -> Cli:
    """Topic t with six records in two partitions, one of them with headers, one without value."""
    return cli.made(make_records)


def make_records(cli: Cli) -> None:
    cli.on("create", "t", "-p", 2)
    for partition in (0, 1):
        lines = [
            {"key": "k", "value": "a", "timestamp": 10, "headers": [["h", "x"], ["h", "y"]]},
            {"key": None, "value": "", "timestamp": 20},
            {"key": "gone", "value": None, "timestamp": 30},
        ]
        given = "".join(json.dumps(one) + "\n" for one in lines)
        assert cli.on("append", "t", "-p", partition, "--format", "json", stdin=given).code == 0


def table_of(form: str, data: bytes) -> pa.Table:
    """Read a whole file; an error if it is not."""
    if form == "arrow":
        return pa.ipc.open_stream(data).read_all()
    return pq.read_table(io.BytesIO(data))


def rows_before_error(data: bytes) -> list[dict[str, Any]]:
    """Return the rows of a stream that ends with an error."""
    stream = pa.ipc.open_stream(data)
    rows: list[dict[str, Any]] = []
    with pytest.raises(pa.ArrowInvalid):
        rows.extend(row for batch in stream for row in batch.to_pylist())
    return rows


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_the_records_with_all_columns(
    records: Cli, tmp_path: Path, printed: Run, form: str
) -> None:
    """The same on standard output and in a file; the schema is that of tidelog.arrow."""
    target = tmp_path / "out"

    shown = printed(records, "cat", "t", "--format", form)
    assert records.on("cat", "t", "--format", form, "-o", target).code == 0

    assert shown == (0, target.read_bytes())
    table = table_of(form, target.read_bytes())
    assert table.schema.remove_metadata() == SCHEMA_WITH_HEADERS
    assert table["offset"].to_pylist() == [0, 1, 2] * 2
    assert table["partition"].to_pylist() == [0] * 3 + [1] * 3
    assert table["key"].to_pylist() == [b"k", None, b"gone"] * 2
    assert table["value"].to_pylist() == [b"a", b"", None] * 2
    headers = [{"key": "h", "value": b"x"}, {"key": "h", "value": b"y"}]
    assert table["headers"].to_pylist() == [headers, None, None] * 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        (["--from", 1], [1, 2]),
        (["--to", 1], [0]),
        (["-n", 2], [0, 1]),
        (["-n", 0], []),
        (["--last", 1], [2]),
        (["--since", 20, "--until", 30], [1]),
        (["--key", "gone"], [2]),
        (["--grep", "^a$"], [0]),
        (["--from", 9], []),
    ],
)
def test_records_are_chosen_as_in_other_forms(
    records: Cli, tmp_path: Path, form: str, words: list[object], offsets: list[int]
) -> None:
    """No record is a file without rows, which has the columns all the same."""
    target = tmp_path / "out"

    outcome = records.on("cat", "t", "-p", 1, *words, "--format", form, "-o", target)

    table = table_of(form, target.read_bytes())
    assert (outcome.code, outcome.out) == (0, "")
    assert table.schema.names == SCHEMA_WITH_HEADERS.names
    assert table["offset"].to_pylist() == offsets


def test_a_stream_that_damage_cuts_short_ends_with_an_error(torn: Cli, printed: Run) -> None:
    """Its reader gets what precedes the damage, and does not take that for all."""
    code, data = printed(torn, "cat", "t", "--format", "arrow")

    assert code == 1
    assert [row["value"] for row in rows_before_error(data)] == [b"a"]


def test_a_parquet_file_that_damage_cuts_short_is_not_one(torn: Cli, printed: Run) -> None:
    """The footer comes with the end only."""
    code, data = printed(torn, "cat", "t", "--format", "parquet")

    assert code == 1
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(io.BytesIO(data))


@pytest.mark.parametrize("form", [*FORMS, "json", "text", "csv"])
def test_what_precedes_damage_is_left_in_a_file_of_another_name(
    torn: Cli, tmp_path: Path, form: str
) -> None:
    """It is finished, so that it can be read, and the file that was asked for is not there."""
    target, left = tmp_path / "out", tmp_path / "out.incomplete"

    outcome = torn.on("cat", "t", "--format", form, "-o", target)

    assert outcome.code == 1
    assert f"tidelog cat: {left} holds what precedes the damage\n" in outcome.err
    assert outcome.err.count("\n") == 2
    assert sorted(one.name for one in tmp_path.glob("out*")) == ["out.incomplete"]
    if form in FORMS:
        assert table_of(form, left.read_bytes())["value"].to_pylist() == [b"a"]
    else:
        assert torn.on("cat", "t", "-n", 1, "--format", form).out.encode() == left.read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_a_file_past_damage_is_whole(torn: Cli, tmp_path: Path, form: str) -> None:
    """Who asks to skip damage gets a file of the rest, and what was skipped on standard error."""
    target = tmp_path / "out"

    outcome = torn.on("cat", "t", "--format", form, "--skip-damage", "-o", target)

    assert (outcome.code, outcome.err.count("skipped")) == (1, 1)
    assert table_of(form, target.read_bytes())["value"].to_pylist() == [b"a", b"c"]


@pytest.mark.parametrize("name", ["out", "out.incomplete"])
def test_a_file_is_replaced_only_if_asked_to(topic: Cli, tmp_path: Path, name: str) -> None:
    """Else nothing is written; --force alone is an error."""
    topic.append("a")
    target = tmp_path / "out"
    (tmp_path / name).write_text("precious")

    refused = topic.on("cat", "t", "--format", "text", "-o", target)

    assert (refused.code, (tmp_path / name).read_text()) == (2, "precious")
    assert f"{tmp_path / name} exists; --force replaces it" in refused.err
    assert topic.on("cat", "t", "--format", "text", "-o", target, "--force").code == 0
    assert target.read_text() == "a\n"
    assert topic.on("cat", "t", "--force").code == 2


def test_an_error_that_is_no_damage_leaves_no_file(topic: Cli, tmp_path: Path) -> None:
    """Such as a time that Arrow cannot count."""
    line = json.dumps({"value": "a", "timestamp": 2**63 - 1}) + "\n"
    topic.on("create", "u", "-o", f"message.timestamp.after.max.ms={2**63 - 1}")
    assert topic.on("append", "u", "--format", "json", stdin=line).code == 0

    outcome = topic.on("cat", "u", "--format", "arrow", "-o", tmp_path / "out")

    assert (outcome.code, list(tmp_path.glob("out*"))) == (3, [])
    assert "does not fit in microseconds" in outcome.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--follow", "--format", "parquet"], "--format parquet needs one"),
        (["--follow", "-o", "out"], "--output needs one"),
    ],
)
def test_what_never_ends_is_written_to_no_file(topic: Cli, words: list[str], text: str) -> None:
    """An error before anything is printed."""
    outcome = topic.on("cat", "t", *words)

    assert (outcome.code, outcome.out) == (2, "")
    assert text in outcome.err


def test_a_stream_follows_a_log(topic: Cli, printed: Run) -> None:
    """It ends with the last record that is wanted."""
    topic.append("a", "b")

    code, data = printed(topic, "cat", "t", "--format", "arrow", "--follow", "-n", 2)

    assert code == 0
    assert table_of("arrow", data)["value"].to_pylist() == [b"a", b"b"]


@pytest.mark.parametrize("form", FORMS)
def test_a_terminal_gets_no_bytes(topic: Cli, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """It would interpret them."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    outcome = topic.on("cat", "t", "--format", form)

    assert (outcome.code, outcome.out) == (2, "")
    assert f"--format {form} is not for a terminal: name a file with --output" in outcome.err


@pytest.mark.parametrize("form", FORMS)
def test_without_pyarrow_the_extra_is_named(
    topic: Cli, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Before anything is printed."""
    monkeypatch.delitem(sys.modules, file_bytes.__name__)
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    outcome = topic.on("cat", "t", "--format", form)

    assert (outcome.code, outcome.out) == (2, "")
    assert "pyarrow is not installed: install tidelog with its extra, tidelog[arrow]" in outcome.err


def test_a_parquet_file_keeps_few_rows_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups are written when they are full, and not sooner."""
    monkeypatch.setattr(file_bytes, "GROUP_ROWS", 4)
    batch = pa.record_batch({"n": pa.array([1, 2, 3])})
    form = file_bytes.ParquetBytes(batch.schema)

    pieces = [form.head(), *(form.rows(batch) for _ in range(5)), form.end()]

    assert [bool(piece) for piece in pieces] == [True, False, True, False, True, False, True]
    file = pq.ParquetFile(io.BytesIO(b"".join(pieces)))
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [6, 6, 3]


def test_a_stream_is_what_pyarrow_writes_and_shows_each_cut() -> None:
    """Cut anywhere before its end, it gives its batches and then an error."""
    batch = pa.record_batch({"n": pa.array([1, 2, 3])})
    form = file_bytes.StreamBytes(batch.schema)
    pieces = [form.head(), form.rows(batch), form.rows(batch)]
    written = b"".join([*pieces, form.end()])
    expected = io.BytesIO()
    with pa.ipc.new_stream(expected, batch.schema) as stream:
        stream.write_batch(batch)
        stream.write_batch(batch)

    assert written == expected.getvalue()
    for count in range(1, 4):
        assert len(rows_before_error(b"".join(pieces[:count]))) == 3 * (count - 1)
