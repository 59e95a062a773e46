"""Whole numbers in JSON that a column of floating-point numbers would round.

An id above 2^53 that is off by one is another id, and PyArrow rounds it without an error. Fractions
are rounded as every JSON parser rounds them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FIRST_INEXACT: Final = {pa.float32(): 1 << 24, pa.float64(): 1 << 53}
"""From here on not every whole number is exact; the first that is not is rounded down to this."""

_MAX_DIGITS: Final = 310
"""No number of more characters, with its sign, is finite as a double."""


class _Whole(NamedTuple):
    """The digits of a number in JSON that has neither a point nor an exponent."""

    digits: str


def rounded_rows(values: Sequence[bytes], parsed: pa.Array) -> dict[int, str]:
    """Return the rows of ``parsed`` that differ from their JSON ``values``, each with the reason.

    The texts are only looked at if a number is so large that it may have been rounded.
    """
    if not _may_be_rounded(parsed):
        return {}
    reasons = ((row, _reason(value, parsed.type)) for row, value in enumerate(values))
    return {row: reason for row, reason in reasons if reason is not None}


def _may_be_rounded(array: pa.Array) -> bool:
    kind = array.type
    if kind in _FIRST_INEXACT:
        large = pc.greater_equal(pc.abs(array), float(_FIRST_INEXACT[kind]))
        return pc.any(large).as_py() is True
    if pa.types.is_struct(kind):
        return any(map(_may_be_rounded, array.flatten()))
    return pa.types.is_list(kind) and _may_be_rounded(array.flatten())


def _reason(value: bytes, kind: pa.DataType) -> str | None:
    found = next(_rounded(json.loads(value, parse_int=_Whole), kind, ""), None)
    if found is None:
        return None
    path, narrow, digits = found
    return f"Column({path}) of {narrow} would round {digits}; a decimal128 in the schema would not"


def _rounded(value: object, kind: pa.DataType, path: str) -> Iterator[tuple[str, Any, str]]:
    """Yield where a whole number would be rounded, to what type, and its digits."""
    if isinstance(value, _Whole):
        if kind in _FIRST_INEXACT and not _is_exact(value.digits, kind):
            yield path, kind, value.digits
    elif isinstance(value, dict) and pa.types.is_struct(kind):
        for field in kind:
            yield from _rounded(value.get(field.name), field.type, f"{path}/{field.name}")
    elif isinstance(value, list) and pa.types.is_list(kind):
        for one in value:
            yield from _rounded(one, kind.value_type, f"{path}/[]")


def _is_exact(digits: str, kind: pa.DataType) -> bool:
    if len(digits) > _MAX_DIGITS:  # more than Python may make an int of
        return False
    nearest = float(digits) if kind == pa.float64() else pa.scalar(float(digits), kind).as_py()
    return int(digits) == nearest
