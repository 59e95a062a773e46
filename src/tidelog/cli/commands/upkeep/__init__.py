"""Commands that keep logs sound and small, and the service that does so by itself."""
