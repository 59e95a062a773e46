"""What another process asks of the service that holds a data directory, by files in it.

Kafka: the requests CreateTopics, IncrementalAlterConfigs, DeleteTopics, DeleteRecords and
AlterReplicaLogDirs, which its command line tools send.
"""
