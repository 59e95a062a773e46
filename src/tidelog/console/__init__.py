"""Pages about data directories in a browser, read without a lock, also beside a writer."""
