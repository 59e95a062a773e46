"""Encode and decode single values: the formats that Kafka's files share."""
