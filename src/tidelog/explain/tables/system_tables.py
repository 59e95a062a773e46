"""All system tables by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidArgument
from tidelog.explain.tables.directory_tables import CHECKPOINTS, GROUPS, TOPICS
from tidelog.explain.tables.findings_table import FINDINGS
from tidelog.explain.tables.keys_table import KEYS
from tidelog.explain.tables.partition_tables import (
    BATCHES,
    EPOCHS,
    GAPS,
    PARTITIONS,
    PLAN_COMPACTION,
    PLAN_RETENTION,
    PRODUCERS,
    SEGMENTS,
    TRANSACTIONS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.explain.tables.system_table import SystemTable

SYSTEM_TABLES: Final[Mapping[str, SystemTable]] = {
    table.name: table
    for table in (
        TOPICS,
        PARTITIONS,
        SEGMENTS,
        BATCHES,
        PRODUCERS,
        TRANSACTIONS,
        GAPS,
        EPOCHS,
        CHECKPOINTS,
        GROUPS,
        KEYS,
        FINDINGS,
        PLAN_RETENTION,
        PLAN_COMPACTION,
    )
}


def system_table(name: str) -> SystemTable:
    """Return the table of a name, ignoring case; InvalidArgument if there is none."""
    try:
        return SYSTEM_TABLES[name.strip().lower()]
    except KeyError:
        known = ", ".join(SYSTEM_TABLES)
        raise InvalidArgument(f"there is no system table {name!r}; there are {known}") from None
