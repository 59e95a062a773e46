"""Writing rows of a table to logs, all of them once; also for the tasks of Spark."""
