"""Writing rows of Spark to logs."""
