"""Tables of topics that are appended to, compacted and shortened by retention meanwhile."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from tests.machinery.scale import scaled

import tidelog
from tidelog import arrow
from tidelog.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa
    from tests.conftest import Enumerated

    from tidelog import Logs

SECONDS = scaled(4)
KEYS = 20
SETTINGS: dict[str, dict[str, Any]] = {
    "deleted": {"retention.bytes": 30_000},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01},
}


def append(logs: Logs, topic: str, rng: Random, stop: threading.Event) -> None:
    """Append records that name their own key, until it is to end."""
    number = 0
    while not stop.is_set():
        records = []
        for _ in range(rng.randrange(1, 60)):
            key = rng.randrange(KEYS)
            number += 1
            records.append({"key": b"%d" % key, "value": b"%d %d" % (key, number)})
        logs.append_all(topic, records)


def change(logs: Logs, topic: str, stop: threading.Event) -> None:
    """Delete what is expired, or compact, again and again."""
    while not stop.is_set():
        if topic == "deleted":
            logs.retain(topic)
        else:
            logs.compact(topic)
        stop.wait(0.01)


def check(table: pa.Table) -> None:
    """Compare each row with its key; offsets and numbers rise."""
    offsets = table["offset"].to_pylist()
    pairs = [value.split() for value in table["value"].to_pylist()]
    assert [key for key, _ in pairs] == table["key"].to_pylist()
    numbers = [int(number) for _, number in pairs]
    assert offsets == sorted(set(offsets))
    assert numbers == sorted(set(numbers))


READS: dict[str, Callable[[Path, str], pa.Table]] = {
    "read": arrow.read_table,
    "one thread": lambda path, topic: arrow.read_table(path, topic, threads=1),
    "committed": lambda path, topic: arrow.read_table(path, topic, isolation="read_committed"),
    "last": lambda path, topic: arrow.read_table(path, topic, last=100, read_up_to="logEnd"),
    "dataset": lambda path, topic: arrow.dataset(path, topic).to_table(
        filter=ds.field("offset") >= 1000
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("topic", SETTINGS)
def test_rows_are_whole_and_in_order_beside_a_writer(
    tmp_path: Path, topic: str, enumerated: Enumerated
) -> None:
    """Or the read ends with the error that retention was faster."""
    stop, reads, late, rows = threading.Event(), 0, 0, 0
    with tidelog.open(tmp_path, config={"internal.segment.bytes": 20_000}) as logs:
        logs.create_topic(topic, config=SETTINGS[topic])
        threads = [
            threading.Thread(target=append, args=(logs, topic, Random(1), stop)),
            threading.Thread(target=change, args=(logs, topic, stop)),
        ]
        for thread in threads:
            thread.start()
        ends = time.monotonic() + SECONDS
        try:
            while time.monotonic() < ends:
                for read in READS.values():
                    reads += 1
                    try:
                        found = read(tmp_path, topic)
                    except OffsetOutOfRange:
                        late += 1
                        continue
                    check(found)
                    rows += len(found)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        left = arrow.read_table(tmp_path, topic)
        check(left)
        assert len(left) < logs.partition(topic, 0).log.log_end_offset

    enumerated(f"reads, {late} of which were too late", reads, at_least=20)
    enumerated("rows", rows, at_least=1000)
