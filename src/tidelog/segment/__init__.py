"""One .log file with its indexes."""
