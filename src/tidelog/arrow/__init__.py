"""Records as Arrow tables, and Arrow tables as record batches.

The public names are loaded on first use: ``read``, ``read_table``, ``follow``, ``dataset`` and
``write`` for every tool, ``ArrowDecoder``, ``TopicEncoder`` and their arguments for programs with
loops of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog.arrow.batch_form import BatchForm
    from tidelog.arrow.decode import ArrowDecoder
    from tidelog.arrow.encode import TopicEncoder
    from tidelog.arrow.follow_topic import follow
    from tidelog.arrow.json_values import ParsedJson, json_schema, parse_json
    from tidelog.arrow.read_topic import dataset, read, read_table
    from tidelog.arrow.schema import SCHEMA, SCHEMA_WITH_HEADERS, select
    from tidelog.arrow.topic_dataset import TopicDataset
    from tidelog.arrow.writing.write_topic import write

__all__ = [
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "ArrowDecoder",
    "BatchForm",
    "ParsedJson",
    "TopicDataset",
    "TopicEncoder",
    "dataset",
    "follow",
    "json_schema",
    "parse_json",
    "read",
    "read_table",
    "select",
    "write",
]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "SCHEMA": "tidelog.arrow.schema",
        "SCHEMA_WITH_HEADERS": "tidelog.arrow.schema",
        "ArrowDecoder": "tidelog.arrow.decode",
        "BatchForm": "tidelog.arrow.batch_form",
        "ParsedJson": "tidelog.arrow.json_values",
        "TopicDataset": "tidelog.arrow.topic_dataset",
        "TopicEncoder": "tidelog.arrow.encode",
        "dataset": "tidelog.arrow.read_topic",
        "follow": "tidelog.arrow.follow_topic",
        "json_schema": "tidelog.arrow.json_values",
        "parse_json": "tidelog.arrow.json_values",
        "read": "tidelog.arrow.read_topic",
        "read_table": "tidelog.arrow.read_topic",
        "select": "tidelog.arrow.schema",
        "write": "tidelog.arrow.writing.write_topic",
    },
    extra="arrow",
)
