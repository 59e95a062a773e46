"""The messages in Kafka's internal topics and control records, as of Kafka 4.3.1.

A line is a message: its name, the number by which a record names it, its version or ``key``, and
its fields, as ``fields_of`` reads them. Kafka: the generated classes of ``group-coordinator``,
``transaction-coordinator``, ``share-coordinator``, ``metadata`` and ``clients``, which print the
same names as JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

KEY: Final = -1
"""Stands for a key among the versions of a message."""
NEVER: Final = 1 << 15
"""A version above all others."""

_HEAD: Final = re.compile(r"(\w+) (\d+) (key|v\d+)( flexible)?:")
_WORD: Final = re.compile(r"\s*(#\d+|=[\w-]+|\d+-\d+|\d+\+|\d+|\w+|[\[\]{},?])")


class Type(NamedTuple):
    """The type of a field: a name, ``array`` of ``element``, or ``struct`` of ``fields``.

    A value may be null from version ``null_from`` on.
    """

    name: str
    null_from: int = NEVER
    element: Type | None = None
    fields: tuple[Field, ...] = ()


class Field(NamedTuple):
    """A field of the versions ``first`` to ``last``; ``tag`` is None for one that is always there.

    ``default`` is what it is where it is absent, as the table says it; None: zero or empty.
    """

    name: str
    type: Type
    tag: int | None = None
    default: str | None = None
    first: int = 0
    last: int = NEVER

    def is_in(self, version: int) -> bool:
        """Whether messages of a version have the field."""
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A version of a message, or its key; some of the fields may belong to other versions.

    Compared as an object: its functions are looked up for each message that is read.
    """

    name: str
    is_flexible: bool
    fields: tuple[Field, ...]
    version: int = 0


Messages = dict[tuple[int, int], Message]
"""Messages by their number, and by their version or ``KEY``."""


@cache
def messages_of(family: str) -> Messages:
    """Return the messages of one of ``group transaction share metadata control consumer``."""
    lines = re.sub(r"\n +", " ", _TABLES[family]).splitlines()
    found: Messages = {}
    for line in lines:
        head = _HEAD.match(line)
        assert head is not None, line
        name, number, version, flexible = head.groups()
        key = int(number), KEY if version == "key" else int(version[1:])
        found[key] = Message(name, flexible is not None, fields_of(line[head.end() :]))
    return found


def nearest(family: str, number: int, version: int) -> Message:
    """Return a message in a version, or in the known one that is nearest to it.

    Later versions of these formats only append fields.
    """
    known = [one for other, one in messages_of(family) if other == number and one != KEY]
    return messages_of(family)[number, min(max(version, min(known)), max(known))]


def fields_of(text: str) -> tuple[Field, ...]:
    """Parse fields, separated by commas: ``#`` and a tag, a name, versions, a type, ``=`` default.

    Only name and type must be there. ``[...]`` is an array and ``{...}`` a structure. ``?`` may be
    null, ``?3+`` from version 3 on; versions are ``3+``, ``3-5`` or ``3``. ``flexible`` messages
    have compact sizes and, at the end of each structure, tagged fields.
    """
    return _Parser(text).fields()


class _Parser:
    """Reads the fields of one line."""

    def __init__(self, text: str) -> None:
        self._words = _WORD.findall(text)
        self._at = 0

    def fields(self) -> tuple[Field, ...]:
        found = []
        while self._peek() not in {"", "}"}:
            if self._peek() == ",":
                self._next()
                continue
            tag = int(self._next()[1:]) if self._peek().startswith("#") else None
            name = self._next()
            first, last = self._versions() if self._peek()[:1].isdigit() else (0, NEVER)
            kind = self._type()
            default = self._next()[1:] if self._peek().startswith("=") else None
            found.append(Field(name, kind, tag, default, first, last))
        return tuple(found)

    def _versions(self) -> tuple[int, int]:
        first, dash, last = self._next().partition("-")
        if dash:
            return int(first), int(last)
        return int(first.rstrip("+")), NEVER if first.endswith("+") else int(first)

    def _type(self) -> Type:
        word = self._next()
        found = Type(word)
        if word == "[":
            found = Type("array", element=self._type())
            self._next()
        elif word == "{":
            found = Type("struct", fields=self.fields())
            self._next()
        if self._peek() == "?":
            self._next()
            first = self._versions()[0] if self._peek()[:1].isdigit() else 0
            return found._replace(null_from=first)
        return found

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word


