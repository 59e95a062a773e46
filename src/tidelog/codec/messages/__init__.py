"""The messages that Kafka's servers write into internal topics."""
