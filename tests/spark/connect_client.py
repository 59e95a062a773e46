"""What a client of Spark Connect runs in, besides this project: Java, one address, and pandas.

PySpark's client needs pandas, which is not a dependency; ``make test-all`` has it in a folder.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tidelog.spark import find_java

PAGES = Path(__file__).parents[2] / ".venvs" / "pages"


def client_environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that is a client; skip the test if it cannot be one."""
    pytest.importorskip("grpc")
    paths = [os.environ.get("PYTHONPATH", "")]
    if find_spec("pandas") is None:
        if not (PAGES / "pandas").is_dir():
            pytest.skip("pandas is not installed: make .venvs/pages/.installed")
        paths.append(str(PAGES))
    return {
        **os.environ,
        "JAVA_HOME": find_java().home,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }
