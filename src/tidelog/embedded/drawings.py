"""What draws logs for notebooks, when one asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


def drawing(
    held: object,
    look: Callable[[], ReadOnlyDirectory],
    topic: str | None = None,
    partition: int | None = None,
) -> Callable[[], str]:
    """Return what makes the HTML of an object with logs; arguments as of ``logs_html``."""

    def draw() -> str:
        from tidelog.explain.pictures.notebook import logs_html  # noqa: PLC0415 - few draw

        return logs_html(held, look, topic, partition)

    return draw
