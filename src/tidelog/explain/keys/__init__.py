"""Which keys of a log have the most records and bytes, found out in bounded memory."""
