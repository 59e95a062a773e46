"""Messages that a service logs in Kafka's words, values in them written as an ellipsis."""

from __future__ import annotations

from typing import Final

SAME_MESSAGES: Final = (
    (
        "Completed load of … with … segments, local-log-start-offset … and log-end-offset … in …ms "
        "(…/… completed in …)"
    ),
    (
        "Flushing log up to offset … (…) with recovery point …, last flushed: …, current time: …, "
        "unflushed: …"
    ),
    "Setting high watermark …",
    "Appended message set with last offset: …, first offset: …, next offset: …, and messages: …",
    "Duplicate batch detected, returning AppendInfo from duplicate batch with last offset: …",
    "Reading maximum … bytes at offset … from log with total length … bytes",
    "Loading logs from log dirs …",
    "Skipping recovery of … logs from … since clean shutdown file was found",
    "Recovering … logs from … since no clean shutdown file was found",
    "No logs found to be loaded in …",
    "Loaded … logs in …ms",
    " (unclean log dirs = …)",
    "Error while loading log dir …",
    "Loading log …",
    "Starting log cleanup with a period of … ms.",
    "Starting log flusher with a default period of … ms.",
    "Beginning log cleanup...",
    "Garbage collecting '…'",
    "Garbage collecting future log '…'",
    "Log cleanup completed. … files deleted in … seconds",
    "Created log for partition … in … with properties …",
    "Log directory … not found, creating it.",
    "Resizing recovery thread pool size for each data dir from … to …",
    "Checking for dirty logs to flush...",
    "Shutting down.",
    "Shutdown complete.",
)
