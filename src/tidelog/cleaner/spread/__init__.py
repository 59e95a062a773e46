"""One cleaning of a log by many processes: plan, hash, merge, rewrite, swap.

The result is that of ``Cleaner``, for a log whose keys do not fit the memory of one machine. What
starts the processes, and carries bytes between them, is given. Kafka has nothing like it.
"""
