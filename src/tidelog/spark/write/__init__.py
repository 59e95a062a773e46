"""Writing rows of a DataFrame to logs."""
