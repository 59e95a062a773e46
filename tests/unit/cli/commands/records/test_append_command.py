"""``tidelog append``."""

from __future__ import annotations

import errno
import json
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tidelog.codec.uuid_text import format_uuid
from tidelog.embedded.busy_directory import BusyWriter
from tidelog.env.system_files import SystemFile
from tidelog.staging.bundle import BundleWriter
from tidelog.staging.staged_folder import LocalFile

if TYPE_CHECKING:
    from pathlib import Path

    Cli = Any


def records(cli: Cli, *words: object) -> list[dict[str, Any]]:
    """Return the records that ``cat`` prints, with bytes as base64."""
    rows: list[dict[str, Any]] = cli.on("cat", "t", "--encoding", "base64", *words).rows
    return rows


def raw_values(cli: Cli) -> list[bytes]:
    """Return the values appended, as bytes."""
    from base64 import b64decode

    return [b64decode(row["value"]) for row in records(cli)]


# Lines


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\r\r\nb\r", [b"a\r", b"b\r"]),
        (b"\n\na\n\n", [b"", b"", b"a", b""]),
        ("☃ü\n".encode(), ["☃ü".encode()]),
        (b"\xff\x00\xfe\n\x80", [b"\xff\x00\xfe", b"\x80"]),
        (b" a \n\ta\t\n", [b" a ", b"\ta\t"]),
        (b"\xef\xbb\xbfa\n", [b"\xef\xbb\xbfa"]),
        (b"x" * 500_000 + b"\ny\n", [b"x" * 500_000, b"y"]),
    ],
)
@pytest.mark.parametrize("source", ["stdin", "dash", "file"])
def test_each_line_is_a_value(
    topic: Cli, tmp_path: Path, source: str, given: bytes, values: list[bytes]
) -> None:
    """Its bytes without the line end; an empty line is an empty value. From a file or stdin."""
    words: list[object] = ["append", "t", "--format", "text"]
    if source == "file":
        (tmp_path / "input").write_bytes(given)
        outcome = topic.on(*words, tmp_path / "input")
    else:
        outcome = topic.on(*words, *(["-"] if source == "dash" else []), stdin=given)

    said = f"{len(values)} record{'s' * (len(values) != 1)} appended to t, each line as text\n"
    assert (0, said) == outcome[:2]
    assert values == raw_values(topic)
    assert {None} >= {row["key"] for row in records(topic)}


@pytest.mark.parametrize(("encoding", "text"), [("base64", "/wA="), ("hex", "ff00")])
def test_a_line_may_be_encoded(topic: Cli, encoding: str, text: str) -> None:
    """The value is the decoded bytes."""
    code = topic.on("append", "t", "--format", "text", "--encoding", encoding, stdin=text).code

    assert (code, raw_values(topic)) == (0, [b"\xff\x00"])


def test_a_line_that_does_not_decode_is_wrong_usage(topic: Cli) -> None:
    """The error names its number; the lines before it are appended."""
    outcome = topic.on(
        "append", "t", "--format", "text", "--encoding", "hex", stdin="61\n\n62\nüü\n63\n"
    )

    assert outcome.code == 2
    assert "tidelog append: line 4: " in outcome.err
    assert raw_values(topic) == [b"a", b"", b"b"]


# JSON


def test_each_line_is_a_record(topic: Cli) -> None:
    """With key, value, headers and timestamp; blank lines are ignored."""
    lines = [
        {"key": "k", "value": "v", "headers": [["h", "ü"], ["n", None]], "timestamp": 5},
        {"value": None},
        {},
    ]
    text = "\r\n\n".join(json.dumps(line) for line in lines) + "\n \n"
    outcome = topic.on("append", "t", "--format", "json", stdin=text)
    rows = topic.on("cat", "t").rows

    assert (outcome.code, len(rows)) == (0, 3)
    wanted = ("key", "value", "headers", "timestamp")
    assert [rows[0][name] for name in wanted] == ["k", "v", [["h", "ü"], ["n", None]], 5]
    assert [[row["key"], row["value"]] for row in rows[1:]] == [[None, None]] * 2


