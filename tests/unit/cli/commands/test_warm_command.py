"""``tidelog warm``."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.kernels.runtime.gate import KERNEL_MODULES

if TYPE_CHECKING:
    Cli = Any

WITHOUT_NUMBA = (
    "import sys; sys.modules['numba'] = None; sys.modules['llvmlite'] = None;"
    " from tidelog.cli.main import main; sys.exit(main(['warm']))"
)


@pytest.mark.slow
def test_every_kernel_is_made_ready(cli: Cli) -> None:
    """The output has the seconds that each part took."""
    outcome = cli("warm", "--json")
    seconds = json.loads(outcome.out)

    assert (outcome.code, set(seconds)) == (0, set(KERNEL_MODULES))
    assert min(seconds.values()) >= 0
    assert cli("warm").out.startswith("kernels ready in ")


def test_without_numba_there_is_nothing_to_warm() -> None:
    """The command succeeds and says why it did nothing."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "numba is not usable here" in done.stdout
