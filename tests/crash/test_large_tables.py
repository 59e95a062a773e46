"""A topic of 10 GB as a table in 300 MiB, also by readers that stop or wait in its middle.

Python, Arrow and the compiled kernels take 190 of them.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tidelog import arrow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUE_BYTES = 10_000
ROWS = 1_000_000
MAX_MIB = 300
OF_A_WRITE = 100
"""What a write takes beside: its buffer of 64 MiB, and what is encoded of it."""

MEASURED = """
import sys, time
import tidelog.arrow
path = sys.argv[1]
{body}
(line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(int(line.split()[1]) >> 10)
"""
BODIES = {
    "a loop": "print(sum(len(rows) for rows in tidelog.arrow.read(path, 't')))",
    "a filter": """
import pyarrow.dataset as ds
found = tidelog.arrow.dataset(path, 't')
print(found.count_rows(filter=ds.field('offset') >= 0))
""",
    "a slow reader": """
count = 0
for rows in tidelog.arrow.read(path, 't', start_offsets=0, end_offsets=60_000):
    count += len(rows)
    time.sleep(0.005)
print(count)
""",
    "a reader that stops": """
rows = tidelog.arrow.read(path, 't')
print(len(next(rows)))
rows.close()
""",
    "the last of a key": "print(tidelog.arrow.read_table(path, 't', key='1', last=3).num_rows)",
    "a write": """
rows = tidelog.arrow.read(path, 't', start_offsets=0, end_offsets=300_000)
print(tidelog.arrow.write(path + '-copy', 't', rows, compression='zstd').total)
""",
}
COUNTS = {"a slow reader": 60_000, "a reader that stops": None, "the last of a key": 3}
COUNTS |= {"a write": 300_000}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with ten gigabytes of values, well compressed."""
    path = tmp_path_factory.mktemp("large") / "data"
    each = 10_000
    value = b'{"text": "' + b"lorem ipsum " * (VALUE_BYTES // 12)
    rows = pa.record_batch(
        {
            "key": [b"%d" % (number % 7) for number in range(each)],
            "value": [value + b"%d" % number for number in range(each)],
        }
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(ROWS // each):
            yield rows

    reader = pa.RecordBatchReader.from_batches(rows.schema, batches())
    done = arrow.write(path, "t", reader, compression="zstd", batch_bytes=1 << 20)
    assert done.total == ROWS
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is in /proc")
@pytest.mark.parametrize("name", BODIES)
def test_ten_gigabytes_are_read_in_bounded_memory(large: Path, name: str) -> None:
    """Whatever the reader does with them."""
    code = MEASURED.format(body=BODIES[name])
    words = [sys.executable, "-c", code, str(large)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()

    count, mib = map(int, printed)
    wanted = COUNTS.get(name, ROWS)
    assert count == wanted if wanted is not None else count > 0
    most = MAX_MIB + (OF_A_WRITE if name == "a write" else 0)
    assert mib <= most, f"{name}: {mib} MiB"
