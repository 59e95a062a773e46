"""What a command says where a package is missing that an extra of tidelog installs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelog.errors import InvalidArgument
from tidelog.lazy import lacking

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Raise InvalidArgument, naming ``extra``, where the body finds a module missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidArgument(lacking(error, extra)) from error
