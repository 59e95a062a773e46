"""Arguments of wrong types, to every public function and method."""

from __future__ import annotations

import inspect
from contextlib import ExitStack, closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import tidelog
import tidelog.arrow
import tidelog.spark
from tidelog import (
    GroupReader,
    JoinedLogs,
    Logs,
    ReadOnlyLog,
    ReadOnlyLogs,
    TidelogError,
    TopicWriter,
    Transaction,
)
from tidelog.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Odd:
    """What no argument can be."""

    def __repr__(self) -> str:
        return "<odd>"


WRONG: tuple[Any, ...] = (
    *(Odd(), -1.5, 5, "x", "", "\0", "\ud800", b"x", int, np.int64(5)),
    *([], [5], ["x"], {"x": Odd()}, ("a",), [Odd()], [np.int64(5)]),
)

TOPIC = {"topic": "t"}
PARTITION = {"topic": "t", "partition": 0}
RECORD = {"topic": "t", "value": b"v"}
RANGE = {"start_offset": 0, "end_offset": 1}
ARGUMENTS: dict[type, dict[str, dict[str, Any]]] = {
    Logs: {
        "alter_topic": {"name": "t", "config": {}},
        "append": RECORD,
        "append_all": {"topic": "t", "records": [b"v"]},
        "commit_transaction": {"transaction": Odd()},
        "compact": {},
        "config_of": TOPIC,
        "count_records": TOPIC,
        "create_partitions": {"name": "t", "count": 2},
        "create_topic": {"name": "t", "exist_ok": True},
        "delete_records": {**PARTITION, "before_offset": 0},
        "delete_topic": {"name": "absent"},
        "follow": {**TOPIC, "idle_ms": 0},
        "move_partition": {**PARTITION, "path": "elsewhere"},
        "offset_at": {**PARTITION, "timestamp": 5},
        "offsets": TOPIC,
        "partition": PARTITION,
        "partitions": TOPIC,
        "picture": TOPIC,
        "read": TOPIC,
        "reader": {"topics": "t", "group": "g"},
        "retain": {},
        "roll": {},
        "topic": {"name": "t"},
        "transaction": {},
        "writer": TOPIC,
    },
    ReadOnlyLogs: {
        "follower": PARTITION,
        "open": PARTITION,
        "topic_follower": TOPIC,
    },
    GroupReader: {"commit": {}, "read": {}, "seek": {**PARTITION, "offset": 0}},
    TopicWriter: {"append": {"value": b"v"}, "append_all": {"records": [b"v"]}},
    Transaction: {"append": RECORD, "create_topic": {"name": "new"}, "has_topic": {"name": "t"}},
    ReadOnlyLog: {
        "columns": RANGE,
        "count_records": RANGE,
        "end_offset": {},
        "find_holes": {},
        "last_stable_offset": {},
        "offset_at": {"target": 5},
        "offsets": {},
        "records": RANGE,
        "settled_records": {},
        "transactions": {},
        "visible_end": {},
    },
}
"""The methods of each class, with arguments that are right."""
ARGUMENTS[ReadOnlyLogs] |= {
    name: given for name, given in ARGUMENTS[Logs].items() if hasattr(ReadOnlyLogs, name)
}
ARGUMENTS[JoinedLogs] = ARGUMENTS[ReadOnlyLogs] | {
    name: given for name, given in ARGUMENTS[Logs].items() if hasattr(JoinedLogs, name)
}
INNER = {
    Logs: {"after_fork"},
    ReadOnlyLogs: set[str](),
    JoinedLogs: {"end_of", "known_epochs", "listed_topic", "start_of", "visible_records"},
    GroupReader: {"after_fork"},
    TopicWriter: {"after_fork"},
    Transaction: {
        *("add_positions", "after_fork", "append_record", "check_repeat", "config_of"),
        *("partition", "remove_group", "topic"),
    },
    ReadOnlyLog: {
        *("check_undamaged", "damage_at", "decodable_pieces", "drawn_by", "near_pieces"),
        *("out_of_range", "pieces", "pieces_with_visibility", "quiet_pieces", "splits"),
    },
}
"""Methods that other rooms call, with what was checked before."""
ARROW = {"directory": "data", "topic": "t"}
FUNCTIONS: list[tuple[Any, dict[str, Any]]] = [
    (tidelog.open, {"path": "other"}),
    (tidelog.join, {"path": "data"}),
    (tidelog.mirror, {"source": "data", "target": "other"}),
    (tidelog.open_read_only, {"path": "data/t-0"}),
    (tidelog.open_directory_read_only, {"path": "data"}),
    (tidelog.arrow.read, ARROW),
    (tidelog.arrow.read_table, ARROW),
    (tidelog.arrow.dataset, ARROW),
    (tidelog.arrow.follow, {**ARROW, "idle_ms": 0}),
    (tidelog.arrow.write, {**ARROW, "table": pa.table({"value": ["v"]}), "compression": "zstd"}),
    (tidelog.arrow.select, {"names": ["key"]}),
]
JOBS: list[tuple[Any, dict[str, Any]]] = [
    (tidelog.spark.compact, {"path": "data"}),
    (tidelog.spark.mirror, {"path": "data", "to_path": "other"}),
    (tidelog.spark.repartition, {"path": "data", "topic": "t", "to": "u", "partitions": 2}),
    (tidelog.spark.verify, {"path": "data"}),
]
FOR_TESTS = {"clock", "files"}


class Call(NamedTuple):
    """A function, and what makes a call of it right."""

    function: Callable[..., Any]
    given: dict[str, Any]

    def of(self, name: str, value: object) -> object:
        """Call it with a value for one argument; return all that comes of it."""
        given = {**self.given, name: value}
        parameters = inspect.signature(self.function).parameters.values()
        several = [one.name for one in parameters if one.kind is one.VAR_POSITIONAL]
        first = [given.pop(one.name) for one in parameters if one.kind is one.POSITIONAL_ONLY]
        if name in several:
            first = [given.pop(key) for key in ("path",) if key in given] + first
        first += [given.pop(one) for one in several if one in given]
        return _used_up(self.function(*first, **given))


def _used_up(found: Any) -> object:
    if isinstance(found, pa.RecordBatchReader):
        return found.read_all()
    if hasattr(found, "close"):
        with closing(found):
            return list(islice(found, 2)) if inspect.isgenerator(found) else None
    return list(islice(found, 2)) if hasattr(found, "__next__") else None


def check(call: Call) -> None:
    """Check that values of wrong types are refused by typed errors, which name what is wrong."""
    for one in inspect.signature(call.function).parameters.values():
        if one.kind is one.VAR_KEYWORD or one.name in FOR_TESTS:
            continue
        for value in WRONG:
            with suppress(TidelogError, OSError):  # some are right, and some may not be read
                call.of(one.name, value)
        # Text would count as true, whatever it says.
        for value in (WRONG[0], "no") if one.annotation == "bool" else WRONG[:1]:
            with pytest.raises(InvalidArgument, match=f"(?i)odd|{one.name}"):
                call.of(one.name, value)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[type, Any]]:
    """An object of each class, of one directory."""
    home = tmp_path_factory.mktemp("d")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.chdir(home)
        logs = stack.enter_context(tidelog.open("data"))
        logs.create_topic("t")
        logs.append_all("t", [b"a", b"b", b"c"])
        (home / "elsewhere").mkdir()
        transaction = logs.transaction()
        stack.callback(transaction.abort)
        yield {
            Logs: logs,
            JoinedLogs: stack.enter_context(tidelog.join("data")),
            ReadOnlyLogs: tidelog.open_directory_read_only("data"),
            ReadOnlyLog: stack.enter_context(tidelog.open_read_only("data/t-0")),
            GroupReader: stack.enter_context(logs.reader("t", group="other")),
            TopicWriter: stack.enter_context(logs.writer("t")),
            Transaction: transaction,
        }


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, methods in ARGUMENTS.items() for name in methods],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_wrong_type_is_a_typed_error_of_each_method(
    opened: dict[type, Any], kind: type, name: str
) -> None:
    """No error of Python comes out of the middle of a call, and none is taken for a right value."""
    check(Call(getattr(opened[kind], name), ARGUMENTS[kind][name]))


@pytest.mark.parametrize(
    ("function", "given"), FUNCTIONS, ids=lambda one: getattr(one, "__name__", "")
)
def test_a_wrong_type_is_a_typed_error_of_each_function(
    opened: dict[type, Any], function: Callable[..., Any], given: dict[str, Any]
) -> None:
    """As of methods."""
    assert opened
    check(Call(function, given))


@pytest.mark.parametrize(("job", "given"), JOBS, ids=lambda one: getattr(one, "__name__", ""))
def test_text_is_no_flag_of_a_job(job: Callable[..., Any], given: dict[str, Any]) -> None:
    """It is refused before anything is asked of Spark."""
    flags = [
        one.name for one in inspect.signature(job).parameters.values() if one.annotation == "bool"
    ]

    assert flags
    for name in flags:
        with pytest.raises(InvalidArgument, match=name):
            job(None, **given, **{name: "no"})


@pytest.mark.parametrize("kind", ARGUMENTS, ids=lambda kind: kind.__name__)
def test_each_public_method_is_tried(kind: type) -> None:
    """Whatever takes an argument, and is not only for other rooms, is in the table."""
    methods = {name for name, one in inspect.getmembers(kind, callable) if name[0] != "_"}
    taking = {
        name for name in methods if len(inspect.signature(getattr(kind, name)).parameters) > 1
    }

    assert taking == ARGUMENTS[kind].keys() | INNER[kind]
