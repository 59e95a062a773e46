"""Records as Arrow tables, and Arrow tables as record batches.

The public names are loaded on first use: ``read``, ``follow`` and ``dataset`` for every tool,
``ArrowDecoder``, ``TopicEncoder`` and their arguments for programs that read and write themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog.arrow.decode import ArrowDecoder
    from tidelog.arrow.encode import BatchForm, TopicEncoder
    from tidelog.arrow.follow_topic import follow
    from tidelog.arrow.read_topic import dataset, read
    from tidelog.arrow.schema import SCHEMA, SCHEMA_WITH_HEADERS, select
    from tidelog.arrow.topic_dataset import TopicDataset

__all__ = [
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "ArrowDecoder",
    "BatchForm",
    "TopicDataset",
    "TopicEncoder",
    "dataset",
    "follow",
    "read",
    "select",
]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "SCHEMA": "tidelog.arrow.schema",
        "SCHEMA_WITH_HEADERS": "tidelog.arrow.schema",
        "ArrowDecoder": "tidelog.arrow.decode",
        "BatchForm": "tidelog.arrow.encode",
        "TopicDataset": "tidelog.arrow.topic_dataset",
        "TopicEncoder": "tidelog.arrow.encode",
        "dataset": "tidelog.arrow.read_topic",
        "follow": "tidelog.arrow.follow_topic",
        "read": "tidelog.arrow.read_topic",
        "select": "tidelog.arrow.schema",
    },
)
