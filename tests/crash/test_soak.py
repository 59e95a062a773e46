"""Everything together, killed at random: a short run of ``make soak``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.machinery.scale import scaled

MINUTES = scaled(5)
SOAK = Path(__file__).parents[2] / "tools" / "soak" / "run.py"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2400)
@pytest.mark.skipif(sys.platform != "linux", reason="the soak watches processes in /proc")
def test_no_record_is_lost_or_doubled_while_a_service_and_a_stream_are_killed() -> None:
    """Each is there once and in order, and memory and descriptors of the service do not grow."""
    command = [sys.executable, str(SOAK), "--minutes", str(MINUTES)]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout + result.stderr
