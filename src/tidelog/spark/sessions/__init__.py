"""A Spark session that fits this machine, with the Java it needs."""
