"""Kernels that compute checksums and hashes of bytes."""
