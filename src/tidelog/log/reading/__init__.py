"""What reads of an open log: fetches, lookups and counts, which change nothing."""
