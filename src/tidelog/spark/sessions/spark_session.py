"""A Spark session with the settings that Python data sources need, on a Java that works.

Owns the settings and the order in which they are applied. Must not know the data source. Each
setting's reason stands beside it; the figures come from scans of 100-byte records on two cores.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING, Final

from tidelog.spark.sessions.interpreter import worker_python
from tidelog.spark.sessions.java import find_java
from tidelog.spark.sessions.scripts import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER: Final = "spark.python.unix.domain.socket.dir"

MAX_SOCKET_FOLDER: Final = 60
"""Longest folder in bytes: macOS takes paths of 103 bytes, and Spark's names have 42."""

UNCHECKED: Final = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
"""Lets Spark read Arrow's columns without a check of each access, for it has asked before."""

COLLECTOR: Final = "-XX:+UseParallelGC"
"""Java's usual collector has work at each write of a reference, and a scan is full of them."""

CHECKPOINT_FILES: Final = "spark.hadoop.fs.AbstractFileSystem.file.impl"
"""What writes the files of a stream's checkpoint to a local disk."""

WITHOUT_CHECKSUM_FILES: Final = "org.apache.hadoop.fs.local.RawLocalFs"
"""Spark asks for checkpoint files without checksum files, and Hadoop's usual class makes them all
the same. It starts a process for each look at a link and each change of permissions: twenty for a
micro-batch, and half of them for checksum files."""

_JAVA_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")

JAVA: Final = "spark.tidelog.java"
"""The setting under which a session says which Java it took."""


def session_conf() -> dict[str, str]:
    """Return the settings to give any Spark, a cluster's too, that reads or writes logs.

    On a cluster the ``tidelog`` package must also be installed where its Python workers run.
    """
    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",  # says why a worker died
        "spark.python.worker.reuse": "true",  # a new worker costs each task 230 ms
    }
    if os.name == "posix":
        conf[SOCKETS] = "true"  # over TCP each task stalls for 40 ms
    return conf


def local_conf() -> dict[str, str]:
    """Return the settings of a session on this machine: ``session_conf`` and what suits one."""
    conf = session_conf() | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",  # the default, 200, is meant for clusters
        "spark.log.level": "WARN",
        "spark.driver.extraJavaOptions": _java_options(),
        CHECKPOINT_FILES: WITHOUT_CHECKSUM_FILES,
    }
    if SOCKETS in conf:
        conf |= _socket_settings()
    return conf


def conf_for(master: str) -> dict[str, str]:
    """Return the settings of a session with this master: ``local_conf`` if it is a local one."""
    return local_conf() if _is_local(master) else session_conf()


def _is_local(master: str) -> bool:
    return master.startswith("local")


def session(**conf: str | float | bool) -> SparkSession:
    """Return the running session, or start one with ``conf``, settings of ours and a fit Java.

    ``session(**{"spark.master": "local[2]", "spark.driver.memory": "4g"})``: names are Spark's, and
    what is given goes before what we would set; the master is ``local[*]`` unless given. For a
    local master we set ``local_conf``, for any other ``session_conf``. The Java taken stands in the
    session's setting ``spark.tidelog.java``.

    Raises:
        JavaNotFound: no Java is fit for Spark.
        ModuleNotFoundError: PySpark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        hint = f"{error.name} is not installed: `pip install tidelog[spark]` brings all of it"
        raise ModuleNotFoundError(hint, name=error.name) from error

    running = SparkSession.getActiveSession()
    given = {name: _text(value) for name, value in conf.items()}
    if running is None:
        given = {"spark.master": "local[*]", "spark.app.name": "tidelog"} | given
        master = given["spark.master"]
        given = conf_for(master) | given | _prepare_environment(master)
    builder = SparkSession.builder
    for name, value in given.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # PySpark looks at pandas as it starts. We give it Arrow, so its version is of no account.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return builder.getOrCreate()


def _prepare_environment(master: str) -> dict[str, str]:
    """Point Spark at this interpreter and at a fit Java; return the settings that say so."""
    python = sys.executable
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # nobody else need reach this session
        python = worker_python()
    os.environ["PYSPARK_PYTHON"] = python  # else workers run the first python3 on the PATH
    os.environ["PYSPARK_DRIVER_PYTHON"] = python  # what runs a data source found by its name
    java = find_java()
    os.environ["JAVA_HOME"] = java.home
    _log.info("spark-java: %s", java)
    return {JAVA: str(java)}


def _java_options() -> str:
    """Return options of the JVM; without the collector if the environment chooses one already."""
    chosen = any("GC" in os.environ.get(name, "") for name in _JAVA_VARIABLES)
    return UNCHECKED if chosen else f"{COLLECTOR} {UNCHECKED}"


def _socket_settings() -> dict[str, str]:
    """Give Spark a folder of our own with a short path; without one it must use TCP."""
    parent = "/tmp" if os.access("/tmp", os.W_OK) else None  # noqa: S108 - the folder in it is private
    folder = temporary_folder(parent)
    if len(os.fsencode(folder)) > MAX_SOCKET_FOLDER:
        return {SOCKETS: "false"}
    return {SOCKET_FOLDER: folder}


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - a setting may be a bool
    return str(value).lower() if isinstance(value, bool) else str(value)
