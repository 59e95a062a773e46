"""Data directories and the logs in them. Must not know sockets or Spark."""
