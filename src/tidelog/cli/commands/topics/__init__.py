"""Commands about topics and the data directories that hold them."""
