"""A numba that is missing or cannot be used: the same answers in plain Python, and one log line."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

WORK = """
import json, logging, sys
lines = []
class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logging.getLogger("tidelog").addHandler(Lines())
import numpy as np
from tidelog.kernels.runtime import gate
used = [gate.use_kernels(1 << 40), gate.use_kernels(1)]
from tidelog.kernels.hashing.crc import crc32c
print(json.dumps([used, lines, crc32c(np.frombuffer(b"123456789", np.uint8), 0, 9)]))
"""
CRC = 0xE3069283

FAILING_IMPORT = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise {error}
sys.meta_path.insert(0, Broken())
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: True if name == "numba" else find_spec(name)
"""


def work(prelude: str) -> tuple[list[bool], list[str], int]:
    """Return, of a new process, which work uses kernels, what it logs, and a checksum."""
    command = [sys.executable, "-c", prelude + WORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    used, lines, crc = json.loads(done.stdout)
    return used, lines, crc


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("prelude", "reason"),
    [
        pytest.param(
            "import sys; sys.modules['numba'] = None", "numba is not installed", id="missing"
        ),
        pytest.param(
            "import os; os.environ['NUMBA_DISABLE_JIT'] = '1'",
            "NUMBA_DISABLE_JIT is set",
            id="switched off",
            marks=SLOW,
        ),
        pytest.param(
            FAILING_IMPORT.format(name="numba", error="ImportError('Numba needs NumPy 2.4')"),
            "ImportError: Numba needs NumPy 2.4",
            id="refuses NumPy",
        ),
        pytest.param(
            FAILING_IMPORT.format(name="llvmlite.binding", error="OSError('no libllvmlite.so')"),
            "OSError: no libllvmlite.so",
            id="broken library",
            marks=SLOW,
        ),
        pytest.param(
            "import numba.extending; del numba.extending.intrinsic",
            "AttributeError: module 'numba.extending' has no attribute 'intrinsic'",
            id="moved",
        ),
        pytest.param(
            "import numba; numba.njit = lambda **options: lambda function: function",
            "TypeError: type 'function' is not an acceptable base type",
            id="changed",
            marks=SLOW,
        ),
    ],
)
def test_an_unusable_numba_is_reported_once_and_plain_code_used(prelude: str, reason: str) -> None:
    """Whatever is wrong with numba, no read fails, and a log line gives the reason."""
    assert work(prelude) == ([False, False], [f"kernels-unavailable reason={reason}"], CRC)


@pytest.mark.slow
def test_without_numbas_cache_kernels_are_compiled_in_each_process(tmp_path: Path) -> None:
    """The classes behind the cache are private to numba: a release may change them."""
    prelude = f"""
import os; os.environ["XDG_CACHE_HOME"] = {str(tmp_path)!r}
import numba.core.caching; del numba.core.caching._CacheLocator
"""
    used, lines, crc = work(prelude)

    assert (used, crc) == ([True, True], CRC)
    assert len(lines) == 1
    assert lines[0].startswith("kernels-not-cached reason=AttributeError: ")
