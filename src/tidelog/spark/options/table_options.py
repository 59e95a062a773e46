"""The options of a read of a system table: ``table``, which partitions, and what plans assume."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.errors import InvalidArgument
from tidelog.readonly.absent_partitions import BY_OPTION
from tidelog.spark.options.option_values import OptionMap
from tidelog.spark.options.source_options import (
    ALLOW_PARTIAL,
    ANY_TOPIC_CONFIG,
    STRATEGIES,
    TABLE,
    TopicChoice,
    split_topic_config,
    topic_choice,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOW: Final = "now"
_TABLE_OPTIONS: Final = (TABLE, *STRATEGIES, _NOW, ALLOW_PARTIAL, ANY_TOPIC_CONFIG)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of one ``load()`` of a system table.

    ``choice`` None: all partitions, and what is about the directory. ``now_ms``: the time that
    plans assume. ``overrides``: settings that precede those of every topic.
    """

    paths: tuple[str, ...]
    table: str
    choice: TopicChoice | None
    now_ms: int
    overrides: Mapping[str, str] = field(default_factory=dict)
    allow_partial: bool = False

    @property
    def accept(self) -> str | None:
        """As of ``ReadOptions``."""
        return None if self.allow_partial else BY_OPTION

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> TableOptions:
        """Return the options; InvalidArgument if one is unknown, malformed or contradicts."""
        overrides, others = split_topic_config(options)
        checked = OptionMap.checked(others, _TABLE_OPTIONS)
        if checked.ignored:
            raise InvalidArgument(f"option {checked.ignored[0]} does not apply to a system table")
        is_chosen = any(checked.has(name) for name in STRATEGIES)
        now_ms = checked.optional_number(_NOW, minimum=0)
        return cls(
            paths=checked.paths(),
            table=checked.text(TABLE) or "",
            choice=topic_choice(checked) if is_chosen else None,
            now_ms=SYSTEM_CLOCK.now_ms() if now_ms is None else now_ms,
            overrides=overrides,
            allow_partial=checked.flag(ALLOW_PARTIAL),
        )
