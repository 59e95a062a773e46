"""The addresses of pages; what is put into one is quoted, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from tidelog.explain.pictures.log_picture import BatchSpan, SegmentBlock
    from tidelog.segment.filenames import TopicPartition


def link(*parts: object, **fields: object) -> str:
    """Return the path of a page with its fields; those that are None, empty or False are left out.

    A field ``from_`` stands for ``from``, since Python has that word for itself.
    """
    path = "/" + "/".join(quote(str(part), safe="") for part in parts)
    given = {
        name.rstrip("_"): "1" if value is True else str(value)
        for name, value in fields.items()
        if value is not None and value is not False and value != ""
    }
    return f"{path}?{urlencode(given)}" if given else path


def topic_link(topic: str) -> str:
    """Return the page of a topic."""
    return link("topics", topic)


def partition_link(key: TopicPartition, /, *parts: object, **fields: object) -> str:
    """Return a page of a partition."""
    return link("topics", *key, *parts, **fields)


class PartitionLinks:
    """Where the picture of a partition leads, as ``PictureLinks``."""

    def __init__(self, key: TopicPartition) -> None:
        self._key = key

    def of_block(self, block: SegmentBlock) -> str:
        """Return the batches of a segment."""
        return partition_link(self._key, "batches", from_=block.base_offset)

    def of_span(self, span: BatchSpan) -> str:
        """Return the records of a batch; the batches, where several are drawn as one."""
        page = "records" if span.batches == 1 else "batches"
        return partition_link(self._key, page, from_=max(span.start_offset, 0))
