"""The JSON of commands and its schemas; golden data is held against them in tests/golden."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery import metadata_log as made
from tests.unit.cli.commands.records.test_txns_command import begin
from tests.unit.cli.commands.topics.test_move_command import begin_slowly

import tidelog
from tidelog.cli.parser import make_parser
from tidelog.cli.schemas.outputs import OUTPUTS, all_outputs
from tidelog.codec.uuid_text import parse_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Enumerated, Validated

    Cli = Any


def with_json() -> Iterator[str]:
    """Yield each command that has ``--json``."""
    parser = make_parser()
    [commands] = [action for action in parser._actions if action.dest == "command"]
    assert commands.choices is not None
    choices: dict[str, Any] = commands.choices  # type: ignore[assignment]  # of subparsers
    for name, command in choices.items():
        if any("--json" in action.option_strings for action in command._actions):
            yield name


def test_every_command_with_json_has_a_schema(enumerated: Enumerated) -> None:
    """A command may have several, one for each thing that it prints."""
    described = {name.split()[0] for name in all_outputs()}
    commands = list(with_json())

    assert set(commands) - described == set()
    enumerated("commands", len(commands), at_least=20)


def fields_of(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each field of an object, and of the objects in it."""
    for name, field in schema.get("properties", {}).items():
        yield name, field
        yield from fields_of(field)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from fields_of(inner)


def test_every_field_has_a_sentence(enumerated: Enumerated) -> None:
    """Sizes and times name their unit."""
    fields = [
        (name, field)
        for output in OUTPUTS.values()
        for kind in output.lines
        for name, field in fields_of(kind)
    ]
    mute = [name for name, field in fields if not field["description"].endswith(".")]
    unitless = [
        name
        for name, field in fields
        if name.endswith(("Bytes", "Ms", "imestamp"))
        and not any(word in field["description"] for word in ("ytes", " ms ", "Kafka's name"))
    ]

    assert (mute, unitless) == ([], [])
    enumerated("fields", len(fields), at_least=200)


def test_the_schema_of_a_command_is_printed(cli: Cli) -> None:
    """Without a command, the names of all that have one; an unknown name is wrong usage."""
    assert cli("schema").out.split("\n")[:-1] == list(all_outputs())
    printed = json.loads(cli("schema", "plan", "retention").out)
    assert printed == OUTPUTS["plan retention"].schema("plan retention")
    assert printed["title"] == "tidelog plan retention"
    assert cli("schema", "nonsense").code == 2


def test_acts_print_what_their_schemas_name(cli: Cli, tmp_path: Path, validated: Validated) -> None:
    """One line of a creation or a change, else a line for each thing, then the counts."""
    small = ("-o", "internal.segment.bytes=80", "-o", "cleanup.policy=compact,delete")

    def hold(command: str, *words: object, code: int = 0) -> list[Any]:
        outcome = cli.on(*command.split(), *words, "--json")
        assert outcome.code == code, outcome.err
        lines: list[Any] = outcome.lines
        validated(command, lines)
        return lines

    assert hold("create", "t", *small)[0]["partitions"] == 1
    assert hold("alter", "t", "-o", "retention.ms=1000")[0]["partitions"] is None
    assert hold("alter", "t", "--partitions", "2")[0]["settings"] is None
    for _ in range(3):
        record = {"key": "k", "value": "v", "partition": 0, "timestamp": 10**12}
        cli.on("append", "t", "--format", "json", stdin=json.dumps(record) + "\n")
    assert hold("compact", "t")[-1]["counts"]["freedBytes"] > 0
    assert hold("delete-records", "t", "-p", 0, "--before", 2, "--dry-run")
    assert hold("retain", "t", "-o", "retention.ms=1")[-1]["counts"]["deletedSegments"] > 0
    log = max((cli.data / "t-0").glob("*.log"))
    log.write_bytes(b"torn")
    (cli.data / ".kafka_cleanshutdown").unlink()
    assert hold("recover", "--full", code=1)[-1]["counts"]["damaged"] == 1
    assert hold("salvage")[-1]["counts"] == {"files": 1, "unreadable": 0}
    assert hold("move", "t", "--to", tmp_path / "other")[-1] == {"counts": {"partitions": 2}}
    assert hold("create", "u")
    assert hold("delete", "u")[-1] == {"counts": {"topics": 1, "freedBytes": 0}}


@pytest.mark.parametrize("by_service", [False, True])
def test_moves_print_what_their_schemas_name(
    cli: Cli, by_service: bool, validated: Validated
) -> None:
    """Listed, limited, cancelled and carried out, by a service and without one."""
    target = cli.data.parent / "target"
    to = () if by_service else ("--to", target)

    def hold(name: str, *words: object) -> list[Any]:
        outcome = cli.on("move", *words, "--json")
        assert outcome.code == 0, outcome.err
        validated(name, outcome.lines)
        return list(outcome.lines)

    with ExitStack() as stack:
        logs = stack.enter_context(tidelog.open(cli.data, target))
        begin_slowly(logs, cli.data, target)
        if not by_service:
            stack.close()
        listed = hold("move list", "--list", *to)
        cancelled = hold("move cancel", "t", "--cancel", *to)
        if by_service:
            assert hold("move throttle", "--throttle", 1000) == [{"limitBytesPerSecond": 1000}]
            assert hold("move throttle", "--throttle", "none") == [{"limitBytesPerSecond": None}]
        moved = hold("move", "t", "--to", target)

    assert listed[-1] == {"counts": {"moves": 1}}
    assert listed[0]["state"] == ("throttled" if by_service else "stopped")
    assert cancelled[-1] == moved[-1] == {"counts": {"partitions": 1}}