def test_what_cat_prints_can_be_appended_again(topic: Cli) -> None:
    """Its lines are records; offset, epoch and topic are the log's own."""
    topic.on("append", "t", "--format", "text", stdin=b"\xff\n\x00a\n")
    wanted = ("key", "value", "headers", "timestamp", "partition")
    lines = topic.on("cat", "t", "--encoding", "base64").out
    topic.on("append", "t", "--format", "json", "--encoding", "base64", stdin=lines)

    rows = records(topic)
    assert [[row[name] for name in wanted] for row in rows[:2]] == [
        [row[name] for name in wanted] for row in rows[2:]
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "not JSON"),
        ('{"value": 5}', "not a string or null"),
        ('{"colour": "red"}', "unknown member colour"),
        ('{"value": "a", "Key": "k", "offsets": 1}', "unknown member Key, offsets"),
        ('{"partition": 1}', "no partition t-1"),
        ('{"timestamp": 99999999999999}', "timestamp 99999999999999 is outside"),
    ],
)
def test_a_bad_line_stops_there(topic: Cli, line: str, why: str) -> None:
    """Exit code 2, its number and the reason; the lines before it are appended, none after it."""
    outcome = topic.on(
        "append", "t", "--format", "json", stdin=f'{{"value":"a"}}\n{line}\n{{"value":"b"}}\n'
    )

    assert outcome[:2] == (2, "1 record appended to t, each line as JSON\n")
    assert "tidelog append: line 2: " in outcome.err
    assert why in outcome.err
    assert raw_values(topic) == [b"a"]


def test_a_bad_line_of_a_file_is_reported_with_the_file(topic: Cli, tmp_path: Path) -> None:
    """The file and the line, as compilers report them."""
    path = tmp_path / "input"
    path.write_text('{"value": 5}\n')

    outcome = topic.on("append", "t", "--format", "json", path)

    text = "the value is not a string or null; with --encoding json it may be any JSON"
    assert outcome.err == f"tidelog append: {path}, line 1: {text}\n"


def test_a_record_the_topic_refuses_is_a_bad_line(cli: Cli) -> None:
    """Such as one without a key, for a compacted topic."""
    cli.on("create", "t", "-o", "cleanup.policy=compact")
    lines = '{"key":"k"}\n{"value":"a"}\n'
    outcome = cli.on("append", "t", "--format", "json", stdin=lines)

    assert outcome.code == 2
    assert "line 2: the record has no key, but the topic is compacted" in outcome.err
    assert len(records(cli)) == 1


@pytest.mark.parametrize("source", ["file", "stdin"])
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_topic_of_unknown_policy_gets_all_of_an_input_or_nothing(
    cli: Cli, tmp_path: Path, source: str, is_busy: bool
) -> None:
    """Records without a key wait for a policy; then the same command appends all."""
    cli.on("create", "t")
    (cli.data / "tidelog.topics.json").unlink()  # as a broker leaves a directory
    text = '{"key":"k","value":"a"}\n\n{"value":"b"}\n'
    (tmp_path / "input").write_text(text)
    words = ["append", "t", "--format", "json", *([tmp_path / "input"] * (source == "file"))]
    stdin = text if source == "stdin" else ""

    with tidelog.open(cli.data) if is_busy else nullcontext():
        refused, before = cli.on(*words, stdin=stdin), records(cli)
    cli.on("alter", "t", "-o", "cleanup.policy=delete")
    accepted = cli.on(*words, stdin=stdin)

    assert (refused.code, refused.out, before) == (2, "", [])
    assert "line 3: the record has no key, and cleanup.policy of t is unknown" in refused.err
    assert (accepted.code, raw_values(cli)) == (0, [b"a", b"b"])


def test_a_text_without_keys_is_refused_at_its_first_line(cli: Cli) -> None:
    """For a topic whose policy is unknown: nothing was appended."""
    cli.on("create", "t", "-p", "3")
    (cli.data / "tidelog.topics.json").unlink()

    outcome = cli.on("append", "t", stdin="a\nb\n")

    assert outcome.code == 2
    assert "line 1: the record has no key" in outcome.err
    assert "set it with tidelog alter TOPIC -o cleanup.policy=" in outcome.err
    assert records(cli) == []


# Which of the two


