"""Rules of the memory that kernels work on."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import Final

import pytest

PROGRAM: Final = """
import resource
import numpy as np
from tidelog.kernels.runtime import gate

gate.force({forced})
assert gate.use_kernels(1) is {forced}

def clear() -> None:
    blocks = [np.empty(1 << 19, np.uint8) for _ in range(8)]
    for block in blocks:
        block[:] = 0

for _ in range(4):
    clear()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    clear()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide otherwise")
def test_freed_blocks_are_used_again_once_kernels_are_loaded() -> None:
    """4 MB allocated, written and freed are 1,024 pages: new ones each time without the kernels."""

    def faults(*, forced: bool) -> int:
        program = PROGRAM.format(forced=forced)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert faults(forced=True) < 10
    assert faults(forced=False) > 300
