"""Settings with Kafka's names, defaults and checks, each declared once.

Must not know where settings come from.
"""