@pytest.mark.parametrize(
    "line",
    ['{"value":"a"}', '{"key":"a"}', '{"value": 5, "sensor": 1}', '{"colour":"red"}', "{}", "[1]"],
)
def test_a_line_is_text_unless_it_is_said_to_be_json(topic: Cli, line: str) -> None:
    """What sensors send may have members of a record too: nothing is guessed."""
    outcome = topic.on("append", "t", stdin=line + "\n")

    assert outcome[:2] == (0, "1 record appended to t, each line as text\n")
    assert topic.values() == [line]


@pytest.mark.parametrize(
    ("line", "is_record"), [('{"value":"a"}', True), ('{"colour":"red"}', False), ("a", False)]
)
def test_records_taken_as_text_are_pointed_out(topic: Cli, line: str, is_record: bool) -> None:
    """Such as what cat prints, piped in without the option."""
    outcome = topic.on("append", "t", stdin=line + "\n")

    assert ("--format json" in outcome.err) is is_record


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_without_end_is_refused_before_memory_is_full(
    topic: Cli, form: str, tmp_path: Path
) -> None:
    """It is measured against max.message.bytes as it arrives; the lines before it are appended."""
    path = tmp_path / "input"
    good = '{"value":"a"}\n'
    path.write_bytes(good.encode() + b"x" * (4 << 20))

    outcome = topic.on("append", "t", path, "--format", form, "-o", "max.message.bytes=1000")

    name = "JSON" if form == "json" else form
    assert outcome[:2] == (2, f"1 record appended to t, each line as {name}\n")
    assert f"{path}, line 2: longer than any record that the topic takes" in outcome.err


# Where to


def test_an_unknown_topic_is_not_created(topic: Cli) -> None:
    """The error gives the command that creates it."""
    outcome = topic.on("append", "u", stdin="a\n")

    assert outcome[:2] == (2, "")
    assert f"create it with: tidelog create u -d {topic.data}" in outcome.err


def test_an_unknown_directory_is_not_created(cli: Cli) -> None:
    """A mistyped name must not create a directory."""
    outcome = cli.on("append", "t", stdin="a\n")

    assert outcome[:2] == (2, "")
    assert "tidelog create t -d" in outcome.err
    assert not cli.data.exists()


def test_one_partition_can_be_chosen(cli: Cli) -> None:
    """``--partition`` overrides keys and the partitions that records name."""
    cli.on("create", "t", "-p", 3)
    given = '{"key":"a"}\n{"partition":0}\n{}\n'
    outcome = cli.on("append", "t", "--format", "json", "--partition", 2, stdin=given)

    assert outcome.code == 0
    assert [row["partition"] for row in records(cli)] == [2, 2, 2]


def test_a_partition_that_is_not_there_is_wrong_usage(topic: Cli) -> None:
    """Nothing is appended."""
    outcome = topic.on("append", "t", "-p", 1, stdin="a\n")

    assert outcome[:2] == (2, "")
    assert "has no partition 1" in outcome.err


def test_keys_are_spread_as_kafkas_producers_do(cli: Cli) -> None:
    """By murmur2."""
    from tidelog.records.partitioner import partition_for_key

    cli.on("create", "t", "-p", 4)
    keys = [f"key-{number}" for number in range(20)]
    lines = "".join(f'{{"key":"{key}"}}\n' for key in keys)
    cli.on("append", "t", "--format", "json", stdin=lines)

    found = {row["key"]: row["partition"] for row in cli.on("cat", "t").rows}
    assert {key: partition_for_key(key.encode(), 4) for key in keys} == found


# How


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(topic: Cli, codec: str) -> None:
    """One batch holds many lines, compressed with the codec."""
    topic.on("append", "t", "--compression", codec, stdin="the same\n" * 50)

    rows = topic("dump", topic.log_file()).rows
    assert [(codec, 50)] == [(row["compression"], row["count"]) for row in rows]
    assert topic.values() == ["the same"] * 50


