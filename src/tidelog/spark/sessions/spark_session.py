"""A Spark session with the settings that Python data sources need, on a supported Java.

Figures in comments are from scans of 100-byte records on two cores.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import TYPE_CHECKING, Final

from tidelog.lazy import lacking
from tidelog.spark.releases import check_release, has_limits, spark_release
from tidelog.spark.sessions.interpreter import worker_python
from tidelog.spark.sessions.java import find_java
from tidelog.spark.sessions.parallelism import PARALLELISM, parallelism_of
from tidelog.spark.sessions.scripts import make_temporary_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER: Final = "spark.python.unix.domain.socket.dir"

MAX_SOCKET_FOLDER: Final = 60
"""Maximum length in bytes: macOS limits socket paths to 103 bytes, and Spark's names have 42."""

UNCHECKED: Final = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
"""Disables Arrow's bounds and null checks on each access; Spark checks for null itself."""

COLLECTOR: Final = "-XX:+UseParallelGC"
"""G1, the default collector, adds work to each write of a reference, and a scan has many."""

CHECKPOINT_FILES: Final = "spark.hadoop.fs.AbstractFileSystem.file.impl"
"""Hadoop's setting for the class that writes a stream's checkpoint to a local disk."""

WITHOUT_CHECKSUM_FILES: Final = "org.apache.hadoop.fs.local.RawLocalFs"
"""Spark asks for checkpoint files without checksum files, but Hadoop's default class writes them.
It starts a process to read each link and to set each permission: twenty for a micro-batch, half of
them for checksum files."""

AVAILABLE_NOW: Final = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
"""Without it, Spark 4.0 and 4.1 run one batch only: after a restart, one that is repeated."""

_JAVA_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")

JAVA: Final = "spark.tidelog.java"
"""Our setting that holds the Java which a session runs on."""


def session_conf() -> dict[str, str]:
    """Return settings for any Spark session, also on a cluster, that reads or writes logs.

    On a cluster the ``tidelog`` package must also be installed wherever Python workers run.
    """
    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",  # logs why a worker died
        "spark.python.worker.reuse": "true",  # a new worker costs each task 230 ms
    }
    if os.name == "posix":
        conf[SOCKETS] = "true"  # over TCP each task waits 40 ms
    if not has_limits(spark_release()):
        conf[AVAILABLE_NOW] = "true"
    return conf


def local_conf() -> dict[str, str]:
    """Return settings for a session on this machine only, ``session_conf`` included."""
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
    """Return ``local_conf`` for a local master, ``session_conf`` for any other."""
    return local_conf() if _is_local(master) else session_conf()


def _is_local(master: str) -> bool:
    return master.startswith("local")


def session(**conf: str | float | bool) -> SparkSession:
    """Return the active session, or start one on a supported Java.

    ``session(**{"spark.master": "local[2]", "spark.driver.memory": "4g"})``: ``conf`` holds Spark's
    settings and overrides ours, which are ``local_conf`` for a local master and ``session_conf``
    for any other. The master is ``local[*]`` by default. The setting ``spark.tidelog.java`` of the
    session holds the Java it runs on.

    Raises:
        InvalidArgument: this release of Spark has no Python data sources.
        JavaNotFound: no Java that Spark supports was found.
        ModuleNotFoundError: PySpark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(lacking(error, "spark"), name=error.name) from error

    check_release(spark_release())
    running = SparkSession.getActiveSession()
    settings = {name: _text(value) for name, value in conf.items()}
    if running is None:
        settings = {"spark.master": "local[*]", "spark.app.name": "tidelog"} | settings
        master = settings["spark.master"]
        settings = conf_for(master) | settings | _prepare_environment(master)
        _hand_on_parallelism(settings)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # PySpark checks the version of pandas as it starts; we exchange Arrow data only.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return builder.getOrCreate()


def _prepare_environment(master: str) -> dict[str, str]:
    """Set the environment variables that name Spark's Python and Java; return our own setting."""
    python = sys.executable
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # no other machine needs to reach it
        python = worker_python()
    os.environ["PYSPARK_PYTHON"] = python  # the default is the first python3 on the PATH
    os.environ["PYSPARK_DRIVER_PYTHON"] = python  # runs a data source that is found by name
    java = find_java()
    os.environ["JAVA_HOME"] = java.home
    _log.info("spark-java: %s", java)
    return {JAVA: str(java)}


def _hand_on_parallelism(settings: Mapping[str, str]) -> None:
    """Let the processes that plan reads know how many tasks run at once, if the settings say so."""
    slots = parallelism_of(settings)
    if slots is not None:
        os.environ[PARALLELISM] = str(slots)


def _java_options() -> str:
    """Return JVM options, without a collector if the environment already selects one."""
    chosen = any("GC" in os.environ.get(name, "") for name in _JAVA_VARIABLES)
    return UNCHECKED if chosen else f"{COLLECTOR} {UNCHECKED}"


def _socket_settings() -> dict[str, str]:
    """Return a private folder with a short path for sockets; without one Spark must use TCP."""
    parent = "/tmp" if os.access("/tmp", os.W_OK) else None  # noqa: S108 - the folder in it is private
    folder = make_temporary_folder(parent)
    if len(os.fsencode(folder)) > MAX_SOCKET_FOLDER:
        return {SOCKETS: "false"}
    return {SOCKET_FOLDER: folder}


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - the value of a setting
    return str(value).lower() if isinstance(value, bool) else str(value)


def use_in_thread(spark: SparkSession) -> None:
    """Let the current thread of the driver write with ``spark``; call it first in each thread.

    Spark 4.3 looks up a Python data source for a write in the thread's active session only, which
    Python's threads lack: without this call a write fails with ``DATA_SOURCE_NOT_FOUND``. Reads,
    and threads with Spark Connect, do not need it.
    """
    jvm_session = getattr(spark, "_jsparkSession", None)
    if jvm_session is not None:
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(jvm_session)  # type: ignore[union-attr]  # noqa: SLF001 - PySpark has no public call for it
