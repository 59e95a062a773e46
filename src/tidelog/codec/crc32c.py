"""CRC-32C (Castagnoli) of one buffer.

Owns the choice of library for single buffers: batch headers, snapshots. Must not know what is
summed. Whole files are summed by ``tidelog.kernels``. Kafka: ``Crc32C``.
"""

from __future__ import annotations

from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from tidelog.codec.layout import Buffer


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Return the checksum of ``data``, going on from ``crc``, the checksum of what came before.

    The result is unsigned, 32 bits. Large buffers are summed without the GIL.
    """
    checksum: int = _library().crc32c(cast("memoryview", data), crc)
    return checksum


@cache
def _library() -> Any:  # noqa: ANN401 - a module, known at run time only
    """Return the package's compiled module.

    Not by way of the package: that one also loads its command line, and looks for its version in
    all that is installed, which takes 15 ms at best and 60 in a worker of Spark.
    """
    package = find_spec("crc32c")
    folders = None if package is None else package.submodule_search_locations
    found = None if folders is None else PathFinder.find_spec("crc32c._crc32c", folders)
    if found is None or found.loader is None:  # a release that is made otherwise
        import crc32c as library  # noqa: PLC0415 - only where it must be

        return library
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module
