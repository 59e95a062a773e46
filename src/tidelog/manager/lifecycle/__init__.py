"""What happens to a partition's log, from its creation to its end."""
