"""The requests that are offered to clients, as of Kafka 4.3.1, and their answers.

A request has its name, its number, the versions that are offered, and the version from which it is
flexible; the fields of the request follow ``>`` and those of the response ``<``, see ``fields_of``.
Fields of other versions are left out. Kafka: the message definitions of ``clients``.

``positions`` of OffsetFetch are not Kafka's: only programs that have joined this one get them.
"""

from __future__ import annotations

from typing import Final

TABLE: Final = """\
ApiVersions 18 0-4 flexible 3+
  > clientSoftwareName 3+ string, clientSoftwareVersion 3+ string
  < errorCode int16, apiKeys [{apiKey int16, minVersion int16, maxVersion int16}], throttleTimeMs
    1+ int32, #0 supportedFeatures 3+ [{name string, minVersion int16, maxVersion int16}], #1
    finalizedFeaturesEpoch 3+ int64 =-1, #2 finalizedFeatures 3+ [{name string, maxVersionLevel
    int16, minVersionLevel int16}], #3 zkMigrationReady 3+ bool
SaslHandshake 17 0-1
  > mechanism string
  < errorCode int16, mechanisms [string]
Metadata 3 0-12 flexible 9+
  > topics [{topicId 10+ uuid, name string?10+}]?1+, allowAutoTopicCreation 4+ bool =true,
    includeClusterAuthorizedOperations 8-10 bool, includeTopicAuthorizedOperations 8+ bool
  < throttleTimeMs 3+ int32, brokers [{nodeId int32, host string, port int32, rack 1+ string?
    =null}], clusterId 2+ string? =null, controllerId 1+ int32 =-1, topics [{errorCode int16, name
    string?12+, topicId 10+ uuid, isInternal 1+ bool, partitions [{errorCode int16, partitionIndex
    int32, leaderId int32, leaderEpoch 7+ int32 =-1, replicaNodes [int32], isrNodes [int32],
    offlineReplicas 5+ [int32]}], topicAuthorizedOperations 8+ int32 =-2147483648}],
    clusterAuthorizedOperations 8-10 int32 =-2147483648
Produce 0 0-11 flexible 9+
  > transactionalId 3+ string? =null, acks int16, timeoutMs int32, topicData [{name string,
    partitionData [{index int32, records records?}]}]
  < responses [{name string, partitionResponses [{index int32, errorCode int16, baseOffset int64,
    logAppendTimeMs 2+ int64 =-1, logStartOffset 5+ int64 =-1, recordErrors 8+ [{batchIndex int32,
    batchIndexErrorMessage string? =null}], errorMessage 8+ string? =null, #0 currentLeader 10+
    {leaderId int32 =-1, leaderEpoch int32 =-1}}]}], throttleTimeMs 1+ int32, #0 nodeEndpoints 10+
    [{nodeId int32, host string, port int32, rack string? =null}]
Fetch 1 4-17 flexible 12+
  > #0 clusterId 12+ string? =null, replicaId 4-14 int32 =-1, #1 replicaState 15+ {replicaId int32
    =-1, replicaEpoch int64 =-1}, maxWaitMs int32, minBytes int32, maxBytes int32 =2147483647,
    isolationLevel int8, sessionId 7+ int32, sessionEpoch 7+ int32 =-1, topics [{topic 4-12
    string, topicId 13+ uuid, partitions [{partition int32, currentLeaderEpoch 9+ int32 =-1,
    fetchOffset int64, lastFetchedEpoch 12+ int32 =-1, logStartOffset 5+ int64 =-1,
    partitionMaxBytes int32, #0 replicaDirectoryId 17+ uuid}]}], forgottenTopicsData 7+ [{topic
    7-12 string, topicId 13+ uuid, partitions [int32]}], rackId 11+ string
  < throttleTimeMs int32, errorCode 7+ int16, sessionId 7+ int32, responses [{topic 4-12 string,
    topicId 13+ uuid, partitions [{partitionIndex int32, errorCode int16, highWatermark int64,
    lastStableOffset int64 =-1, logStartOffset 5+ int64 =-1, #0 divergingEpoch 12+ {epoch int32
    =-1, endOffset int64 =-1}, #1 currentLeader 12+ {leaderId int32 =-1, leaderEpoch int32 =-1},
    #2 snapshotId 12+ {endOffset int64 =-1, epoch int32 =-1}, abortedTransactions [{producerId
    int64, firstOffset int64}]?, preferredReadReplica 11+ int32 =-1, records records?}]}], #0
    nodeEndpoints 16+ [{nodeId int32, host string, port int32, rack string? =null}]
ListOffsets 2 1-11 flexible 6+
  > replicaId int32, isolationLevel 2+ int8, topics [{name string, partitions [{partitionIndex
    int32, currentLeaderEpoch 4+ int32 =-1, timestamp int64}]}], timeoutMs 10+ int32
  < throttleTimeMs 2+ int32, topics [{name string, partitions [{partitionIndex int32, errorCode
    int16, timestamp int64 =-1, offset int64 =-1, leaderEpoch 4+ int32 =-1}]}]
FindCoordinator 10 0-6 flexible 3+
  > key 0-3 string, keyType 1+ int8, coordinatorKeys 4+ [string]
  < throttleTimeMs 1+ int32, errorCode 0-3 int16, errorMessage 1-3 string?, nodeId 0-3 int32, host
    0-3 string, port 0-3 int32, coordinators 4+ [{key string, nodeId int32, host string, port
    int32, errorCode int16, errorMessage string?}]
JoinGroup 11 0-9 flexible 6+
  > groupId string, sessionTimeoutMs int32, rebalanceTimeoutMs 1+ int32 =-1, memberId string,
    groupInstanceId 5+ string? =null, protocolType string, protocols [{name string, metadata
    bytes}], reason 8+ string? =null
  < throttleTimeMs 2+ int32, errorCode int16, generationId int32 =-1, protocolType 7+ string?
    =null, protocolName string?7+, leader string, skipAssignment 9+ bool, memberId string, members
    [{memberId string, groupInstanceId 5+ string? =null, metadata bytes}]
SyncGroup 14 0-5 flexible 4+
  > groupId string, generationId int32, memberId string, groupInstanceId 3+ string? =null,
    protocolType 5+ string? =null, protocolName 5+ string? =null, assignments [{memberId string,
    assignment bytes}]
  < throttleTimeMs 1+ int32, errorCode int16, protocolType 5+ string? =null, protocolName 5+
    string? =null, assignment bytes
Heartbeat 12 0-4 flexible 4+
  > groupId string, generationId int32, memberId string, groupInstanceId 3+ string? =null
  < throttleTimeMs 1+ int32, errorCode int16
LeaveGroup 13 0-5 flexible 4+
  > groupId string, memberId 0-2 string, members 3+ [{memberId string, groupInstanceId string?
    =null, reason 5+ string? =null}]
  < throttleTimeMs 1+ int32, errorCode int16, members 3+ [{memberId string, groupInstanceId
    string?, errorCode int16}]
OffsetCommit 8 2-9 flexible 8+
  > groupId string, generationId int32 =-1, memberId string, groupInstanceId 7+ string? =null,
    retentionTimeMs 2-4 int64 =-1, topics [{name string, partitions [{partitionIndex int32,
    committedOffset int64, committedLeaderEpoch 6+ int32 =-1, committedMetadata string?}]}]
  < throttleTimeMs 3+ int32, topics [{name string, partitions [{partitionIndex int32, errorCode
    int16}]}]
OffsetFetch 9 1-9 flexible 6+
  > groupId 1-7 string, topics 1-7 [{name string, partitionIndexes [int32]}]?2+, groups 8+
    [{groupId string, memberId 9+ string? =null, memberEpoch 9+ int32 =-1, topics [{name string,
    partitionIndexes [int32]}]?}], requireStable 7+ bool
  < throttleTimeMs 3+ int32, topics 1-7 [{name string, partitions [{partitionIndex int32,
    committedOffset int64, committedLeaderEpoch 5+ int32 =-1, metadata string?, errorCode
    int16}]}], errorCode 2-7 int16, groups 8+ [{groupId string, topics [{name string, partitions
    [{partitionIndex int32, committedOffset int64, committedLeaderEpoch int32 =-1, metadata
    string?, errorCode int16}]}], errorCode int16}], #9000 positions 7 [{topic string, partition
    int32, offset int64, leaderEpoch int32, recordOffset int64, isLive bool}]? =null
DescribeGroups 15 0-6 flexible 5+
  > groups [string], includeAuthorizedOperations 3+ bool
  < throttleTimeMs 1+ int32, groups [{errorCode int16, errorMessage 6+ string? =null, groupId
    string, groupState string, protocolType string, protocolData string, members [{memberId string,
    groupInstanceId 4+ string? =null, clientId string, clientHost string, memberMetadata bytes,
    memberAssignment bytes}], authorizedOperations 3+ int32 =-2147483648}]
ListGroups 16 0-5 flexible 3+
  > statesFilter 4+ [string], typesFilter 5+ [string]
  < throttleTimeMs 1+ int32, errorCode int16, groups [{groupId string, protocolType string,
    groupState 4+ string, groupType 5+ string}]
DeleteGroups 42 0-2 flexible 2+
  > groupsNames [string]
  < throttleTimeMs int32, results [{groupId string, errorCode int16}]
OffsetDelete 47 0-0
  > groupId string, topics [{name string, partitions [{partitionIndex int32}]}]
  < errorCode int16, throttleTimeMs int32, topics [{name string, partitions [{partitionIndex
    int32, errorCode int16}]}]
InitProducerId 22 0-5 flexible 2+
  > transactionalId string?, transactionTimeoutMs int32, producerId 3+ int64 =-1, producerEpoch 3+
    int16 =-1
  < throttleTimeMs int32, errorCode int16, producerId int64 =-1, producerEpoch int16
AddPartitionsToTxn 24 0-3 flexible 3+
  > transactionalId string, producerId int64, producerEpoch int16, topics [{name string,
    partitions [int32]}]
  < throttleTimeMs int32, results [{name string, resultsByPartition [{partitionIndex int32,
    partitionErrorCode int16}]}]
AddOffsetsToTxn 25 0-4 flexible 3+
  > transactionalId string, producerId int64, producerEpoch int16, groupId string
  < throttleTimeMs int32, errorCode int16
EndTxn 26 0-4 flexible 3+
  > transactionalId string, producerId int64, producerEpoch int16, committed bool
  < throttleTimeMs int32, errorCode int16
TxnOffsetCommit 28 0-4 flexible 3+
  > transactionalId string, groupId string, producerId int64, producerEpoch int16, generationId 3+
    int32 =-1, memberId 3+ string, groupInstanceId 3+ string? =null, topics [{name string,
    partitions [{partitionIndex int32, committedOffset int64, committedLeaderEpoch 2+ int32 =-1,
    committedMetadata string?}]}]
  < throttleTimeMs int32, topics [{name string, partitions [{partitionIndex int32, errorCode
    int16}]}]
OffsetForLeaderEpoch 23 2-4 flexible 4+
  > replicaId 3+ int32 =-2, topics [{topic string, partitions [{partition int32,
    currentLeaderEpoch int32 =-1, leaderEpoch int32}]}]
  < throttleTimeMs int32, topics [{topic string, partitions [{errorCode int16, partition int32,
    leaderEpoch int32 =-1, endOffset int64 =-1}]}]
CreateTopics 19 2-7 flexible 5+
  > topics [{name string, numPartitions int32, replicationFactor int16, assignments
    [{partitionIndex int32, brokerIds [int32]}], configs [{name string, value string?}]}],
    timeoutMs int32 =60000, validateOnly bool
  < throttleTimeMs int32, topics [{name string, topicId 7+ uuid, errorCode int16, errorMessage
    string?, #0 topicConfigErrorCode 5+ int16, numPartitions 5+ int32 =-1, replicationFactor 5+
    int16 =-1, configs 5+ [{name string, value string?, readOnly bool, configSource int8 =-1,
    isSensitive bool}]?}]
DeleteTopics 20 1-6 flexible 4+
  > topics 6+ [{name string? =null, topicId uuid}], topicNames 1-5 [string], timeoutMs int32
  < throttleTimeMs int32, responses [{name string?6+, topicId 6+ uuid, errorCode int16,
    errorMessage 5+ string? =null}]
CreatePartitions 37 0-3 flexible 2+
  > topics [{name string, count int32, assignments [{brokerIds [int32]}]?}], timeoutMs int32,
    validateOnly bool
  < throttleTimeMs int32, results [{name string, errorCode int16, errorMessage string? =null}]
DeleteRecords 21 0-2 flexible 2+
  > topics [{name string, partitions [{partitionIndex int32, offset int64}]}], timeoutMs int32
  < throttleTimeMs int32, topics [{name string, partitions [{partitionIndex int32, lowWatermark
    int64, errorCode int16}]}]
DescribeConfigs 32 1-4 flexible 4+
  > resources [{resourceType int8, resourceName string, configurationKeys [string]?}],
    includeSynonyms bool, includeDocumentation 3+ bool
  < throttleTimeMs int32, results [{errorCode int16, errorMessage string?, resourceType int8,
    resourceName string, configs [{name string, value string?, readOnly bool, configSource int8
    =-1, isSensitive bool, synonyms [{name string, value string?, source int8}], configType 3+
    int8, documentation 3+ string?}]}]
AlterConfigs 33 0-2 flexible 2+
  > resources [{resourceType int8, resourceName string, configs [{name string, value string?}]}],
    validateOnly bool
  < throttleTimeMs int32, responses [{errorCode int16, errorMessage string?, resourceType int8,
    resourceName string}]
IncrementalAlterConfigs 44 0-1 flexible 1+
  > resources [{resourceType int8, resourceName string, configs [{name string, configOperation
    int8, value string?}]}], validateOnly bool
  < throttleTimeMs int32, responses [{errorCode int16, errorMessage string?, resourceType int8,
    resourceName string}]
DescribeCluster 60 0-1 flexible 0+
  > includeClusterAuthorizedOperations bool, endpointType 1+ int8 =1
  < throttleTimeMs int32, errorCode int16, errorMessage string? =null, endpointType 1+ int8 =1,
    clusterId string, controllerId int32 =-1, brokers [{brokerId int32, host string, port int32,
    rack string? =null}], clusterAuthorizedOperations int32 =-2147483648
DescribeLogDirs 35 1-5 flexible 2+
  > topics [{topic string, partitions [int32]}]?
  < throttleTimeMs int32, errorCode 3+ int16, results [{errorCode int16, logDir string, topics
    [{name string, partitions [{partitionIndex int32, partitionSize int64, offsetLag int64,
    isFutureKey bool}]}], totalBytes 4+ int64 =-1, usableBytes 4+ int64 =-1, isCordoned 5+ bool}]
DescribeTopicPartitions 75 0-0 flexible 0+
  > topics [{name string}], responsePartitionLimit int32 =2000, cursor {topicName string,
    partitionIndex int32}? =null
  < throttleTimeMs int32, topics [{errorCode int16, name string?, topicId uuid, isInternal bool,
    partitions [{errorCode int16, partitionIndex int32, leaderId int32, leaderEpoch int32 =-1,
    replicaNodes [int32], isrNodes [int32], eligibleLeaderReplicas [int32]? =null, lastKnownElr
    [int32]? =null, offlineReplicas [int32]}], topicAuthorizedOperations int32 =-2147483648}],
    nextCursor {topicName string, partitionIndex int32}? =null
ListConfigResources 74 0-1 flexible 0+
  > resourceTypes 1+ [int8]
  < throttleTimeMs int32, errorCode int16, configResources [{resourceName string, resourceType 1+
    int8 =16}]
DescribeAcls 29 1-3 flexible 2+
  > resourceTypeFilter int8, resourceNameFilter string?, patternTypeFilter int8 =3, principalFilter
    string?, hostFilter string?, operation int8, permissionType int8
  < throttleTimeMs int32, errorCode int16, errorMessage string?, resources [{resourceType int8,
    resourceName string, patternType int8 =3, acls [{principal string, host string, operation int8,
    permissionType int8}]}]
AlterReplicaLogDirs 34 1-2 flexible 2+
  > dirs [{path string, topics [{name string, partitions [int32]}]}]
  < throttleTimeMs int32, results [{topicName string, partitions [{partitionIndex int32, errorCode
    int16}]}]
DescribeProducers 61 0-0 flexible 0+
  > topics [{name string, partitionIndexes [int32]}]
  < throttleTimeMs int32, topics [{name string, partitions [{partitionIndex int32, errorCode
    int16, errorMessage string? =null, activeProducers [{producerId int64, producerEpoch int32,
    lastSequence int32 =-1, lastTimestamp int64 =-1, coordinatorEpoch int32, currentTxnStartOffset
    int64 =-1}]}]}]
DescribeTransactions 65 0-0 flexible 0+
  > transactionalIds [string]
  < throttleTimeMs int32, transactionStates [{errorCode int16, transactionalId string,
    transactionState string, transactionTimeoutMs int32, transactionStartTimeMs int64, producerId
    int64, producerEpoch int16, topics [{topic string, partitions [int32]}]}]
ListTransactions 66 0-1 flexible 0+
  > stateFilters [string], producerIdFilters [int64], durationFilter 1+ int64 =-1
  < throttleTimeMs int32, errorCode int16, unknownStateFilters [string], transactionStates
    [{transactionalId string, producerId int64, transactionState string}]
ElectLeaders 43 0-2 flexible 2+
  > electionType 1+ int8, topicPartitions [{topic string, partitions [int32]}]?, timeoutMs int32
    =60000
  < throttleTimeMs int32, errorCode 1+ int16, replicaElectionResults [{topic string,
    partitionResult [{partitionId int32, errorCode int16, errorMessage string?}]}]
AlterPartitionReassignments 45 0-1 flexible 0+
  > timeoutMs int32 =60000, allowReplicationFactorChange 1+ bool =true, topics [{name string,
    partitions [{partitionIndex int32, replicas [int32]? =null}]}]
  < throttleTimeMs int32, allowReplicationFactorChange 1+ bool =true, errorCode int16, errorMessage
    string?, responses [{name string, partitions [{partitionIndex int32, errorCode int16,
    errorMessage string?}]}]
ListPartitionReassignments 46 0-0 flexible 0+
  > timeoutMs int32 =60000, topics [{name string, partitionIndexes [int32]}]? =null
  < throttleTimeMs int32, errorCode int16, errorMessage string?, topics [{name string, partitions
    [{partitionIndex int32, replicas [int32], addingReplicas [int32], removingReplicas [int32]}]}]
"""
