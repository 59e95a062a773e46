"""Kernels that write records as JSON lines."""
