"""The `tidelog` command: parse, call one thing, print."""
