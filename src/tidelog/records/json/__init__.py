"""Records converted to and from lines of JSON."""