@pytest.mark.parametrize("by_service", [False, True])
def test_aborts_print_what_their_schemas_name(
    topic: Cli, by_service: bool, validated: Validated
) -> None:
    """The plan and the act, of the abort and of taking it back."""
    begin(topic, 9)
    abort = ("txns", "abort", "t-0", "--producer-id", "9")
    undo = ("txns", "abort", "t-0", "--undo")

    with ExitStack() as stack:
        if by_service:
            stack.enter_context(tidelog.open(topic.data))
        for name, words in (("txns abort", abort), ("txns abort undo", undo)):
            for execute in ((), ("--execute",)):
                outcome = topic.on(*words, *execute, "--json")
                assert outcome.code == 0, outcome.err
                validated(name, outcome.lines)
                assert [row["executed"] for row in outcome.rows] == [bool(execute)]


@pytest.mark.parametrize(
    "command",
    [
        *("list", "describe", "picture", "txns", "groups", "verify", "salvage", "metrics"),
        *("plan recovery", "plan retention", "plan compaction", "cleaner status", "staged list"),
        *("recover", "retain", "compact", "table partitions", "table checkpoints"),
    ],
)
def test_a_directory_without_partitions_has_counts_of_0(
    command: str, topic: Cli, validated: Validated
) -> None:
    """It is fine, exit code 0; the answer is the last line, never nothing."""
    assert topic.on("delete", "t").code == 0

    outcome = topic.on(*command.split(), "--json")

    counts = outcome.counts
    assert (outcome.code, outcome.rows) == (0, [])
    assert set(counts.values()) == {0}
    validated(command, outcome.lines)


def test_what_is_missing_and_damaged_is_counted(cli: Cli, validated: Validated) -> None:
    """As well as named on standard error; exit code 1."""
    cli.on("create", "t", "-p", "3")
    for number in (0, 1):
        cli.on("append", "t", "-p", number, stdin="a\n")
    log = cli.log_file("t-1")
    log.write_bytes(log.read_bytes()[:-1])
    (cli.data / "t-2" / "partition.metadata").unlink()
    (cli.data / "t-2").rmdir()

    for command in ("list", "describe", "txns"):
        outcome = cli.on(command, "--json")
        assert outcome.code == 1
        assert outcome.counts == {
            "partitions": 2,
            "damaged": 1,
            "missing": 1,
            "unanswered": 0,
        }
        assert [row["damage"] is None for row in outcome.rows] == [True, False]
        validated(command, outcome.lines)


def test_a_hand_over_prints_what_its_schema_names(cli: Cli, validated: Validated) -> None:
    """A line a topic, one for the broker, then the counts; and the way back."""
    cli.on("create", "t", "-p", "2")
    plan = cli.on("to-kafka", "--dry-run", "--json")
    assert not (cli.data / "bootstrap.checkpoint").exists()

    done = cli.on("to-kafka", "--json")
    assert done == plan
    validated("to-kafka", done.lines)
    topic, broker = done.lines[:2]
    assert broker["files"] == [broker["serverProperties"], str(cli.data / "bootstrap.checkpoint")]
    assert done.counts == {"topics": 1, "partitions": 2}

    topic_id = parse_uuid(topic["id"])
    values = [made.topic("t", topic_id), *(made.partition(topic_id, at) for at in range(2))]
    values.append(made.setting("retention.ms", "5", "t"))
    (cli.data / "__cluster_metadata-0").mkdir()
    log = cli.data / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(made.metadata_log([values]))
    assert cli.on("from-kafka", "--dry-run").out == "t: changed, 2 partitions, retention.ms=5\n"
    back = cli.on("from-kafka", "--json")
    validated("from-kafka", back.lines)
    assert (back.code, back.counts) == (0, {"topics": 1, "changed": 1})
    assert cli.on("from-kafka").out == "t: same, 2 partitions, retention.ms=5\n"
    assert cli.on("to-kafka").out.startswith("t: 2 partitions, retention.ms=5\n")


def test_a_mirror_prints_what_its_schema_names(
    topic: Cli, tmp_path: Path, validated: Validated
) -> None:
    """A line a partition, and the counts; a plan prints the same and copies nothing."""
    topic.append("a", "b")
    target = tmp_path / "copy"

    plan = topic.on("mirror", "--to", target, "--dry-run", "--json")
    assert not target.exists()
    done = topic.on("mirror", "--to", target, "t", "--json")

    assert (done.code, done.lines) == (0, plan.lines)
    validated("mirror", done.lines)
    assert done.counts["batches"] == 1
    again = topic("mirror", topic.data, "--to", target)
    assert again == (0, "t-0: nothing new; it ends at 2\n", "")
    assert topic.on("mirror", "--to", topic.data).code == 2
    assert topic.on("mirror", "--to", target, "nonsense").code == 2
