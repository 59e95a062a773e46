"""Options of the data source: their parsing, and the offsets they select."""
