"""ListOffsets 0, OffsetCommit 0 and 1, OffsetForLeaderEpoch 0 and 1."""

from __future__ import annotations

from .shapes import ERROR, INT32, INT64, NULLABLE_STRING, STRING, struct

_ASKED_TIME = struct("ListOffsetsPartition", partition_index=INT32, timestamp=INT64, max_num_offsets=INT32)
_FOUND = struct("ListOffsetsPartitionResponse", partition_index=INT32, error_code=ERROR, old_style_offsets=[INT64])
LIST_OFFSETS_REQUEST_0 = struct(
    "ListOffsetsRequest",
    replica_id=INT32,
    topics=[struct("ListOffsetsTopic", name=STRING, partitions=[_ASKED_TIME])],
)
LIST_OFFSETS_ANSWER_0 = struct(
    "ListOffsetsResponse", topics=[struct("ListOffsetsTopicResponse", name=STRING, partitions=[_FOUND])]
)

_COMMITTED_0 = struct(
    "OffsetCommitRequestPartition",
    partition_index=INT32,
    committed_offset=INT64,
    committed_metadata=NULLABLE_STRING,
)
_COMMITTED_1 = struct(
    "OffsetCommitRequestPartition",
    partition_index=INT32,
    committed_offset=INT64,
    commit_timestamp=INT64,
    committed_metadata=NULLABLE_STRING,
)
OFFSET_COMMIT_REQUEST_0 = struct(
    "OffsetCommitRequest",
    group_id=STRING,
    topics=[struct("OffsetCommitRequestTopic", name=STRING, partitions=[_COMMITTED_0])],
)
OFFSET_COMMIT_REQUEST_1 = struct(
    "OffsetCommitRequest",
    group_id=STRING,
    generation_id_or_member_epoch=INT32,
    member_id=STRING,
    topics=[struct("OffsetCommitRequestTopic", name=STRING, partitions=[_COMMITTED_1])],
)

_ASKED_EPOCH = struct("OffsetForLeaderPartition", partition=INT32, leader_epoch=INT32)
_EPOCH_END_0 = struct("EpochEndOffset", error_code=ERROR, partition=INT32, end_offset=INT64)
_EPOCH_END_1 = struct("EpochEndOffset", error_code=ERROR, partition=INT32, leader_epoch=INT32, end_offset=INT64)
OFFSET_FOR_LEADER_EPOCH_REQUEST_0 = struct(
    "OffsetForLeaderEpochRequest",
    topics=[struct("OffsetForLeaderTopic", topic=STRING, partitions=[_ASKED_EPOCH])],
)
OFFSET_FOR_LEADER_EPOCH_ANSWER_0 = struct(
    "OffsetForLeaderEpochResponse",
    topics=[struct("OffsetForLeaderTopicResult", topic=STRING, partitions=[_EPOCH_END_0])],
)
OFFSET_FOR_LEADER_EPOCH_ANSWER_1 = struct(
    "OffsetForLeaderEpochResponse",
    topics=[struct("OffsetForLeaderTopicResult", topic=STRING, partitions=[_EPOCH_END_1])],
)
