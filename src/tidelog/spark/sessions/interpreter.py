"""The Python that Spark starts its workers with.

Owns the script that spares them half a second each. Spark puts PySpark as a zip before the one that
is installed, and what comes out of a zip is compiled anew in every process: for a stream's reader,
which is a new process each time, and for each kind of worker when a session first needs it.
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tidelog.spark.sessions.scripts import place_script

SCRIPT: Final = """#!/bin/sh
# Spark puts PySpark as a zip, to be compiled in each process, before the same PySpark installed.
# Names that no job exports: a variable that it did export would reach the worker changed.
tidelog_kept=
set -f
IFS=:
for tidelog_place in $PYTHONPATH; do
  case $tidelog_place in
  {lib}/pyspark.zip | {lib}/py4j-*-src.zip) ;;
  *) tidelog_kept=$tidelog_kept${{tidelog_kept:+:}}$tidelog_place ;;
  esac
done
export PYTHONPATH="$tidelog_kept"
exec {python} "$@"
"""


def worker_python() -> str:
    """Return what workers on this machine start: a script before this interpreter, or itself.

    Itself where workers would not find the PySpark of this process without Spark's zip.
    """
    home = _installed_spark()
    if home is None:
        return sys.executable
    return make_script(str(home / "python" / "lib"), sys.executable) or sys.executable


def make_script(lib: str, python: str) -> str | None:
    """Write the script that starts ``python`` without the zips in ``lib``; None if it cannot be."""
    text = SCRIPT.format(lib=shlex.quote(lib), python=shlex.quote(python))
    folder = place_script("python", text)
    return None if folder is None else os.path.join(folder, "bin", "python")


def _installed_spark() -> Path | None:
    """Return PySpark's folder if it is installed with this interpreter, Spark itself inside."""
    if os.name != "posix":  # the script is a POSIX one
        return None
    folders = [_folder("pyspark"), _folder("py4j")]
    installed = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    if any(folder is None or folder.parent not in installed for folder in folders):
        return None
    home = folders[0]
    chosen = os.environ.get("SPARK_HOME")
    return home if chosen is None or Path(chosen) == home else None


def _folder(package: str) -> Path | None:
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent
