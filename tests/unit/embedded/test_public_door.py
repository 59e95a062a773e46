"""What ``tidelog`` exports is whole, typed and documented, with examples that run."""

from __future__ import annotations

import asyncio
import builtins
import collections.abc
import doctest
import inspect
import os
import pickle
import pydoc
import random
import re
import typing
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import pyarrow.dataset
import pytest

import tidelog
import tidelog.arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD = [
    tidelog.Logs,
    tidelog.Partition,
    tidelog.TopicWriter,
    tidelog.GroupReader,
    tidelog.Transaction,
    tidelog.ReadOnlyLogs,
    tidelog.AsyncLogs,
    tidelog.AsyncGroupReader,
    tidelog.AsyncReadOnlyLogs,
]
INTERNAL = {
    *("Buffer", "CommittedAt", "GroupMember", "Hold", "OwnLogs", "OwnRecords"),
    *("NotGiven", "ReadOnlyTopicFollower", "RecordFields", "Staged", "_StagedPartition"),
}
"""Types of arguments and results of methods that other parts of tidelog call, or nobody gives."""
WORD = re.compile(r"\b[A-Z]\w+")
KNOWN = (builtins, collections.abc, typing, os, uuid, random)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DOORS: dict[str, Any] = {"tidelog": tidelog, "tidelog.arrow": tidelog.arrow}
EXAMPLES = {
    "tidelog": [
        "AsyncLogs",
        "AsyncReadOnlyLogs",
        "ConsumedRecord",
        "GroupReader",
        "LogDrawing",
        "Logs",
        "NewRecord",
        "join_async",
        "mirror",
        "open",
        "open_async",
        "open_directory_read_only",
        "open_read_only",
    ],
    "tidelog.arrow": ["dataset", "follow", "parse_json", "read", "read_table", "write"],
}


def public_methods(held: type) -> Iterator[typing.Any]:
    """Yield the public functions of a class, and of its bases."""
    for name, found in inspect.getmembers_static(held):
        plain = getattr(found, "fget", getattr(found, "__func__", found))
        if not name.startswith("_") and inspect.isfunction(inspect.unwrap(plain)):
            yield inspect.unwrap(plain)


@pytest.mark.parametrize("held", HELD)
def test_each_class_that_a_user_meets_is_exported(held: type) -> None:
    """Whatever a public method takes or returns can be named: ``tidelog.X``."""
    texts = [text for method in public_methods(held) for text in method.__annotations__.values()]
    words = {word for text in texts for word in WORD.findall(text)}

    assert texts
    missing = {w for w in words if not any(hasattr(module, w) for module in (tidelog, *KNOWN))}
    assert missing - INTERNAL == set()


@pytest.mark.parametrize("name", tidelog.__all__)
def test_each_exported_class_and_function_says_what_it_is(name: str) -> None:
    """In a docstring of its own."""
    found = getattr(tidelog, name)

    if inspect.isclass(found) or inspect.isfunction(found):
        assert found.__doc__
        assert not found.__doc__.startswith(f"{found.__name__}(")