_TABLES: Final = {
    "group": """\
LegacyOffsetCommit 0 key: group string, topic string, partition int32
LegacyOffsetCommit 0 v0: offset int64, metadata string, commitTimestamp int64
OffsetCommit 1 key: group string, topic string, partition int32
OffsetCommit 1 v0: offset int64, metadata string, commitTimestamp int64
OffsetCommit 1 v1: offset int64, metadata string, commitTimestamp int64, expireTimestamp int64
OffsetCommit 1 v2: offset int64, metadata string, commitTimestamp int64
OffsetCommit 1 v3: offset int64, leaderEpoch int32, metadata string, commitTimestamp int64
OffsetCommit 1 v4 flexible: offset int64, leaderEpoch int32, metadata string, commitTimestamp
  int64, #0 topicId uuid
GroupMetadata 2 key: group string
GroupMetadata 2 v0: protocolType string, generation int32, protocol string?, leader string?,
  members [{memberId string, clientId string, clientHost string, sessionTimeout int32,
  subscription bytes, assignment bytes}]
GroupMetadata 2 v1: protocolType string, generation int32, protocol string?, leader string?,
  members [{memberId string, clientId string, clientHost string, rebalanceTimeout int32,
  sessionTimeout int32, subscription bytes, assignment bytes}]
GroupMetadata 2 v2: protocolType string, generation int32, protocol string?, leader string?,
  currentStateTimestamp int64, members [{memberId string, clientId string, clientHost string,
  rebalanceTimeout int32, sessionTimeout int32, subscription bytes, assignment bytes}]
GroupMetadata 2 v3: protocolType string, generation int32, protocol string?, leader string?,
  currentStateTimestamp int64, members [{memberId string, groupInstanceId string?, clientId
  string, clientHost string, rebalanceTimeout int32, sessionTimeout int32, subscription bytes,
  assignment bytes}]
GroupMetadata 2 v4 flexible: protocolType string, generation int32, protocol string?, leader
  string?, currentStateTimestamp int64, members [{memberId string, groupInstanceId string?,
  clientId string, clientHost string, rebalanceTimeout int32, sessionTimeout int32, subscription
  bytes, assignment bytes}]
ConsumerGroupMetadata 3 key: groupId string
ConsumerGroupMetadata 3 v0 flexible: epoch int32, #0 metadataHash int64
ConsumerGroupPartitionMetadata 4 key: groupId string
ConsumerGroupPartitionMetadata 4 v0 flexible: topics [{topicId uuid, topicName string,
  numPartitions int32, partitionMetadata [{partition int32, racks [string]}]}]
ConsumerGroupMemberMetadata 5 key: groupId string, memberId string
ConsumerGroupMemberMetadata 5 v0 flexible: instanceId string?, rackId string?, clientId string,
  clientHost string, subscribedTopicNames [string], subscribedTopicRegex string?,
  rebalanceTimeoutMs int32, serverAssignor string?, #0 classicMemberMetadata {sessionTimeoutMs
  int32, supportedProtocols [{name string, metadata bytes}]}?
ConsumerGroupTargetAssignmentMetadata 6 key: groupId string
ConsumerGroupTargetAssignmentMetadata 6 v0 flexible: assignmentEpoch int32, #0
  assignmentTimestamp int64
ConsumerGroupTargetAssignmentMember 7 key: groupId string, memberId string
ConsumerGroupTargetAssignmentMember 7 v0 flexible: topicPartitions [{topicId uuid, partitions
  [int32]}]
ConsumerGroupCurrentMemberAssignment 8 key: groupId string, memberId string
ConsumerGroupCurrentMemberAssignment 8 v0 flexible: memberEpoch int32, previousMemberEpoch
  int32, state int8, assignedPartitions [{topicId uuid, partitions [int32], #0 assignmentEpochs
  [int32]?}], partitionsPendingRevocation [{topicId uuid, partitions [int32], #0
  assignmentEpochs [int32]?}]
ShareGroupMemberMetadata 10 key: groupId string, memberId string
ShareGroupMemberMetadata 10 v0 flexible: rackId string?, clientId string, clientHost string,
  subscribedTopicNames [string]
ShareGroupMetadata 11 key: groupId string
ShareGroupMetadata 11 v0 flexible: epoch int32, metadataHash int64
ShareGroupTargetAssignmentMetadata 12 key: groupId string
ShareGroupTargetAssignmentMetadata 12 v0 flexible: assignmentEpoch int32, #0 assignmentTimestamp
  int64
ShareGroupTargetAssignmentMember 13 key: groupId string, memberId string
ShareGroupTargetAssignmentMember 13 v0 flexible: topicPartitions [{topicId uuid, partitions
  [int32]}]
ShareGroupCurrentMemberAssignment 14 key: groupId string, memberId string
ShareGroupCurrentMemberAssignment 14 v0 flexible: memberEpoch int32, previousMemberEpoch int32,
  state int8, assignedPartitions [{topicId uuid, partitions [int32]}]
ShareGroupStatePartitionMetadata 15 key: groupId string
ShareGroupStatePartitionMetadata 15 v0 flexible: initializingTopics [{topicId uuid, topicName
  string, partitions [int32]}], initializedTopics [{topicId uuid, topicName string, partitions
  [int32]}], deletingTopics [{topicId uuid, topicName string}]
ConsumerGroupRegularExpression 16 key: groupId string, regularExpression string
ConsumerGroupRegularExpression 16 v0 flexible: topics [string], version int64, timestamp int64
StreamsGroupMetadata 17 key: groupId string
StreamsGroupMetadata 17 v0 flexible: epoch int32, metadataHash int64, #0 validatedTopologyEpoch
  int32, #1 lastAssignmentConfigs [{key string, value string}]?
StreamsGroupMemberMetadata 19 key: groupId string, memberId string
StreamsGroupMemberMetadata 19 v0 flexible: instanceId string?, rackId string?, clientId string,
  clientHost string, rebalanceTimeoutMs int32, topologyEpoch int32, processId string,
  userEndpoint {host string, port uint16}?, clientTags [{key string, value string}]
StreamsGroupTargetAssignmentMetadata 20 key: groupId string
StreamsGroupTargetAssignmentMetadata 20 v0 flexible: assignmentEpoch int32, #0
  assignmentTimestamp int64
StreamsGroupTargetAssignmentMember 21 key: groupId string, memberId string
StreamsGroupTargetAssignmentMember 21 v0 flexible: activeTasks [{subtopologyId string,
  partitions [int32]}], standbyTasks [{subtopologyId string, partitions [int32]}], warmupTasks
  [{subtopologyId string, partitions [int32]}]
StreamsGroupCurrentMemberAssignment 22 key: groupId string, memberId string
StreamsGroupCurrentMemberAssignment 22 v0 flexible: memberEpoch int32, previousMemberEpoch
  int32, state int8, activeTasks [{subtopologyId string, partitions [int32], #0 assignmentEpochs
  [int32]?}], standbyTasks [{subtopologyId string, partitions [int32], #0 assignmentEpochs
  [int32]?}], warmupTasks [{subtopologyId string, partitions [int32], #0 assignmentEpochs
  [int32]?}], activeTasksPendingRevocation [{subtopologyId string, partitions [int32], #0
  assignmentEpochs [int32]?}], standbyTasksPendingRevocation [{subtopologyId string, partitions
  [int32], #0 assignmentEpochs [int32]?}], warmupTasksPendingRevocation [{subtopologyId string,
  partitions [int32], #0 assignmentEpochs [int32]?}]
StreamsGroupTopology 23 key: groupId string
StreamsGroupTopology 23 v0 flexible: epoch int32, subtopologies [{subtopologyId string,
  sourceTopics [string], sourceTopicRegex [string], stateChangelogTopics [{name string,
  partitions int32, replicationFactor int16, topicConfigs [{key string, value string}]}],
  repartitionSinkTopics [string], repartitionSourceTopics [{name string, partitions int32,
  replicationFactor int16, topicConfigs [{key string, value string}]}], copartitionGroups
  [{sourceTopics [int16], sourceTopicRegex [int16], repartitionSourceTopics [int16]}]}]
""",
    "transaction": """\
TransactionLog 0 key: transactionalId string
TransactionLog 0 v0: producerId int64, producerEpoch int16, transactionTimeoutMs int32,
  transactionStatus int8, transactionPartitions [{topic string, partitionIds [int32]}]?,
  transactionLastUpdateTimestampMs int64, transactionStartTimestampMs int64
TransactionLog 0 v1 flexible: producerId int64, producerEpoch int16, transactionTimeoutMs int32,
  transactionStatus int8, transactionPartitions [{topic string, partitionIds [int32]}]?,
  transactionLastUpdateTimestampMs int64, transactionStartTimestampMs int64, #0
  previousProducerId int64 =-1, #1 nextProducerId int64 =-1, #2 clientTransactionVersion int16, #3
  nextProducerEpoch int16 =-1
""",
    "share": """\
ShareSnapshot 0 key: groupId string, topicId uuid, partition int32
ShareSnapshot 0 v0 flexible: snapshotEpoch int32, stateEpoch int32, leaderEpoch int32,
  startOffset int64, createTimestamp int64, writeTimestamp int64, stateBatches [{firstOffset
  int64, lastOffset int64, deliveryState int8, deliveryCount int16}], #0 deliveryCompleteCount
  int32
ShareUpdate 1 key: groupId string, topicId uuid, partition int32
ShareUpdate 1 v0 flexible: snapshotEpoch int32, leaderEpoch int32, startOffset int64,
  stateBatches [{firstOffset int64, lastOffset int64, deliveryState int8, deliveryCount int16}],
  #0 deliveryCompleteCount int32
""",
    "metadata": """\
REGISTER_BROKER_RECORD 0 v0 flexible: brokerId int32, incarnationId uuid, brokerEpoch int64,
  endPoints [{name string, host string, port uint16, securityProtocol int16}], features [{name
  string, minSupportedVersion int16, maxSupportedVersion int16}], rack string?, fenced bool
REGISTER_BROKER_RECORD 0 v1 flexible: brokerId int32, incarnationId uuid, brokerEpoch int64,
  endPoints [{name string, host string, port uint16, securityProtocol int16}], features [{name
  string, minSupportedVersion int16, maxSupportedVersion int16}], rack string?, fenced bool,
  inControlledShutdown bool
REGISTER_BROKER_RECORD 0 v2 flexible: brokerId int32, isMigratingZkBroker bool, incarnationId
  uuid, brokerEpoch int64, endPoints [{name string, host string, port uint16, securityProtocol
  int16}], features [{name string, minSupportedVersion int16, maxSupportedVersion int16}], rack
  string?, fenced bool, inControlledShutdown bool
REGISTER_BROKER_RECORD 0 v3 flexible: brokerId int32, isMigratingZkBroker bool, incarnationId
  uuid, brokerEpoch int64, endPoints [{name string, host string, port uint16, securityProtocol
  int16}], features [{name string, minSupportedVersion int16, maxSupportedVersion int16}], rack
  string?, fenced bool, inControlledShutdown bool, #0 logDirs [uuid]
REGISTER_BROKER_RECORD 0 v4 flexible: brokerId int32, isMigratingZkBroker bool, incarnationId
  uuid, brokerEpoch int64, endPoints [{name string, host string, port uint16, securityProtocol
  int16}], features [{name string, minSupportedVersion int16, maxSupportedVersion int16}], rack
  string?, fenced bool, inControlledShutdown bool, #0 logDirs [uuid], #1 cordonedLogDirs [uuid]?
UNREGISTER_BROKER_RECORD 1 v0 flexible: brokerId int32, brokerEpoch int64
TOPIC_RECORD 2 v0 flexible: name string, topicId uuid
PARTITION_RECORD 3 v0 flexible: partitionId int32, topicId uuid, replicas [int32], isr [int32],
  removingReplicas [int32], addingReplicas [int32], leader int32, leaderEpoch int32,
  partitionEpoch int32, #0 leaderRecoveryState int8
PARTITION_RECORD 3 v1 flexible: partitionId int32, topicId uuid, replicas [int32], isr [int32],
  removingReplicas [int32], addingReplicas [int32], leader int32, leaderEpoch int32,
  partitionEpoch int32, directories [uuid], #0 leaderRecoveryState int8
PARTITION_RECORD 3 v2 flexible: partitionId int32, topicId uuid, replicas [int32], isr [int32],
  removingReplicas [int32], addingReplicas [int32], leader int32, leaderEpoch int32,
  partitionEpoch int32, directories [uuid], #0 leaderRecoveryState int8, #1
  eligibleLeaderReplicas [int32]?, #2 lastKnownElr [int32]?
CONFIG_RECORD 4 v0 flexible: resourceType int8, resourceName string, name string, value string?
PARTITION_CHANGE_RECORD 5 v0 flexible: partitionId int32, topicId uuid, #0 isr [int32]?, #1
  leader int32, #2 replicas [int32]?, #3 removingReplicas [int32]?, #4 addingReplicas [int32]?,
  #5 leaderRecoveryState int8
PARTITION_CHANGE_RECORD 5 v1 flexible: partitionId int32, topicId uuid, #0 isr [int32]?, #1
  leader int32, #2 replicas [int32]?, #3 removingReplicas [int32]?, #4 addingReplicas [int32]?,
  #5 leaderRecoveryState int8, #8 directories [uuid]?
PARTITION_CHANGE_RECORD 5 v2 flexible: partitionId int32, topicId uuid, #0 isr [int32]?, #1
  leader int32, #2 replicas [int32]?, #3 removingReplicas [int32]?, #4 addingReplicas [int32]?,
  #5 leaderRecoveryState int8, #6 eligibleLeaderReplicas [int32]?, #7 lastKnownElr [int32]?, #8
  directories [uuid]?
FENCE_BROKER_RECORD 7 v0 flexible: id int32, epoch int64
UNFENCE_BROKER_RECORD 8 v0 flexible: id int32, epoch int64
REMOVE_TOPIC_RECORD 9 v0 flexible: topicId uuid
DELEGATION_TOKEN_RECORD 10 v0 flexible: owner string, requester string, renewers [string],
  issueTimestamp int64, maxTimestamp int64, expirationTimestamp int64, tokenId string
USER_SCRAM_CREDENTIAL_RECORD 11 v0 flexible: name string, mechanism int8, salt bytes, storedKey
  bytes, serverKey bytes, iterations int32
FEATURE_LEVEL_RECORD 12 v0 flexible: name string, featureLevel int16
CLIENT_QUOTA_RECORD 14 v0 flexible: entity [{entityType string, entityName string?}], key
  string, value float64, remove bool
PRODUCER_IDS_RECORD 15 v0 flexible: brokerId int32, brokerEpoch int64, nextProducerId int64
BROKER_REGISTRATION_CHANGE_RECORD 17 v0 flexible: brokerId int32, brokerEpoch int64, #0 fenced
  int8
BROKER_REGISTRATION_CHANGE_RECORD 17 v1 flexible: brokerId int32, brokerEpoch int64, #0 fenced
  int8, #1 inControlledShutdown int8
BROKER_REGISTRATION_CHANGE_RECORD 17 v2 flexible: brokerId int32, brokerEpoch int64, #0 fenced
  int8, #1 inControlledShutdown int8, #2 logDirs [uuid]
BROKER_REGISTRATION_CHANGE_RECORD 17 v3 flexible: brokerId int32, brokerEpoch int64, #0 fenced
  int8, #1 inControlledShutdown int8, #2 logDirs [uuid], #3 cordonedLogDirs [uuid]?
ACCESS_CONTROL_ENTRY_RECORD 18 v0 flexible: id uuid, resourceType int8, resourceName string,
  patternType int8, principal string, host string, operation int8, permissionType int8
REMOVE_ACCESS_CONTROL_ENTRY_RECORD 19 v0 flexible: id uuid
NO_OP_RECORD 20 v0 flexible:
ZK_MIGRATION_STATE_RECORD 21 v0 flexible: zkMigrationState int8
REMOVE_USER_SCRAM_CREDENTIAL_RECORD 22 v0 flexible: name string, mechanism int8
BEGIN_TRANSACTION_RECORD 23 v0 flexible: #0 name string?
END_TRANSACTION_RECORD 24 v0 flexible:
ABORT_TRANSACTION_RECORD 25 v0 flexible: #0 reason string?
REMOVE_DELEGATION_TOKEN_RECORD 26 v0 flexible: tokenId string
REGISTER_CONTROLLER_RECORD 27 v0 flexible: controllerId int32, incarnationId uuid,
  zkMigrationReady bool, endPoints [{name string, host string, port uint16, securityProtocol
  int16}], features [{name string, minSupportedVersion int16, maxSupportedVersion int16}]
CLEAR_ELR_RECORD 28 v0 flexible: topicName string
""",
    "control": """\
LeaderChange 2 v0 flexible: leaderId int32, voters [{voterId int32}], grantingVoters [{voterId
  int32}]
LeaderChange 2 v1 flexible: leaderId int32, voters [{voterId int32, voterDirectoryId uuid}],
  grantingVoters [{voterId int32, voterDirectoryId uuid}]
SnapshotHeader 3 v0 flexible: lastContainedLogTimestamp int64
SnapshotFooter 4 v0 flexible:
KRaftVersion 5 v0 flexible: kRaftVersion int16
KRaftVoters 6 v0 flexible: voters [{voterId int32, voterDirectoryId uuid, endpoints [{name
  string, host string, port uint16}], kRaftVersionFeature {minSupportedVersion int16,
  maxSupportedVersion int16}}]
""",
    "consumer": """\
Assignment 1 v0: assignedPartitions [{topic string, partitions [int32]}], userData bytes?
Assignment 1 v1: assignedPartitions [{topic string, partitions [int32]}], userData bytes?
Assignment 1 v2: assignedPartitions [{topic string, partitions [int32]}], userData bytes?
Assignment 1 v3: assignedPartitions [{topic string, partitions [int32]}], userData bytes?
Subscription 0 v0: topics [string], userData bytes?
Subscription 0 v1: topics [string], userData bytes?, ownedPartitions [{topic string, partitions
  [int32]}]
Subscription 0 v2: topics [string], userData bytes?, ownedPartitions [{topic string, partitions
  [int32]}], generationId int32
Subscription 0 v3: topics [string], userData bytes?, ownedPartitions [{topic string, partitions
  [int32]}], generationId int32, rackId string?
""",
}
