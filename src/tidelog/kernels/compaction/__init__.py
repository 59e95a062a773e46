"""Kernels of the log cleaner: find keys, decide which records to retain, rewrite batches."""
