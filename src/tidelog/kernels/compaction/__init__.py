"""Kernels with which the cleaner finds keys and writes batches again."""
