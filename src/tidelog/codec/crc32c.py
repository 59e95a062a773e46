"""CRC-32C (Castagnoli) of one buffer, for batch headers and snapshots.

Whole files are checked by ``tidelog.kernels``. Kafka: ``Crc32C``.
"""

from __future__ import annotations

from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.codec.layout import Buffer


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Return the checksum of ``data``; ``crc`` is the checksum of the bytes that precede it.

    The result is an unsigned 32-bit integer. Large buffers are processed without the GIL.
    """
    checksum: int = _library().crc32c(cast("memoryview", data), crc)
    return checksum


def crc32c_of(pieces: Iterable[Buffer]) -> int:
    """Return the checksum of bytes that come in pieces."""
    checksum = 0
    for piece in pieces:
        checksum = crc32c(piece, checksum)
    return checksum


@cache
def _library() -> Any:  # noqa: ANN401 - a module, known only at run time
    """Return the package's compiled module.

    It is loaded directly because importing the package also loads its command line and looks up
    its version among all installed packages: 15 ms at best, 60 ms in a Spark worker.
    """
    package = find_spec("crc32c")
    folders = None if package is None else package.submodule_search_locations
    found = None if folders is None else PathFinder.find_spec("crc32c._crc32c", folders)
    if found is None or found.loader is None:  # a release that is packaged differently
        import crc32c as library  # noqa: PLC0415 - only as a fallback

        return library
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module
