"""The output of ``tidelog dump`` in the format of Kafka's own dump tool, for comparison.

The format is that of release 4.3.1. Kafka: ``DumpLogSegments``.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, Final

from tidelog.records.record import text_as_java

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Row = dict[str, Any]

_KRAFT: Final = {
    "LEADER_CHANGE": "LeaderChange: ",
    "SNAPSHOT_HEADER": "SnapshotHeader ",
    "SNAPSHOT_FOOTER": "SnapshotFooter ",
    "KRAFT_VERSION": "KRaftVersion ",
    "KRAFT_VOTERS": "KRaftVoters ",
}
_HEADLINES: Final = re.compile(r"Dumping .*|Log starting offset: \d+|.* is empty\.")
_FIELDS_WITHOUT_BATCH: Final = 5


def contents(printed: str) -> list[str]:
    """Return the contents of a file as printed by Kafka's tool, without its headlines."""
    return [line for line in printed.split("\n")[:-1] if not _HEADLINES.fullmatch(line)]


def log_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines for the rows of ``tidelog dump --records --encoding base64``.

    A record is one line, or several if its text has line ends.
    """
    batch: Row = {}
    for row in rows:
        if "position" in row:
            batch = row
            yield _batch_line(batch)
        else:
            yield from _record_line(row, batch).split("\n")


def index_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines for the rows of an offset, time or transaction index."""
    for row in rows:
        yield _fields(row)


def snapshot_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines for the rows of a snapshot; a producer without batches has no batch part."""
    for row in rows:
        shown = {**row, "currentTxnFirstOffset": _optional(row["currentTxnFirstOffset"])}
        count = _FIELDS_WITHOUT_BATCH if row["lastOffset"] < 0 else len(shown)
        yield _fields(dict(list(shown.items())[:count]))


def _batch_line(row: Row) -> str:
    start = f"offset: {row['lastOffset']} "
    if row["magic"] == 2:
        start = (
            f"baseOffset: {row['baseOffset']} lastOffset: {row['lastOffset']} "
            f"count: {row['count']} baseSequence: {row['baseSequence']} "
            f"lastSequence: {row['lastSequence']} producerId: {row['producerId']} "
            f"producerEpoch: {row['producerEpoch']} partitionLeaderEpoch: {row['leaderEpoch']} "
            f"isTransactional: {_java(row['transactional'])} isControl: {_java(row['control'])} "
            f"deleteHorizonMs: {_optional(row['deleteHorizonMs'])} "
        )
    return start + (
        f"position: {row['position']} {row['timestampType']}: {row['maxTimestamp']} "
        f"size: {row['size']} magic: {row['magic']} compresscodec: {row['compression']} "
        f"crc: {row['crc']} isvalid: {_java(row['valid'])}"
    )


def _record_line(row: Row, batch: Row) -> str:
    line = (
        f"| offset: {row['offset']} {row['timestampType']}: {row['timestamp']} "
        f"keySize: {row['keySize']} valueSize: {row['valueSize']}"
    )
    if batch["magic"] < 2:
        line += f" isValid: {_java(row['valid'])} crc: {row['crc']}}}"
    else:
        names = ",".join(name for name, *_ in row["headers"])
        line += f" sequence: {row['sequence']} headerKeys: [{names}]"
    if batch["control"]:
        return line + _control_part(row, batch)
    line += "" if row["key"] is None else f" key: {_text(row['key'])}"
    return line + ("" if row["value"] is None else f" payload: {_text(row['value'])}")


def _control_part(row: Row, batch: Row) -> str:
    kind = row["controlType"]
    if "coordinatorEpoch" in row:
        return f" endTxnMarker: {kind} coordinatorEpoch: {row['coordinatorEpoch']}"
    if kind == "UNKNOWN":
        return f" controlType: UNKNOWN({batch['controlType']})"
    return f" {_KRAFT[kind]}{json.dumps(row['control'], separators=(',', ':'))}"


def _fields(row: Row) -> str:
    return " ".join(f"{name}: {value}" for name, value in row.items())


def _text(encoded: str) -> str:
    return text_as_java(base64.b64decode(encoded))


def _java(value: bool) -> str:  # noqa: FBT001 - the value to format
    return str(value).lower()


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