@pytest.mark.parametrize(
    ("door", "name"), [(door, name) for door, names in EXAMPLES.items() for name in names]
)
def test_the_examples_of_docstrings_run(
    door: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone in an empty directory, as a reader of ``help`` would try it."""
    names = {"tidelog": tidelog, "asyncio": asyncio, "pa": pyarrow, "pyarrow": pyarrow}
    found = doctest.DocTestFinder().find(getattr(DOORS[door], name), name, globs=names)
    wrong: list[str] = []
    tried = 0
    for test in found:
        folder = tmp_path / test.name
        folder.mkdir()
        monkeypatch.chdir(folder)
        tried += doctest.DocTestRunner(verbose=False).run(test, out=wrong.append).attempted

    assert tried > 0
    assert "".join(wrong) == ""


@pytest.mark.parametrize("door", DOORS)
def test_every_example_is_tried(door: str) -> None:
    """Those of each name that has any."""
    with_examples = [
        name
        for name in DOORS[door].__all__
        if inspect.isclass(found := getattr(DOORS[door], name)) or inspect.isfunction(found)
        if any(test.examples for test in doctest.DocTestFinder().find(found, name))
    ]

    assert with_examples == EXAMPLES[door]


def test_a_program_needs_no_casts(tmp_path: Path) -> None:
    """Strict mypy, which checks this file, knows the type of all that a program gets."""
    with tidelog.open(tmp_path) as logs:
        assert_type(logs, tidelog.Logs)
        topic = assert_type(logs.create_topic("t", exist_ok=True), tidelog.Topic)
        appended = assert_type(logs.append("t", b"a"), tidelog.Appended)
        assert_type(logs.append_all("t", [b"b", (None, b"c"), {"value": b"d"}]), int)
        assert_type(logs.append("t", bytearray(b"v"), key=memoryview(b"k")), tidelog.Appended)
        assert_type(logs.writer("t"), tidelog.TopicWriter)
        record = assert_type(next(logs.read("t")), tidelog.ConsumedRecord)
        assert_type(record.value, bytes | None)
        assert_type(logs.partition("t", 0), tidelog.Partition)
        assert_type(logs.partition("t", 0).log, tidelog.Log)
        assert_type(logs.offsets("t"), dict[int, tidelog.Offsets])
        assert_type(logs.offsets("t", 0), tidelog.Offsets)
        assert_type(logs.offset_at("t", 0, 0), tidelog.TimestampedOffset | None)
        assert_type(logs.count_records("t"), tidelog.RecordCount)
        assert_type(logs.metrics(), list[tidelog.Metric])
        assert_type(logs.retain("t"), dict[tuple[str, int], list[tidelog.DeletedSegment]])
        assert_type(logs.compact(), dict[tuple[str, int], tidelog.CompactionFacts])
        assert_type(logs.delete_records("t", 0, 1), int)
        with logs.reader("t", group="g") as reader, logs.transaction() as txn:
            assert_type(reader, tidelog.GroupReader)
            assert_type(txn, tidelog.Transaction)
            assert_type(next(reader.read()), tidelog.ConsumedRecord)
            assert_type(reader.positions, dict[tidelog.TopicPartition, int])
        assert_type(txn.committed, tidelog.CommittedTransaction | None)
    view = assert_type(tidelog.open_directory_read_only(tmp_path), tidelog.ReadOnlyLogs)
    assert_type(view.topics()["t"], tidelog.ReadOnlyTopic)
    with assert_type(view.open("t", 0), tidelog.ReadOnlyLog) as log:
        assert_type(next(log.columns()), tidelog.RecordColumns)

    assert (topic.name, appended.offset) == ("t", 0)


def test_the_example_of_the_readme_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the same directory, as a reader does who tries it twice; the records accumulate."""
    text = (Path(__file__).parents[3] / "README.md").read_text("utf-8")
    [block] = [found for found in PYTHON.findall(text) if "tidelog.open(" in found]
    monkeypatch.chdir(tmp_path)
    shown = []
    for _ in range(2):
        exec(compile(block, "README.md", "exec"), {})
        shown.append(capsys.readouterr().out)

    first, second = (f"0 {offset} b'Brest' b'high at 06:12'\n" for offset in range(2))
    ends = (f"the next record gets offset {end}\n" for end in (1, 2))
    assert shown == [f"{first}{next(ends)}", f"{first}{second}{next(ends)}"]


def test_help_shows_each_function_under_its_public_name() -> None:
    """``help(tidelog.open)`` is about ``open``, which is also what a copy by pickle finds."""
    functions = [name for name in tidelog.__all__ if inspect.isfunction(getattr(tidelog, name))]

    assert "open" in functions
    for name in functions:
        found = getattr(tidelog, name)
        assert f"function {name} in module tidelog" in pydoc.plain(pydoc.render_doc(found))
        assert found is pickle.loads(pickle.dumps(found))


def test_errors_export_all_errors_and_nothing_else() -> None:
    """``from tidelog.errors import *`` brings no module that the file imports."""
    errors = {
        name
        for name, one in vars(tidelog.errors).items()
        if inspect.isclass(one) and issubclass(one, tidelog.TidelogError) and name[0] != "_"
    }

    assert {"InvalidArgument", "TidelogError"} < errors
    assert errors == set(tidelog.errors.__all__)
