"""The records of an internal topic that this version can read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from tidelog.errors import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tidelog.records.record import Record

T = TypeVar("T")

_log = logging.getLogger(__name__)


def known_records(
    records: Iterable[Record], read: Callable[[Record], T | None], directory: str
) -> Iterator[tuple[Record, T]]:
    """Yield the records that ``read`` knows, with what it returns; None: it is of another kind.

    One that is malformed, or of a newer version, is logged and left out: the others count as ever.
    ``directory`` is that of their partition.
    """
    for record in records:
        try:
            found = read(record)
        except InvalidRecord as error:
            text = "record-unreadable directory=%s offset=%d reason=%s"
            _log.warning(text, directory, record.offset, error)
            continue
        if found is not None:
            yield record, found
