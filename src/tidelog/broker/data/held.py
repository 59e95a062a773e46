"""Partitions that another thread holds, as a large commit does: the event loop waits for none.

All clients would wait with it. Kafka's brokers append on threads of requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tidelog.env.event_loop import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.partition import Partition

T = TypeVar("T")


def is_held(partition: Partition) -> bool:
    """Whether another thread has the partition now."""
    if not partition.lock.acquire(blocking=False):
        return True
    partition.lock.release()
    return False


async def where_free(partition: Partition, append: Callable[[], T]) -> T:
    """Return what ``append`` returns: called here, or on a thread while the partition is held."""
    return await in_thread(append) if is_held(partition) else append()
