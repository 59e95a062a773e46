"""The Spark data source ``tidelog``: batch reads, streams and writes of a data directory.

``session`` starts a Spark session with suitable settings, ``session_conf`` returns these settings
for a session of your own, and ``find_java`` returns the Java that Spark is started with.
``use_in_thread`` lets another thread write. ``gaps`` explains why offsets hold no record,
``verify`` checks a data directory, ``compact`` compacts it, ``mirror`` copies what is new to
another one, ``repartition`` writes a topic's records to another topic with another number of
partitions, and ``watch_streams`` reports the lag of streams.
Names load on first use, so the import is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_door

if TYPE_CHECKING:
    from tidelog.spark.jobs.compact import compact
    from tidelog.spark.jobs.repartition import repartition
    from tidelog.spark.jobs.repartitioned import Repartitioned
    from tidelog.spark.jobs.spark_mirror import mirror
    from tidelog.spark.jobs.verify import verify
    from tidelog.spark.read.data_loss import gaps
    from tidelog.spark.sessions.java import Java, JavaNotFound, find_java
    from tidelog.spark.sessions.spark_session import session, session_conf, use_in_thread
    from tidelog.spark.streams.stream_monitor import StreamMonitor, watch_streams

__all__ = [
    "Java",
    "JavaNotFound",
    "Repartitioned",
    "StreamMonitor",
    "compact",
    "find_java",
    "gaps",
    "mirror",
    "repartition",
    "session",
    "session_conf",
    "use_in_thread",
    "verify",
    "watch_streams",
]

__getattr__, __dir__ = lazy_door(
    __name__,
    {
        "Java": "tidelog.spark.sessions.java",
        "JavaNotFound": "tidelog.spark.sessions.java",
        "Repartitioned": "tidelog.spark.jobs.repartitioned",
        "StreamMonitor": "tidelog.spark.streams.stream_monitor",
        "compact": "tidelog.spark.jobs.compact",
        "find_java": "tidelog.spark.sessions.java",
        "gaps": "tidelog.spark.read.data_loss",
        "mirror": "tidelog.spark.jobs.spark_mirror",
        "repartition": "tidelog.spark.jobs.repartition",
        "session": "tidelog.spark.sessions.spark_session",
        "session_conf": "tidelog.spark.sessions.spark_session",
        "use_in_thread": "tidelog.spark.sessions.spark_session",
        "verify": "tidelog.spark.jobs.verify",
        "watch_streams": "tidelog.spark.streams.stream_monitor",
    },
    extra="spark",
)