def test_settings_hold_for_one_run_and_go_before_the_topics(cli: Cli) -> None:
    """``-o`` overrides the topic's own setting; it is not stored."""
    cli.on("create", "t", "-o", "compression.type=gzip")
    cli.on("append", "t", "-o", "compression.type=zstd", stdin="a\n")
    cli.on("append", "t", stdin="b\n")

    rows = cli("dump", cli.log_file()).rows
    assert [row["compression"] for row in rows] == ["zstd", "gzip"]


def test_a_bad_setting_is_wrong_usage(topic: Cli) -> None:
    """Nothing is appended."""
    outcome = topic.on("append", "t", "-o", "retention.years=1", stdin="a\n")

    assert outcome[:2] == (2, "")
    assert "retention.years" in outcome.err
    assert topic.values() == []


def test_an_input_that_is_not_there_is_wrong_usage(topic: Cli, tmp_path: Path) -> None:
    """A missing file, or a directory."""
    for path in (tmp_path / "none", tmp_path):
        outcome = topic.on("append", "t", path)

        assert outcome[:2] == (2, "")
        assert str(path) in outcome.err
    hint = "hello: No such file or directory; without FILE, records are read from standard input"
    assert hint in topic.on("append", "t", "hello").err


def test_what_is_appended_is_durable_and_clean(topic: Cli) -> None:
    """The directory is left as after an orderly shutdown, and unlocked."""
    topic.append("a")

    assert (topic.data / ".kafka_cleanshutdown").exists()
    assert not (topic.data / ".lock").exists()
    assert "t 0 1" in (topic.data / "recovery-point-offset-checkpoint").read_text()


