"""One .log file with its indexes. Must not know other segments."""
