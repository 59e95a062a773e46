"""Kernels as the Python functions that they are compiled from, to compare both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def as_python(kernel: F) -> F:
    """Return the function that ``kernel`` is compiled from; itself where nothing is compiled."""
    plain: F = getattr(kernel, "py_func", kernel)
    return plain