def test_records_of_a_slow_pipe_are_soon_seen(topic: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are durable and below the high watermark while the command waits for the next line."""
    import os
    import sys

    reading, writing = os.pipe()
    seen: list[object] = []

    def look() -> None:
        seen.extend(topic.data.joinpath("replication-offset-checkpoint").read_text().split()[2:])
        os.close(writing)

    from tidelog.cli import lingering_lines as lines

    class Watched(lines.LingeringLines):
        """Flushes at once, then looks."""

        def __init__(self, stream: Any, flush: Any, clock: Any, **how: Any) -> None:
            def flush_and_look() -> None:
                flush()
                look()

            super().__init__(stream, flush_and_look, clock, **how, linger_ms=0)

    monkeypatch.setattr(lines, "LingeringLines", Watched)
    os.write(writing, b"a\n")
    with os.fdopen(reading, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stream}))
        from tidelog.cli.main import main

        code = main(["append", "t", "-d", str(topic.data)])

    assert (code, seen) == (0, ["t", "0", "1"])


def test_a_killed_append_is_seen_in_no_partition_beyond_what_was_flushed(cli: Cli) -> None:
    """Even in one that had no records before: its high watermark is checkpointed first."""
    cli.on("create", "t", "-p", 3)
    cli.on("append", "t", "-p", 1, stdin="a\n")
    cli.on("append", "t", stdin="b\n")

    lines = (cli.data / "replication-offset-checkpoint").read_text().splitlines()[2:]

    assert sorted(lines) == ["t 0 1", "t 1 1", "t 2 0"]


def test_append_works_beside_a_service(topic: Cli, tmp_path: Path) -> None:
    """A file, a pipe, and an input with an id: the service commits them, each once."""
    lines = tmp_path / "lines"
    lines.write_bytes(b"a\nb\n")
    with tidelog.open(topic.data, log_cleaner_enable=False) as logs:
        outcomes = [
            topic.on("append", "t", lines),
            topic.on("append", "t", stdin=b"c\n"),
            topic.on("append", "t", lines, "--txn", "one"),
            topic.on("append", "t", lines, "--txn", "one"),
            topic.on("append", "t", lines, "-p", "9"),
            topic.on("append", "no", lines),
        ]
        found = [record.value for record in logs.read("t", 0)]

    assert [one.code for one in outcomes] == [0, 0, 0, 0, 2, 2]
    assert outcomes[0].out == "2 records appended to t, each line as text\n"
    assert "nothing appended: one was committed at" in outcomes[3].out
    assert found == [b"a", b"b", b"c", b"a", b"b"]


def test_a_bad_line_beside_a_service_stops_there(topic: Cli) -> None:
    """The lines before it are appended; with an id none is."""
    lines = b'{"value": "a"}\n{"value": 1}\n'
    with tidelog.open(topic.data, log_cleaner_enable=False) as logs:
        outcomes = [
            topic.on("append", "t", "--format", "json", stdin=lines),
            topic.on("append", "t", "--format", "json", "--txn", "one", stdin=lines),
        ]
        found = [record.value for record in logs.read("t", 0)]

    assert [one.code for one in outcomes] == [2, 2]
    assert outcomes[0].out == "1 record appended to t, each line as JSON\n"
    assert found == [b"a"]
    assert [one.name for one in topic.data.glob("tidelog.*.staged")] == []


def test_after_a_part_of_the_input_the_way_without_parts_is_named(
    topic: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records appended before the disk was full stay."""
    lines = tmp_path / "lines"
    lines.write_bytes((b"x" * 20_000 + b"\n") * 200)
    pwrite, calls = SystemFile.pwrite, count(1)

    def full(file: SystemFile, *data: Any) -> Any:
        if file.path.endswith(".log") and next(calls) > 1:
            raise OSError(errno.ENOSPC, "full")
        return pwrite(file, *data)

    with monkeypatch.context() as patched:
        patched.setattr(SystemFile, "pwrite", full)
        outcome = topic.on("append", "t", lines)

    appended = int(outcome.out.split()[0])
    assert outcome.code == 3
    assert 0 < appended < 200
    assert "tidelog append: with --txn ID, all of the input is appended, or nothing" in outcome.err
    assert len(topic.values()) == appended


def test_the_count_has_what_closing_appends_after_an_error_that_passed(
    topic: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk was full for one batch, which the writer keeps until the logs are closed."""
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"%d" % number + b"x" * 20_000 + b"\n" for number in range(50)))
    pwrite, calls = SystemFile.pwrite, count(1)

    def once_full(file: SystemFile, *data: Any) -> Any:
        if file.path.endswith(".log") and next(calls) == 3:
            raise OSError(errno.ENOSPC, "full")
        return pwrite(file, *data)

    with monkeypatch.context() as patched:
        patched.setattr(SystemFile, "pwrite", once_full)
        outcome = topic.on("append", "t", lines)
    there = topic.values()

    assert outcome.code == 3
    assert outcome.out == f"{len(there)} records appended to t, each line as text\n"
    assert [text.rstrip("x") for text in there] == [str(number) for number in range(len(there))]
    assert 6 < len(there) < 50


def test_a_form_that_only_cat_has_is_refused_with_the_one_to_use(topic: Cli) -> None:
    """A table of CSV has no column for what JSON can say."""
    outcome = topic.on("append", "t", "--format", "csv")

    assert outcome.code == 2
    assert "csv cannot be read: cat --format json prints records that" in outcome.err


def test_a_disk_that_fails_beside_a_service_leaves_no_gap(
    topic: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line of the file is appended, not even those after the write that failed."""
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"%d" % number + b"x" * 20_000 + b"\n" for number in range(20)))
    write, calls = LocalFile.write, count(1)

    def once_full(file: LocalFile, data: bytes) -> None:
        if next(calls) == 3:
            raise OSError(errno.ENOSPC, "full")
        write(file, data)

    monkeypatch.setattr(LocalFile, "write", once_full)
    eager = partial(BundleWriter, buffer_bytes=1)
    monkeypatch.setattr("tidelog.embedded.transaction.BundleWriter", eager)
    with tidelog.open(topic.data, log_cleaner_enable=False) as logs:
        outcome = topic.on("append", "t", lines)
        found = list(logs.read("t", 0))

    assert (outcome.code, outcome.out) == (3, "0 records appended to t, each line as text\n")
    assert "failed: [Errno 28] full" in outcome.err
    assert found == []
    assert list(topic.data.glob("tidelog.*.staged")) == []


