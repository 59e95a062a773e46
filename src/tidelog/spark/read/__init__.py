"""Reading logs with Spark, once or as a stream."""
