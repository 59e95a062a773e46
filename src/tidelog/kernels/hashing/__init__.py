"""Kernels that compute checksums and hashes."""
