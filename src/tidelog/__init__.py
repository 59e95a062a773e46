"""Kafka's log in Python, with Spark as its data pipeline."""
