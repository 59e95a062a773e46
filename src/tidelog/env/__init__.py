"""The only door to time, disk and threads. Must not know what a log is."""
