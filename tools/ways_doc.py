"""Writes into docs/architecture.md which files the five main ways through the code enter.

Each way is run once to load what it needs, then once more under a tracer. ``--check`` writes
nothing and fails if the page is stale; ``--calls WAY`` prints the calls of one way as a tree.
"""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest.mock import patch

import pyarrow as pa
from pages import between, write_or_check
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

import tidelog
from tidelog.embedded.doors import open_briefly
from tidelog.spark.source import LogSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN = "<!-- written by tools/ways_doc.py; `make docs` does it again -->\n"
END = "<!-- end of what tools/ways_doc.py wrote -->\n"
ROWS: Final = 100
SOURCE: Final = f"{ROOT / 'src' / 'tidelog'}/"
COMPILED: Final = re.compile("kernels/(?!runtime/)")
"""Files of kernels; only Python 3.11 reports calls of what numba has compiled."""


class Call(NamedTuple):
    """A call of a function of tidelog: how deep, in which file, its qualified name."""

    depth: int
    file: str
    function: str


class Tracer:
    """Collects the calls that this thread makes inside tidelog."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._depth = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call or a return; later Pythons make no call of a comprehension."""
        code = frame.f_code
        if not code.co_filename.startswith(SOURCE) or code.co_name.startswith("<"):
            return
        name = code.co_filename.removeprefix(SOURCE)
        if COMPILED.match(name):
            return
        if event == "call":
            self._depth += 1
            function = code.co_qualname.replace(".<locals>", "")
            self.calls.append(Call(self._depth, name, function))
        elif event == "return":
            self._depth -= 1

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Trace the body."""
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


def append(directory: str, tracer: Tracer) -> None:
    """Append one record to an open log."""
    with tidelog.open(directory) as logs:
        logs.create_topic("t", exist_ok=True)
        logs.append("t", b"value", key=b"key")
        with tracer.tracing():
            logs.append("t", b"value", key=b"key")


def load(directory: str, tracer: Tracer) -> None:
    """Open a directory with one log that was closed in order."""
    with tidelog.open(directory) as logs:
        logs.create_topic("t", exist_ok=True)
        logs.append("t", b"value")
    with tracer.tracing():
        logs = tidelog.open(directory)
    logs.close()


def clean(directory: str, tracer: Tracer) -> None:
    """Compact a log once, by a short-lived writer: there no flush runs beside the cleaning."""
    config = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    with open_briefly(directory) as logs:
        logs.create_topic("c", config=config, exist_ok=True)
        logs.append_all("c", ((b"%d" % (n % 10), b"v" * 1000) for n in range(3000)))
        with tracer.tracing():
            logs.compact("c")


def spark_read(directory: str, tracer: Tracer) -> None:
    """Plan a batch read, and read one partition as a task does."""
    with tidelog.open(directory) as logs:
        logs.create_topic("t", exist_ok=True)
        logs.append_all("t", ((b"key", b"value") for _ in range(100)))
    kinds = {"key": BinaryType(), "value": BinaryType(), "offset": LongType()}
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
    source = LogSource({"path": directory, "subscribe": "t"})
    with tracer.tracing():
        reader = source.reader(schema)
        for part in reader.partitions():
            list(reader.read(part))


class _Task:
    """What a streaming task knows of itself."""

    def __init__(self, batch: int) -> None:
        self._properties = {
            "sql.streaming.queryId": "11111111-1111-1111-1111-111111111111",
            "streaming.sql.batchId": str(batch),
        }

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802 - PySpark's name
        """Return a property of the query."""
        return self._properties.get(key)

    def partitionId(self) -> int:  # noqa: N802 - PySpark's name
        """Return the number of the task's partition."""
        return 0

    attemptNumber = partitionId  # noqa: N815 - PySpark's name
    taskAttemptId = partitionId  # noqa: N815 - PySpark's name


def spark_commit(directory: str, tracer: Tracer) -> None:
    """Commit a micro-batch whose task has staged its records."""
    with tidelog.open(directory) as logs:
        logs.create_topic("t", exist_ok=True)
        batch = logs.count_records("t").records // ROWS
    schema = StructType([StructField(name, BinaryType()) for name in ("key", "value")])
    columns = [pa.array([b"v"] * ROWS, pa.binary())] * 2
    rows = pa.record_batch(columns, names=["key", "value"])
    options = {"path": directory, "topic": "t"}
    with patch.object(TaskContext, "get", classmethod(lambda _: _Task(batch))):
        staged = LogSource(options).streamWriter(schema, overwrite=False).write(iter([rows]))
        source = copy(LogSource(options))  # Spark commits with a copy
        with tracer.tracing():
            source.streamWriter(schema, overwrite=False).commit([staged], batch)


WAYS: Final[dict[str, tuple[str, Callable[[str, Tracer], None]]]] = {
    "append": ("An append: `Logs.append` of one record", append),
    "load": ("A load: `tidelog.open` of a directory with one log", load),
    "clean": ("A cleaning: `Logs.compact` of one log, in a short-lived writer", clean),
    "spark-read": ("A Spark read: the plan, and one task", spark_read),
    "spark-commit": ("A Spark commit: one micro-batch, in a short-lived writer", spark_commit),
}


def traced(way: Callable[[str, Tracer], None]) -> list[Call]:
    """Return the calls of the second run of a way: the first one imports what it needs."""
    with tempfile.TemporaryDirectory() as directory:
        way(directory, Tracer())
        tracer = Tracer()
        way(directory, tracer)
    return tracer.calls


def paragraph(title: str, calls: list[Call]) -> str:
    """Return which files a way enters, by rooms, in the order in which it first does."""
    rooms: dict[str, list[str]] = {}
    for file in dict.fromkeys(call.file for call in calls):
        room, _, name = file.rpartition("/")
        rooms.setdefault(room or "tidelog", []).append(name.removesuffix(".py"))
    functions = {(call.file, call.function) for call in calls}
    count = sum(map(len, rooms.values()))
    entered = "; ".join(f"`{room}`: {', '.join(names)}" for room, names in rooms.items())
    return f"**{title}** ({count} files, {len(functions)} functions). {entered}.\n"


def render() -> str:
    """Return the part of the page, markers included."""
    parts = [paragraph(title, traced(way)) for title, way in WAYS.values()]
    return BEGIN + "\n".join(parts) + END


def main() -> int:
    """Write the page, or print the calls of one way."""
    if sys.argv[1:2] == ["--calls"]:
        for call in traced(WAYS[sys.argv[2]][1]):
            print("  " * call.depth + f"{call.function}  [{call.file}]")
        return 0
    page = PAGE.read_text("utf-8")
    return write_or_check(__doc__, {PAGE: between(page, BEGIN, END, render())})


if __name__ == "__main__":
    sys.exit(main())
