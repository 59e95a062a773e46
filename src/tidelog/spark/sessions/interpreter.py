"""The Python interpreter that Spark starts its workers with.

Spark puts a zip of PySpark before the installed package on PYTHONPATH, and Python compiles modules
from a zip again in every process. That costs half a second for each stream reader, which is a new
process each time, and for each kind of worker when a session first needs it. So workers start
through a script that removes the zip.
"""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tidelog.spark.sessions.scripts import write_script

SCRIPT: Final = """#!/bin/sh
# Removes Spark's zip of PySpark from PYTHONPATH: the same PySpark is installed, and modules from a
# zip are compiled in each process. The prefix keeps variables apart from those that a job exports.
tidelog_path=
set -f
IFS=:
for tidelog_entry in $PYTHONPATH; do
  case $tidelog_entry in
  {lib}/pyspark.zip | {lib}/py4j-*-src.zip) ;;
  *) tidelog_path=$tidelog_path${{tidelog_path:+:}}$tidelog_entry ;;
  esac
done
export PYTHONPATH="$tidelog_path"
exec {python} "$@"
"""


def worker_python() -> str:
    """Return what starts workers on this machine: a script around this interpreter, or itself.

    It is the interpreter itself if workers could not find this process's PySpark without the zip,
    or if the script cannot be written.
    """
    home = _installed_spark()
    if home is None:
        return sys.executable
    return make_script(str(home / "python" / "lib"), sys.executable) or sys.executable


def make_script(lib: str, python: str) -> str | None:
    """Write the script that starts ``python`` without the zips in ``lib``.

    Returns its path, or None if no folder can hold it.
    """
    text = SCRIPT.format(lib=shlex.quote(lib), python=shlex.quote(python))
    folder = write_script("python", text)
    return None if folder is None else os.path.join(folder, "bin", "python")


def _installed_spark() -> Path | None:
    """Return PySpark's folder if Spark runs from the PySpark that is installed here."""
    if os.name != "posix":  # the script needs a POSIX shell
        return None
    folders = [_folder("pyspark"), _folder("py4j")]
    installed = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    if any(folder is None or folder.parent not in installed for folder in folders):
        return None
    home = folders[0]
    spark_home = os.environ.get("SPARK_HOME")
    return home if spark_home is None or Path(spark_home) == home else None


def _folder(package: str) -> Path | None:
    spec = find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent
