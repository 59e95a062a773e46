"""Objects on a store: S3 and what speaks its protocol, Azure, and local files."""
