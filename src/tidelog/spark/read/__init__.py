"""Reading logs with Spark, as a batch or as a stream."""
