"""The system tables that are about a data directory as a whole: topics, checkpoints, groups."""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING, Final

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.offset_checkpoints import CHECKPOINT_FILES, read_offsets
from tidelog.explain.groups import group_positions
from tidelog.explain.tables.system_table import (
    PARTITION,
    TOPIC,
    Column,
    ColumnType,
    SystemTable,
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
        TOPIC,
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
        TOPIC,
        PARTITION,
        Column("offset", _LONG, "the offset in the line"),
        Column("directory", _TEXT, "path of the data directory"),
    ),
    of_directory=_checkpoints,
)


def _groups(source: TableSource, keys: Keys) -> Iterator[Row]:
    for one in group_positions(source.directory):
        if keys is not None and one.key not in keys:
            continue
        position = one.position
        yield (
            one.group,
            *one.key,
            position.offset,
            one.high_watermark,
            one.lag,
            position.leader_epoch,
            position.commit_time_ms,
            position.metadata,
        )


GROUPS: Final = SystemTable(
    "groups",
    "the committed position of a consumer group in a partition",
    (
        Column("group", _TEXT, "the group's id"),
        TOPIC,
        PARTITION,
        Column("offset", _LONG, "the next offset that the group reads"),
        Column("highWatermark", _LONG, "null: the partition is not in the directory", True),
        Column("lag", _LONG, "offsets from the position to the high watermark", True),
        Column("leaderEpoch", _INT, "leader epoch of the position; null: unknown", True),
        Column("commitTimestamp", ColumnType.TIME, "when the position was committed", True),
        Column("metadata", _TEXT, "text that was committed with the position", True),
    ),
    of_directory=_groups,
)
