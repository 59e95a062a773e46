"""The records that a cleaning of a log would drop, as lines of the answer.

A plan reads a log again if its files change meanwhile, so the lines are kept in a file until the
plan is complete: memory is bounded, however many records there are.
"""

from __future__ import annotations

import json
import sys
from tempfile import SpooledTemporaryFile  # noqa: TID251 - no file of a log, and without a name
from typing import TYPE_CHECKING, Any, Final

from tidelog.env.attempts import Closable
from tidelog.explain.printable_text import printable
from tidelog.records.json.json_record import Encoding, bytes_as_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable

    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.cleaner.rewriting.filter_result import DroppedRecords, ExplainedDrop
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition

_MEMORY_BYTES: Final = 1 << 20
"""Bytes of lines up to which no file is needed."""


class DroppedLines(Closable):
    """Keeps the lines about one log until they are printed; closed by the end of a ``with``."""

    def __init__(self, args: Namespace) -> None:
        self._line_of_drop = _json_line if args.json else _text_line
        self._file = SpooledTemporaryFile(  # noqa: SIM115 - closed by ``close``
            _MEMORY_BYTES, "w+", encoding="utf-8", newline="\n"
        )

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def begin(self, key: TopicPartition) -> Callable[[DroppedRecords], None]:
        """Forget all lines; return what adds those about dropped records of a log."""
        self._file.seek(0)
        self._file.truncate()

        return lambda dropped: self.add(key, dropped.explained())

    def add(self, key: TopicPartition, dropped: Iterable[ExplainedDrop]) -> None:
        """Add lines about dropped records of a log."""
        self.write(self._line_of_drop(key, one) for one in dropped)

    def write(self, lines: Iterable[str]) -> None:
        """Add lines."""
        self._file.writelines(lines)

    def complete(self, log: ReadOnlyLog, facts: CompactionFacts) -> None:
        """Add what is known once the plan is complete: of the records that stay, nothing."""

    def print(self) -> None:
        """Print the lines, which ``begin`` forgets later."""
        self._file.seek(0)
        sys.stdout.writelines(self._file)


def _json_line(place: TopicPartition, dropped: ExplainedDrop) -> str:
    row: dict[str, Any] = {
        **place._asdict(),
        "offset": dropped.offset,
        "cause": dropped.cause.value,
        "supersededBy": dropped.superseded_by,
        **json_key(dropped.key),
    }
    return json.dumps(row) + "\n"


def json_key(key: bytes | None) -> dict[str, str | None]:
    """Return the fields of a row that say a key."""
    text, encoding = bytes_as_text(key, Encoding.UTF8)
    marks = {} if encoding is Encoding.UTF8 else {"keyEncoding": str(encoding)}
    return {"key": text, **marks}


def _text_line(_: TopicPartition, dropped: ExplainedDrop) -> str:
    text = f"  offset {dropped.offset:,}: {dropped.cause.value}"
    if dropped.superseded_by is not None:
        text += f" by offset {dropped.superseded_by:,}"
    if dropped.key is not None:
        key, encoding = bytes_as_text(dropped.key, Encoding.UTF8)
        text += f", key {key}" if encoding is Encoding.UTF8 else f", key in {encoding} {key}"
    return printable(text) + "\n"
