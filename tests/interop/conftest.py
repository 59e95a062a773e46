"""The record formats as implemented by two other Python libraries."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tidelog.codec.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.records.batch import BatchHeader
    from tidelog.records.record import Header


class Seen(NamedTuple):
    """A record as returned by any of the libraries."""

    offset: int
    timestamp: int | None
    timestamp_type: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


@dataclass(frozen=True)
class Library:
    """One library's builders and readers of batches."""

    package: str
    codecs: tuple[Codec, ...]

    def __str__(self) -> str:
        return self.package

    def batches(self, data: bytes) -> list[Any]:
        """Return the batches in ``data``."""
        records = self._part("memory_records").MemoryRecords(data)
        found = []
        while records.has_next():
            found.append(records.next_batch())
        return found

    def records(self, batch: Any) -> list[Seen]:
        """Return the records of one of those batches."""
        return [seen(record) for record in batch]

    def build(self, header: BatchHeader, codec: Codec, records: Sequence[Any]) -> bytes:
        """Return a batch of magic 2 with the producer fields of ``header``."""
        builder = self._part("default_records").DefaultRecordBatchBuilder(
            magic=2,
            compression_type=int(codec),
            is_transactional=int(bool(header.attributes & 0x10)),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            batch_size=1 << 30,
        )
        for offset, (timestamp, key, value, headers) in enumerate(records):
            builder.append(offset, timestamp, key, value, list(headers))
        return bytes(builder.build())

    def build_old(self, magic: int, codec: Codec, records: Sequence[Any]) -> bytes:
        """Return records of magic 0 or 1, in a wrapper if there is a ``codec``."""
        builder = self._part("legacy_records").LegacyRecordBatchBuilder(magic, int(codec), 1 << 30)
        for offset, (timestamp, key, value) in enumerate(records):
            builder.append(offset, timestamp, key, value)
        return bytes(builder.build())

    def _part(self, name: str) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # what they import is their affair
            return import_module(f"{self.package}.record.{name}")


def seen(record: Any) -> Seen:
    """Return the content of a library's record."""
    return Seen(
        record.offset,
        record.timestamp,
        record.timestamp_type,
        as_bytes(record.key),
        as_bytes(record.value),
        tuple((name, as_bytes(value)) for name, value in record.headers or ()),
    )


def as_bytes(value: Any) -> bytes | None:
    """Return a copy of what may be a view."""
    return None if value is None else bytes(value)


# kafka-python needs one package more for snappy, which the other library is asked about anyway.
LIBRARIES = (
    Library("aiokafka", tuple(Codec)),
    Library("kafka", tuple(codec for codec in Codec if codec is not Codec.SNAPPY)),
)


@pytest.fixture(params=LIBRARIES, ids=str, scope="session")
def library(request: pytest.FixtureRequest) -> Library:
    """Yield each library."""
    chosen: Library = request.param
    return chosen


@pytest.fixture(
    params=[(each, codec) for each in LIBRARIES for codec in each.codecs],
    ids=lambda pair: f"{pair[0]}-{pair[1].kafka_name}",
    scope="session",
)
def library_and_codec(request: pytest.FixtureRequest) -> tuple[Library, Codec]:
    """Yield each library with each codec that it supports."""
    chosen: tuple[Library, Codec] = request.param
    return chosen


OLD_FORMS = [
    (each, magic, codec)
    for each in LIBRARIES
    for magic in (0, 1)
    for codec in each.codecs
    if codec is not Codec.ZSTD  # came with magic 2
    if (magic, codec) != (0, Codec.LZ4)  # neither library writes its wrong checksums
]


@pytest.fixture(
    params=OLD_FORMS,
    ids=lambda form: f"{form[0]}-v{form[1]}-{form[2].kafka_name}",
    scope="session",
)
def old_form(request: pytest.FixtureRequest) -> tuple[Library, int, Codec]:
    """Yield each library with each old magic and codec that it supports."""
    chosen: tuple[Library, int, Codec] = request.param
    return chosen
