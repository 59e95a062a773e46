"""What another process asks of the holder of a data directory, by files in it.

Kafka: its tools and clients ask a broker over the network.
"""
