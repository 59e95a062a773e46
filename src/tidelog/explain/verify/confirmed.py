"""Checks beside a writer: damage counts only when two looks in a row show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tidelog.errors import KafkaStorageError
from tidelog.readonly.log_snapshot import MAX_LOOKS

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def confirmed(
    check: Callable[[], list[T]],
    is_damage: Callable[[T], bool],
    state: Callable[[], object] | None = None,
) -> list[T]:
    """Return what ``check`` finds; repeat it where it finds damage in files that were changing.

    A writer changes files one after the other, and a check reads them one after the other: what
    lies in between may contradict itself.

    Args:
        check: looks at everything once.
        is_damage: whether a finding is damage.
        state: what changes whenever the files do. Unchanged during a check: it is not repeated.
            None: damage is always checked again.

    Raises:
        KafkaStorageError: each of ``MAX_LOOKS`` checks found other damage.
    """
    before: list[T] | None = None
    for _ in range(MAX_LOOKS):
        state_before = None if state is None else state()
        found = check()
        damage = [finding for finding in found if is_damage(finding)]
        if not damage or damage == before:
            return found
        if state is not None and state() == state_before:
            return found
        before = damage
    raise KafkaStorageError(f"each of {MAX_LOOKS} checks found other damage: {damage[0]}")
