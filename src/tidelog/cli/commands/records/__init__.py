"""Commands about what topics contain: records, transactions, positions of groups."""
