"""How much memory a Spark worker needs, whatever the size of decompressed batches."""

from __future__ import annotations

import threading
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import lz4.frame
import pytest
import zstandard

import tidelog
from tidelog.codec.compression import Codec, compress
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.record import write_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

VALUE = bytes((1 << 20) - 1000)
RECORDS = {Codec.ZSTD: 350, Codec.GZIP: 350, Codec.LZ4: 350, Codec.SNAPPY: 60, Codec.NONE: 60}
"""Records in the one batch of each codec: 350 MB when decompressed, more than 1 GB in all."""

MAX_ANON_BYTES = 400_000_000


def in_one_stream(codec: Codec, parts: Iterator[bytes]) -> bytes:
    """Compress parts one after the other, so that the whole is never in memory."""
    made: Any = {
        Codec.ZSTD: lambda: zstandard.ZstdCompressor().compressobj(),
        Codec.GZIP: lambda: zlib.compressobj(wbits=31),
        Codec.LZ4: lambda: lz4.frame.LZ4FrameCompressor(block_linked=False),
    }
    if codec not in made:
        return b"".join(compress(codec, part) for part in parts)
    stream = made[codec]()
    header: bytes = stream.begin() if codec is Codec.LZ4 else b""
    return b"".join((header, *(stream.compress(part) for part in parts), stream.flush()))


def large_batch(codec: Codec, base_offset: int) -> bytes:
    """Return one batch of records of a megabyte each."""

    def records() -> Iterator[bytes]:
        for number in range(RECORDS[codec]):
            out = bytearray()
            write_record(out, 0, number, key=b"key", value=VALUE)
            yield bytes(out)

    small = BATCH_HEADER.unpack(build_batch([(0, None, b"", ())], codec=codec))
    header = small._replace(
        base_offset=base_offset,
        leader_epoch=0,
        last_offset_delta=RECORDS[codec] - 1,
        records_count=RECORDS[codec],
    )
    return pack_batch(header, in_one_stream(codec, records()))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a directory with a topic of one batch for each codec."""
    path = tmp_path_factory.mktemp("memory") / "data"
    with tidelog.open(path) as logs:
        logs.create_topic("t", config={"max.message.bytes": str(1 << 30)})
        log = logs.partition("t", 0).log
        for codec in RECORDS:
            log.append_as_follower(large_batch(codec, log.log_end_offset), 0)
        log.update_high_watermark(log.log_end_offset)
    return str(path)


class Sampler:
    """Samples the anonymous memory of each worker until the block ends."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.max_anon_bytes: dict[int, int] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.01):
            for process in descendants(self._root):
                with suppress(OSError, KeyError):
                    self._sample(process, Path(f"/proc/{process}"))

    def _sample(self, process: int, folder: Path) -> None:
        # Between fork and exec a child still looks like its parent, Java.
        if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
            anon_bytes = int(fields(folder / "status")["RssAnon"].split()[0]) * 1024
            before = self.max_anon_bytes.get(process, 0)
            self.max_anon_bytes[process] = max(before, anon_bytes)


def descendants(root: int) -> list[int]:
    """Return the descendant processes of ``root``."""
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{root}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def fields(status: Path) -> dict[str, str]:
    """Parse the lines of names and values in a status file."""
    return dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)


@contextmanager
def watched(spark: SparkSession) -> Iterator[Sampler]:
    """Sample the Python processes of the session while the block runs."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    with Sampler(gateway.proc.pid) as sampler:
        yield sampler


def test_a_worker_stays_small_whatever_batches_contain(spark: SparkSession, data_dir: str) -> None:
    """A worker reads 350 records of a megabyte from a small batch in less than 400 MB."""
    options = {"subscribe": "t", "includeHeaders": "true", "startingOffsets": "earliest"}
    with watched(spark) as sampler:
        frame = spark.read.format("tidelog").options(**options).load(data_dir)
        sizes = frame.selectExpr("sum(length(value)) + sum(length(key))").collect()[0][0]
        rows = spark.readStream.format("tidelog").options(**options).load(data_dir)
        query = rows.writeStream.format("noop").trigger(availableNow=True).start()
        assert query.awaitTermination(200)

    assert sizes == sum(RECORDS.values()) * (len(VALUE) + len(b"key"))
    assert query.lastProgress is not None
    assert query.lastProgress["numInputRows"] == sum(RECORDS.values())
    assert len(sampler.max_anon_bytes) > 1
    assert max(sampler.max_anon_bytes.values()) < MAX_ANON_BYTES
