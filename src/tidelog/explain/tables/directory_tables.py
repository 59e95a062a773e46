"""The system tables that are about a data directory as a whole: topics, checkpoints, groups."""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING, Final

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.offset_checkpoints import CHECKPOINT_FILES, read_offsets
from tidelog.explain.groups import GroupPosition, group_positions
from tidelog.explain.tables.system_table import (
    PLACE,
    Column,
    ColumnType,
    SystemTable,
    cells_of,
    columns_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.explain.tables.system_table import Keys, Row, TableSource

_TEXT, _INT, _LONG = ColumnType.TEXT, ColumnType.INT, ColumnType.LONG


def _topics(source: TableSource, keys: Keys) -> Iterator[Row]:
    chosen = None if keys is None else {key.topic for key in keys}
    for name, topic in source.directory.topics.items():
        if chosen is not None and name not in chosen:
            continue
        yield (
            name,
            None if topic.topic_id is None else format_uuid(topic.topic_id),
            len(topic.partitions) + len(topic.missing),
            len(topic.missing),
            dict(topic.config),
            {key: setting.value for key, setting in topic.inherited.items()},
            ",".join(topic.unknown_settings) or None,
            topic.is_listed,
            topic.is_adopted,
        )


TOPICS: Final = SystemTable(
    "topics",
    "one topic, of the catalogue or found by its directories",
    (
        PLACE[0],
        Column("topicId", _TEXT, "id in Kafka's base64 form; null: no file names it", True),
        Column("partitions", _INT, "number of partitions of this directory"),
        Column("missingPartitions", _INT, "how many of them have no directory"),
        Column("config", ColumnType.TEXTS, "the topic's own settings, by Kafka's names"),
        Column(
            "inherited",
            ColumnType.TEXTS,
            "settings since its creation, or of the broker that wrote it",
        ),
        Column("unknownSettings", _TEXT, "settings about deletion that are not known", True),
        Column("isListed", ColumnType.BOOLEAN, "whether the catalogue lists it"),
        Column("isAdopted", ColumnType.BOOLEAN, "whether Kafka wrote it"),
    ),
    of_directory=_topics,
)


def _checkpoints(source: TableSource, keys: Keys) -> Iterator[Row]:
    for directory, name in product(source.directory.paths, CHECKPOINT_FILES):
        lines = read_offsets(source.fs, os.path.join(directory, name))
        for (topic, partition), offset in sorted(lines.items()):
            if keys is None or (topic, partition) in keys:
                yield name, topic, partition, offset, directory


CHECKPOINTS: Final = SystemTable(
    "checkpoints",
    "one line of an offset checkpoint file",
    (
        Column("file", _TEXT, "name of the checkpoint file"),
        *PLACE,
        Column("offset", _LONG, "the offset in the line"),
        Column("directory", _TEXT, "path of the data directory"),
    ),
    of_directory=_checkpoints,
)


_GROUP_COLUMNS: Final = columns_of(GroupPosition, nullable=("leaderEpoch", "metadata"))


def _groups(source: TableSource, keys: Keys) -> Iterator[Row]:
    for one in group_positions(source.directory):
        if keys is not None and one.key not in keys:
            continue
        yield tuple(cells_of(one, _GROUP_COLUMNS))


GROUPS: Final = SystemTable(
    "groups",
    "the committed position of a consumer group in a partition",
    _GROUP_COLUMNS,
    of_directory=_groups,
)