@pytest.mark.parametrize("in_write", [True, False])
def test_an_interrupt_beside_a_service_ends_with_its_own_code(
    topic: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_write: bool
) -> None:
    """Also while records are staged, of which nothing is kept then; else the lines read are in."""
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"%d" % number + b"x" * 20_000 + b"\n" for number in range(20)))
    place: tuple[Any, str] = (LocalFile, "write") if in_write else (BusyWriter, "append")
    called, calls = getattr(*place), count(1)

    def interrupted(target: Any, given: Any) -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt
        called(target, given)

    monkeypatch.setattr(place[0], place[1], interrupted)
    eager = partial(BundleWriter, buffer_bytes=1)
    monkeypatch.setattr("tidelog.embedded.transaction.BundleWriter", eager)
    with tidelog.open(topic.data, log_cleaner_enable=False) as logs:
        outcome = topic.on("append", "t", lines)
        found = len(list(logs.read("t", 0)))

    kept = 0 if in_write else 2
    rest = "run it again" if in_write else f"the rest is what tail -n +3 {lines} prints"
    assert (outcome.code, found) == (130, kept)
    assert outcome.out == f"{kept} records appended to t, each line as text\n"
    assert outcome.err == (
        f"tidelog append: interrupted: {rest}; with --txn ID it is all of the file or nothing\n"
    )


# Values as JSON


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("oops", "Expecting value"),
        ("", "Expecting value"),
        ("NaN", "NaN is not JSON"),
        ("[1e999]", "1e999 does not fit a number of 64 bits"),
        ('"\\ud800"', "surrogates not allowed"),
    ],
)
def test_a_line_that_is_not_json_is_named(topic: Cli, bad: str, why: str) -> None:
    """The lines before it are appended."""
    outcome = topic.on("append", "t", "--encoding", "json", stdin=f"[1]\n{bad}\n[2]\n")

    assert outcome.code == 2
    assert "line 2: " in outcome.err
    assert why in outcome.err
    assert raw_values(topic) == [b"[1]"]


def test_a_line_is_any_json_value(topic: Cli) -> None:
    """Written without blanks; null is a tombstone, and the text in quotes a text."""
    given = '{"a": [1, 2.5]}\n"ü"\n true\r\nnull\n'

    assert topic.on("append", "t", "--encoding", "json", stdin=given).code == 0

    rows = topic.on("cat", "t").rows
    assert [row["value"] for row in rows] == ['{"a":[1,2.5]}', '"ü"', "true", None]


def test_what_cat_prints_as_json_is_appended_again(topic: Cli) -> None:
    """Whether values are JSON, text, other bytes or null; keys and headers stay text."""
    lines = [
        {"key": "1", "value": {"a": None}, "valueEncoding": "json", "headers": [["h", "[]"]]},
        {"key": "2", "value": "oops"},
        {"key": "3", "value": "/w==", "valueEncoding": "base64"},
        {"key": "4", "value": None, "valueEncoding": "json"},
        {"key": "5", "value": "null"},
        {"key": "6", "value": "text", "valueEncoding": "json"},
    ]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    assert topic.on("append", "t", "--format", "json", stdin=given).code == 0
    before = records(topic)

    printed = topic.on("cat", "t", "--encoding", "json")
    form = ("--format", "json", "--encoding", "json")
    assert topic.on("append", "t", *form, stdin=printed.out).code == 0

    shown = [(row["value"], row.get("valueEncoding")) for row in printed.rows]
    assert shown == [
        *(({"a": None}, "json"), ("oops", "utf8"), ("/w==", "base64"), (None, None)),
        *(("null", "utf8"), ("text", "json")),
    ]
    after = [row | {"offset": row["offset"] - 6} for row in records(topic)[6:]]
    assert after == before


def test_a_partition_in_another_directory_is_named_with_what_to_do(cli: Cli) -> None:
    """With the id that ``list`` shows; a partition of this directory takes the records."""
    with tidelog.open(cli.data, cli.data.parent / "second") as logs:
        logs.create_topic("big", 2, is_spread=True)
        ids = logs.topics()["big"].partitions
        (here,) = [number for number in ids if (cli.data / f"big-{number}").exists()]
    there = 1 - here

    refused = cli.on("append", "big", "-p", there, stdin="a\n")
    taken = cli.on("append", "big", "-p", here, stdin="a\n")

    assert (refused.code != 0, taken.code) == (True, 0)
    assert (
        f"big-{there} lies in the data directory with id {format_uuid(ids[there])}" in refused.err
    )
    assert "choose a partition of this one, or start a service over both" in refused.err
