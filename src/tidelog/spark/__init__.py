"""Spark reads and writes log directories. Must not know sockets of ours, or the command line.

Public door: ``session`` starts a Spark that fits, ``session_conf`` gives its settings, and
``find_java`` tells which Java it takes; ``gaps`` says why offsets hold no record. Names load on
first use, so importing costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog.spark.read.data_loss import gaps
    from tidelog.spark.sessions.java import Java, JavaNotFound, find_java
    from tidelog.spark.sessions.spark_session import session, session_conf

__all__ = ["Java", "JavaNotFound", "find_java", "gaps", "session", "session_conf"]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "Java": "tidelog.spark.sessions.java",
        "JavaNotFound": "tidelog.spark.sessions.java",
        "find_java": "tidelog.spark.sessions.java",
        "gaps": "tidelog.spark.read.data_loss",
        "session": "tidelog.spark.sessions.spark_session",
        "session_conf": "tidelog.spark.sessions.spark_session",
    },
)
