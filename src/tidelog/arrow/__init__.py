"""Records as Arrow tables and back. Must not know Spark, or where a log lies."""
