"""Records as Arrow tables, and Arrow tables as record batches.

The public names are loaded on first use: ``ArrowDecoder``, ``TopicEncoder`` and their arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog.arrow.decode import ArrowDecoder
    from tidelog.arrow.encode import BatchForm, TopicEncoder
    from tidelog.arrow.schema import SCHEMA, SCHEMA_WITH_HEADERS, select

__all__ = [
    "SCHEMA",
    "SCHEMA_WITH_HEADERS",
    "ArrowDecoder",
    "BatchForm",
    "TopicEncoder",
    "select",
]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "SCHEMA": "tidelog.arrow.schema",
        "SCHEMA_WITH_HEADERS": "tidelog.arrow.schema",
        "ArrowDecoder": "tidelog.arrow.decode",
        "BatchForm": "tidelog.arrow.encode",
        "TopicEncoder": "tidelog.arrow.encode",
        "select": "tidelog.arrow.schema",
    },
)
