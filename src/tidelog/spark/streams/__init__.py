"""Watching the streams of a Spark session: their lag, as metrics and as a group's positions."""
