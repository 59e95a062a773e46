"""Clock, disk, locks, threads and signals, behind interfaces that tests can replace."""
