"""The options of the data source, and the offsets that they choose."""
